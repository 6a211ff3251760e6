//! `roughlink scenario`

use crate::args::{CopyScenario, List, ShowScenario};
use crate::failure::{Failure, print, print_json};
use crate::show;
use roughlink_lab::error::LabError;
use roughlink_lab::library::{Source, names};
use serde_json::json;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

/// Lists the built-in scenarios.
pub(crate) fn list(args: &List) -> Result<(), Failure> {
    let scenarios = names("scenarios").into_iter().map(|name| Ok((Source::scenario(&name)?, name)));
    let scenarios: Vec<(Source, String)> = scenarios.collect::<Result<_, LabError>>()?;
    if args.json {
        let all: Vec<_> = scenarios
            .iter()
            .map(|(source, name)| json!({ "name": name, "title": title(source), "about": about(&source.text) }))
            .collect();
        return print_json(&all);
    }
    let mut table = show::table(&["name", "what it is"]);
    for (source, name) in &scenarios {
        table.add_row([name, &title(source)]);
    }
    print(&format!("{table}\n"))
}

/// Prints a scenario as it is written.
pub(crate) fn show(args: &ShowScenario) -> Result<(), Failure> {
    print(&Source::scenario(&args.name)?.text)
}

/// Copies a scenario into a file, and the files that it reads into the same folder.
pub(crate) fn copy(args: &CopyScenario) -> Result<(), Failure> {
    let source = Source::scenario(&args.name)?;
    let own_name = format!("{}.toml", source.stem());
    let to = match &args.file {
        None => PathBuf::from(own_name),
        Some(folder) if folder.is_dir() => folder.join(own_name),
        Some(file) => file.clone(),
    };
    let folder = to.parent().unwrap_or(Path::new(""));
    let mut files = vec![(to.clone(), source.text.clone())];
    for (name, text) in source.parse(&[])?.files {
        let beside = Path::new(&name).components().all(|part| matches!(part, Component::Normal(_)));
        if !beside || folder.join(&name) == to {
            let message = if beside {
                format!("{} is also the name of a file that the scenario reads", to.display())
            } else {
                format!("the scenario reads {name}, which is not in its folder")
            };
            let help =
                if beside { "name another file to write" } else { "copy the files by hand, and change the name" };
            return Err(LabError::Usage { message, help: help.into() }.into());
        }
        files.push((folder.join(name), text));
    }
    if let Some((there, _)) = files.iter().find(|(path, _)| !args.force && path.exists()) {
        return Err(LabError::Usage {
            message: format!("{} exists", there.display()),
            help: "--force replaces it; or name another file".into(),
        }
        .into());
    }
    for (path, text) in &files {
        // Of the scenario's own folder the user says that it is there.
        if path.parent().is_some_and(|inner| inner != folder) {
            let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            made.map_err(|source| LabError::Write { path: path.clone(), source })?;
        }
        write(path, text, args.force).map_err(|source| LabError::Write { path: path.clone(), source })?;
    }
    print(&format!("{}\n", to.display()))
}

fn write(path: &Path, text: &str, force: bool) -> io::Result<()> {
    let mut options = OpenOptions::new();
    if force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    options.write(true).open(path)?.write_all(text.as_bytes())
}

/// The title of a scenario.
fn title(source: &Source) -> String {
    let table = source.text.parse::<toml::Table>().ok();
    let name = table.as_ref().and_then(|table| table.get("name")?.as_str());
    name.unwrap_or_default().to_owned()
}

/// The first paragraph of a file's leading comment.
fn about(text: &str) -> String {
    let comment = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
    comment.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}
