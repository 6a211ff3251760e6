//! `roughlink cc`

use crate::args::cc::CcList;
use crate::failure::{Failure, print, print_json};
use crate::show;
use roughlink_core::cc::{REGISTRY, STACKS, algorithm};
use roughlink_lab::error::LabError;
use roughlink_lab::{algorithms, nearest};

pub(crate) fn list(args: &CcList) -> Result<(), Failure> {
    if args.json {
        return print_json(&algorithms::list());
    }
    if args.names.is_empty() {
        let mut table = show::table(&["name", "summary", "source"]);
        for a in REGISTRY.iter() {
            table.add_row([a.name, a.summary, a.source]);
        }
        return print(&format!("{table}\n`roughlink cc list NAME` shows the parameters of NAME\n"));
    }
    let mut table = show::table(&["name", "summary", "source", "parameters (linux)", "other stacks"]);
    for name in &args.names {
        let a = algorithm(name).map_err(|_| LabError::NotFound {
            what: "congestion control",
            name: name.clone(),
            help: nearest::suggest(name, "expected", REGISTRY.iter().map(|a| a.name)),
        })?;
        let linux = a.parameters("linux");
        let own = linux.iter().map(|(k, v)| format!("{k} = {v}"));
        let mut others = Vec::new();
        // Releases of a simulator have its parameters.
        for stack in STACKS[1..].iter().filter(|stack| !stack.contains('-')) {
            let changed = a.parameters(stack).into_iter().filter(|(k, v)| linux.get(k) != Some(v));
            let changed: Vec<String> = changed.map(|(k, v)| format!("{k} = {v}")).collect();
            if !changed.is_empty() {
                others.push(format!("{stack}: {}", changed.join(", ")));
            }
        }
        let tcp = (!a.tcp.is_empty()).then(|| format!("[tcp] {}", a.tcp.trim()));
        let own: Vec<String> = own.chain(tcp).collect();
        table.add_row([a.name, a.summary, a.source, &own.join("\n"), &others.join("\n")]);
    }
    print(&format!("{table}\n"))
}
