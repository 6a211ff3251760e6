//! `roughlink metric`

use crate::args::ListArgs;
use crate::failure::{Failure, print, print_json};
use crate::show;
use roughlink_lab::metric;

pub(crate) fn list(args: &ListArgs) -> Result<(), Failure> {
    let all = metric::list();
    if args.json {
        return print_json(&all);
    }
    let mut table = show::table(&["name", "of", "unit", "meaning"]);
    for m in &all {
        table.add_row([&m.name, m.of, m.unit, &m.meaning]);
    }
    print(&format!("{table}\n\n{}", metric::FORMS))
}
