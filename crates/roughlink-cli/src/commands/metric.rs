//! `roughlink metric`

use crate::args::List;
use crate::failure::{Failure, print, print_json};
use crate::show;
use roughlink_lab::metric;

/// Lists the metrics.
pub fn list(args: &List) -> Result<(), Failure> {
    let all = metric::list();
    if args.json {
        return print_json(&all);
    }
    let mut table = show::table(&["name", "of", "unit", "what it is"]);
    for m in &all {
        table.add_row([&m.name, m.of, m.unit, m.meaning]);
    }
    print(&format!("{table}\n\n{FORMS}"))
}

/// The suffixes that a name can have.
pub const FORMS: &str = "\
NAME[10..60] is that of the time from 10 s to 60 s; A..B stands for such a window.
NAME@x is that of flow, link or class of stations x (loss@plc.reverse: one direction).
NAME:min, :max, :sum and :mean are over all of them.
";
