//! `roughlink compare`

use crate::args::Compare;
use crate::failure::{Failure, print, print_json};
use crate::show;
use roughlink_lab::error::LabError;
use roughlink_lab::experiment::{grid, split};
use roughlink_lab::library::ScenarioText;

pub(crate) fn compare(args: &Compare) -> Result<(), Failure> {
    let part = args.division.part.as_deref().map(str::parse).transpose()?;
    let scenarios: Vec<ScenarioText> = (args.scenarios.iter())
        .map(|s| Ok(ScenarioText::scenario(s)?.allow_outside(args.reading.allow_outside)))
        .collect::<Result<_, LabError>>()?;
    let algorithms = args.cc.as_deref().map(split).unwrap_or_default();
    let vary: Vec<_> = args.set.iter().map(|text| grid::choices(text)).collect::<Result<_, LabError>>()?;
    let settings = super::settings(&args.grid, Vec::new(), args.replicas, &args.metric);
    let plan = grid::compare(scenarios, &algorithms, &vary, &settings)?;
    if let Some(part) = part {
        return super::part(&plan, part, &args.grid, "compare");
    }
    let result = super::grid(&plan, &args.grid, "compare")?;
    if args.grid.form.json { print_json(&result) } else { print(&show::comparison(&result)) }
}
