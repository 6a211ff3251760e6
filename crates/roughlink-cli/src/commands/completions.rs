//! `roughlink completions`

use crate::args::{Completions, Roughlink};
use crate::failure::{Failure, print};
use clap::CommandFactory as _;
use clap_complete::generate;

pub(crate) fn completions(args: &Completions) -> Result<(), Failure> {
    let mut out = Vec::new();
    generate(clap_complete::Shell::from(args.shell), &mut Roughlink::command(), "roughlink", &mut out);
    print(&String::from_utf8_lossy(&out))
}
