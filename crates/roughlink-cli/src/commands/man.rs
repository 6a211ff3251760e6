//! `roughlink man`

use crate::args::{Man, Roughlink};
use crate::failure::{Failure, print};
use clap::CommandFactory as _;
use clap_mangen::roff::{Roff, roman};
use roughlink_lab::error::LabError;
use roughlink_lab::nearest;

pub(crate) fn man(args: &Man) -> Result<(), Failure> {
    let mut root = Roughlink::command();
    root.build();
    let mut command = &root;
    for name in &args.command {
        command = command.find_subcommand(name).ok_or_else(|| LabError::NotFound {
            what: "command",
            name: name.clone(),
            help: nearest::suggest(name, "expected", command.get_subcommands().map(clap::Command::get_name)),
        })?;
    }
    let mut out = Vec::new();
    let page = clap_mangen::Man::new(command.clone().after_help(None::<&str>));
    page.render(&mut out).map_err(Failure::Output)?;
    if let Some(text) = command.get_after_help() {
        ending(&text.to_string()).to_writer(&mut out).map_err(Failure::Output)?;
    }
    print(&String::from_utf8_lossy(&out))
}

/// Formats the text after the options: a heading up to a colon, then text; indented lines stay as they are.
fn ending(text: &str) -> Roff {
    let (heading, text) = text.split_once(':').unwrap_or(("Notes", text));
    let mut page = Roff::new();
    page.control("SH", [heading.to_uppercase().as_str()]);
    for lines in text
        .trim_start_matches('\n')
        .split_inclusive('\n')
        .collect::<Vec<_>>()
        .chunk_by(|a, b| is_example(a) == is_example(b))
    {
        let example = is_example(lines[0]);
        if example {
            page.control("RS", ["2"]).control("nf", []);
        }
        for line in lines {
            page.text([roman(line.trim())]);
        }
        if example {
            page.control("fi", []).control("RE", []);
        }
    }
    page
}

fn is_example(line: &str) -> bool {
    line.starts_with("  ")
}
