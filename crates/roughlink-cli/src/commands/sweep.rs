//! `roughlink sweep`

use crate::args::Sweep;
use crate::failure::{Failure, print, print_json};
use crate::show;
use roughlink_core::text::slug;
use roughlink_lab::error::LabError;
use roughlink_lab::experiment::grid;
use roughlink_lab::library::ScenarioText;

pub(crate) fn sweep(args: &Sweep) -> Result<(), Failure> {
    let part = args.division.part.as_deref().map(str::parse).transpose()?;
    let source = ScenarioText::scenario(&args.scenario)?.allow_outside(args.reading.allow_outside);
    let mut vary: Vec<_> = args.set.iter().map(|text| grid::choices(text)).collect::<Result<_, LabError>>()?;
    vary.extend(args.rows.as_deref().map(grid::rows).transpose()?);
    let settings = super::settings(&args.grid, Vec::new(), args.replicas, &args.metric);
    let plan = grid::sweep(source, &vary, &settings)?;
    let name = slug(&plan.experiment.id, "results");
    if let Some(part) = part {
        return super::part(&plan, part, &args.grid, &name);
    }
    let result = super::grid(&plan, &args.grid, &name)?;
    if args.grid.form.json { print_json(&result) } else { print(&show::experiment(&result)) }
}
