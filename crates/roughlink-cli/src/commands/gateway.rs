//! `roughlink gateway`

#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod status;

#[cfg(not(target_os = "linux"))]
pub(crate) use super::emulate::{check_gateway as check, run_gateway as run, stat_gateway as stat};
use crate::args::ListArgs;
use crate::failure::{Failure, print, print_json};
use crate::show;
use roughlink_core::gateway::{REGISTRY, RegisteredGateway};
use roughlink_scenario::definition;
#[cfg(target_os = "linux")]
pub(crate) use run::{check, run, stat};
use serde_json::{Value, json};

pub(crate) fn list(args: &ListArgs) -> Result<(), Failure> {
    if args.json {
        let all: Vec<_> = REGISTRY
            .iter()
            .map(|k| {
                json!({ "name": k.name, "summary": k.summary, "source": k.source, "parameters": k.parameters(),
                    "schema": k.schema() })
            })
            .collect();
        return print_json(&all);
    }
    let mut out = String::new();
    for kind in REGISTRY.iter() {
        let mut table = show::table(&["parameter", "default", "meaning"]);
        for row in rows(kind) {
            table.add_row(row);
        }
        out += &format!("{}: {}\nfrom {}\n\n{table}\n\n", kind.name, kind.summary, kind.source);
    }
    print(&format!("{}\n", out.trim_end()))
}

/// Returns name, default and meaning of each parameter; parameters in a table are prefixed with its name and a dot.
pub(crate) fn rows(kind: &RegisteredGateway) -> Vec<[String; 3]> {
    let schema = Value::from(kind.schema());
    let mut rows = Vec::new();
    for (key, value) in kind.parameters() {
        let known = &schema["properties"][&key];
        match value {
            toml::Value::Table(inner) => {
                let of = definition(known, &schema);
                for (name, value) in inner {
                    rows.push([format!("{key}.{name}"), value.to_string(), meaning(&of["properties"][&name], &schema)]);
                }
            }
            value => rows.push([key.clone(), value.to_string(), meaning(known, &schema)]),
        }
    }
    rows
}

/// Returns the schema's description of a parameter and of its allowed words.
pub(crate) fn meaning(parameter: &Value, root: &Value) -> String {
    let text = |v: &Value| v["description"].as_str().unwrap_or_default().replace('\n', " ");
    let words = definition(parameter, root)["oneOf"].as_array().into_iter().flatten();
    let words = words.map(|w| format!("{}: {}", w["const"], text(w)));
    std::iter::once(text(parameter)).chain(words).collect::<Vec<_>>().join("\n")
}
