//! `roughlink man`

use crate::args::{Man, Roughlink};
use crate::failure::{Failure, print};
use clap::{Command, CommandFactory as _};
use roughlink_lab::error::LabError;
use roughlink_lab::nearest;

/// Prints the manual page of the program or of one of its commands.
pub fn man(args: &Man) -> Result<(), Failure> {
    let mut root = Roughlink::command();
    root.build();
    let mut command = &root;
    for name in &args.command {
        command = command.find_subcommand(name).ok_or_else(|| LabError::NotFound {
            what: "command",
            name: name.clone(),
            help: nearest::suggest(name, "there are", command.get_subcommands().map(Command::get_name)),
        })?;
    }
    let mut out = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut out).map_err(Failure::Output)?;
    print(&String::from_utf8_lossy(&out))
}
