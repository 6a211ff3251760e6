//! systemd units that repeat a command line.

use crate::failure::{Failure, print_stderr};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Returns this command line for a unit, without `--unit`: the program and its arguments. The values of options in
/// `paths` become absolute if they are paths, because systemd starts units in the root folder. Warns if other users may
/// replace the program.
pub(crate) fn command_line(paths: &[&str]) -> Result<(String, Vec<String>), Failure> {
    let program = std::env::current_exe().map_err(|e| Failure::Machine(e.to_string(), None))?;
    if others_may_replace(&program) {
        print_stderr(&format!(
            "warning: other users may replace `{}`, which systemd will run as root\nhelp: install roughlink where only \
             root may write, such as /usr/local/bin",
            program.display()
        ));
    }
    let absolute = |name: &str| match name.contains('/') {
        true => std::path::absolute(name).map_or(name.to_owned(), |path| path.display().to_string()),
        false => name.to_owned(),
    };
    let mut words: Vec<String> = Vec::new();
    for word in std::env::args().skip(1).filter(|w| w != "--unit") {
        let is_value = words.last().is_some_and(|last| paths.contains(&last.as_str()));
        words.push(match word.split_once('=') {
            Some((option, value)) if paths.contains(&option) => format!("{option}={}", absolute(value)),
            _ if is_value => absolute(&word),
            _ => word,
        });
    }
    Ok((quoted(&program.display().to_string()), words))
}

/// Quotes words for a unit and joins them.
pub(crate) fn joined(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Returns true if users other than root may replace the file `program`, or a folder in which it is.
fn others_may_replace(program: &Path) -> bool {
    let is_open = |m: Metadata| {
        // In a sticky folder, only the owners of the folder and of a file may replace the file.
        let is_sticky = m.is_dir() && m.mode() & 0o1000 != 0;
        m.uid() != 0 || m.mode() & 0o022 != 0 && !is_sticky
    };
    program.ancestors().filter_map(|path| path.metadata().ok()).any(is_open)
}

/// Quotes a word for a systemd unit: systemd.syntax(7), "Quoting", and the specifiers of systemd.unit(5).
fn quoted(word: &str) -> String {
    if word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=".contains(c)) {
        return word.to_owned();
    }
    let escaped = word.chars().map(|c| match c {
        '\\' | '"' => format!("\\{c}"),
        '%' | '$' => format!("{c}{c}"),
        c if c.is_ascii_control() => format!("\\x{:02x}", u32::from(c)),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, chown};

    #[test]
    fn program_that_others_may_replace_is_recognized() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("roughlink");
        fs::write(&program, "").unwrap();
        if others_may_replace(&program) {
            eprintln!("skipped: others may replace temporary files of this user");
            return;
        }
        let set = |path: &Path, mode: u32| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let replaceable = |folder_mode, mode| {
            set(folder.path(), folder_mode);
            set(&program, mode);
            others_may_replace(&program)
        };
        let found = [(0o755, 0o755), (0o777, 0o755), (0o1777, 0o755), (0o755, 0o775), (0o755, 0o757)];
        let found = found.map(|(folder, file)| replaceable(folder, file));
        assert_eq!(found, [false, true, false, true, true]);
        assert!(!replaceable(0o755, 0o755));
        chown(&program, Some(65534), None).unwrap();
        assert!(others_may_replace(&program));
    }
}
