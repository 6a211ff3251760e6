//! `roughlink gateway`

#[cfg(target_os = "linux")]
mod element;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod status;

#[cfg(not(target_os = "linux"))]
pub(crate) use super::emulate::{check_gateway as check, run_gateway as run, stat_gateway as stat};
use crate::args::ListArgs;
use crate::failure::{Failure, print, print_json};
use crate::show;
use roughlink_core::gateway::REGISTRY;
use roughlink_core::pep;
use roughlink_scenario::definition;
#[cfg(target_os = "linux")]
pub(crate) use run::{check, run, stat};
use serde_json::{Value, json};

pub(crate) fn list(args: &ListArgs) -> Result<(), Failure> {
    if args.json {
        let all: Vec<_> = kinds()
            .map(|k| {
                json!({ "name": k.name, "summary": k.summary, "source": k.source, "parameters": k.parameters,
                    "schema": k.schema })
            })
            .collect();
        return print_json(&all);
    }
    let mut out = String::new();
    for kind in kinds() {
        let mut table = show::table(&["parameter", "default", "meaning"]);
        for row in rows(&kind) {
            table.add_row(row);
        }
        out += &format!("{}: {}\nfrom {}\n\n{table}\n\n", kind.name, kind.summary, kind.source);
    }
    print(&format!("{}\n", out.trim_end()))
}

/// A kind of gateway in scenario files.
pub(crate) struct ListedKind {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) source: &'static str,
    parameters: toml::Table,
    schema: Value,
}

/// Returns all kinds of gateways: the registry, then the proxy.
pub(crate) fn kinds() -> impl Iterator<Item = ListedKind> {
    let registered = REGISTRY.iter().map(|kind| ListedKind {
        name: kind.name,
        summary: kind.summary,
        source: kind.source,
        parameters: kind.parameters(),
        schema: kind.schema().into(),
    });
    registered.chain([ListedKind {
        name: pep::NAME,
        summary: pep::SUMMARY,
        source: pep::SOURCE,
        parameters: pep::ProxyParams::default().to_table(),
        schema: pep::ProxyParams::schema().into(),
    }])
}

/// Returns name, default and meaning of each parameter; parameters in a table are prefixed with its name and a dot.
pub(crate) fn rows(kind: &ListedKind) -> Vec<[String; 3]> {
    let schema = &kind.schema;
    let mut rows = Vec::new();
    for (key, value) in &kind.parameters {
        let known = &schema["properties"][key];
        match value {
            toml::Value::Table(inner) if !inner.is_empty() => {
                let of = definition(known, schema);
                for (name, value) in inner {
                    rows.push([format!("{key}.{name}"), value.to_string(), meaning(&of["properties"][name], schema)]);
                }
            }
            value => rows.push([key.clone(), value.to_string(), meaning(known, schema)]),
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
