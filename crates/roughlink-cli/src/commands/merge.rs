//! `roughlink merge`

use crate::args::Merge;
use crate::failure::{Failure, print, print_json, print_stderr};
use crate::show;
use roughlink_lab::experiment::order::GridKind;
use roughlink_lab::{folder, part};

pub(crate) fn merge(args: &Merge) -> Result<(), Failure> {
    let merged = part::merge(&args.folders, &args.output, args.max_runs)?;
    super::warn_of(&merged.plan, args.form.quiet);
    // Reported even with `--quiet`: a disk that changes data is serious.
    merged.damage.iter().chain(merged.store.damage()).for_each(|damage| print_stderr(&damage.to_string()));
    merged.complete()?;
    let (result, report, ()) = folder::finish(&merged.plan, &merged.store, super::REVISION, drop)?;
    super::reported(&report, args.form.quiet);
    if args.form.json {
        return print_json(&result);
    }
    match merged.plan.order.map(|order| order.kind) {
        Some(GridKind::Compare { .. }) => print(&show::comparison(&result)),
        _ => print(&show::experiment(&result)),
    }
}
