//! Values of keys: the written value, or else the value in effect. Paths have the form of an override's key
//! ([`super::set`]), without `*`.

use super::kinds::{alternatives, chosen, keys, kinds, meanings, name, name_of, resolve};
use super::noise::named;
use super::problem::{Problem, suggest};
use super::schema::FORM;
use super::set::segments;
use super::shape::unknown;
use roughlink_core::scenario::{FlowSpec, Scenario};
use roughlink_core::tcp::{Stack, TcpConfig};
use serde_json::Value as Schema;
use std::collections::BTreeSet;
use toml::{Table, Value};

/// Returns the value of a key of a scenario: the written value, or else the default. The default of a key of `[tcp]` is
/// the value in effect in all TCP flows. If the flows differ, it is the value of the stack. Returns `None` if the key
/// is absent and has no default.
///
/// # Errors
/// Returns an error if the scenario cannot have such a key, or if the path names no element of a list.
///
/// ```
/// let text = r#"
///     duration = "10 s"
///     node = [{ name = "a" }, { name = "b" }]
///     link = [{ name = "cable", between = ["a", "b"], rate = "10 Mbit/s", delay = "2 ms" }]
///     flow = [{ name = "f", kind = "bulk", from = "a", to = "b" }]
/// "#;
/// let (scenario, _) = roughlink_scenario::parse(text, "cable.toml", &[], &|_| Err("no files".into()))?;
/// let value = |key| roughlink_scenario::value(&scenario, key).unwrap().unwrap();
/// assert_eq!(value("link.cable.rate").as_str(), Some("10 Mbit/s"));
/// assert_eq!(value("flow.f.cc").as_str(), Some("cubic"));
/// assert_eq!(value("tcp.min_rto").as_str(), Some("200 ms"));
/// # Ok::<(), roughlink_scenario::ScenarioError>(())
/// ```
pub fn value(scenario: &Scenario, path: &str) -> Result<Option<Value>, Problem> {
    let path = segments(path)?;
    let written: Table = scenario.source.parse().unwrap_or_default();
    let found = Place { table: Some(&written), schema: &FORM, noun: "the scenario" }.get(&path)?;
    let from_flows = || match &path[..] {
        [table, key] if table == "tcp" || table == "sctp" => {
            let of = scenario.flows.iter().filter(|f| (table == "tcp") == f.tcp().is_some() && f.cc().is_some());
            let mut values = of.map(|flow| of_flow(flow, key));
            let first = values.next().flatten()?;
            values.all(|value| value.as_ref() == Some(&first)).then_some(first)
        }
        [list, flow, own @ .., key] if list == "flow" && (own.is_empty() || own == ["tcp"]) => {
            let number = flow.parse().ok();
            let is = |(i, f): &(usize, &FlowSpec)| f.name == *flow || Some(*i) == number;
            scenario.flows.iter().enumerate().find(is).and_then(|(_, flow)| of_flow(flow, key))
        }
        _ => None,
    };
    Ok(match found {
        Found::Written(value) => Some(value),
        Found::Default(default) => from_flows().or(default).or_else(|| of_stack(&written, &path)),
    })
}

/// Returns the value of a key of `[tcp]` in the stack of a scenario.
fn of_stack(written: &Table, path: &[String]) -> Option<Value> {
    let key = path.last().filter(|_| path[0] == "tcp")?;
    let usual = FORM["$defs"]["Tcp"]["properties"]["stack"]["default"].as_str();
    let named = written.get("tcp").and_then(|tcp| tcp.get("stack")).and_then(Value::as_str).or(usual)?;
    let stack = Stack::ALL.into_iter().find(|stack| stack.name() == named)?;
    Table::try_from(TcpConfig::preset(stack)).ok()?.remove(key)
}

/// Returns the value that a key of the transport has for a flow.
fn of_flow(flow: &FlowSpec, key: &str) -> Option<Value> {
    match key {
        "cc" => flow.cc().map(|cc| cc.name.clone().into()),
        _ => Table::try_from(&**flow.tcp()?).ok()?.remove(key),
    }
}

enum Found {
    Written(Value),
    Default(Option<Value>),
}

/// Table on the path. The file may lack it.
struct Place<'p> {
    table: Option<&'p Table>,
    schema: &'p Schema,
    noun: &'p str,
}

impl Place<'_> {
    fn get(&self, path: &[String]) -> Result<Found, Problem> {
        let [key, rest @ ..] = path else {
            return Err(Problem::new(format!("{} is a table", self.noun)).help("add one of its keys to the path"));
        };
        let schema = resolve(self.schema, &FORM);
        let written = self.table.and_then(|table| table.get(key));
        if schema.get("properties").is_none() {
            // Parameters, or names that the user chooses.
            return match (written, rest) {
                (Some(value), []) => Ok(Found::Written(value.clone())),
                (Some(Value::Table(inner)), rest) => {
                    let each = schema.get("additionalProperties").filter(|each| each.is_object());
                    Place { table: Some(inner), schema: each.unwrap_or(&Schema::Null), noun: key }.get(rest)
                }
                _ => Ok(Found::Default(None)),
            };
        }
        let kind = chosen(schema, self.table.and_then(|table| table.get("kind")).and_then(Value::as_str));
        let Some(says) = meanings(schema, kind, key).into_iter().next() else {
            let of = kind.map_or_else(|| kinds(schema).iter().collect::<Vec<_>>(), |kind| vec![kind]);
            let all: BTreeSet<&str> = [schema].into_iter().chain(of).flat_map(keys).map(|(key, _)| key).collect();
            let help = unknown(key, &all.into_iter().collect::<Vec<_>>(), &FORM);
            return Err(Problem::new(format!("unknown key `{key}` in {}", self.noun)).help(help));
        };
        let all = alternatives(says);
        if rest.is_empty() {
            let default = match key.as_str() {
                "kind" => kind.map(|kind| name(kind).into()),
                _ => says.get("default").and_then(|default| Value::try_from(default).ok()),
            };
            return Ok(written.map_or(Found::Default(default), |value| Found::Written(value.clone())));
        }
        let is = |kind: &str| all.iter().copied().find(|s| resolve(s, &FORM)["type"] == kind);
        match (written, is("array").filter(|s| name_of(&s["items"]).is_some()), is("object")) {
            (Some(Value::Array(elements)), Some(list), _) => element(elements, key, &list["items"], rest),
            (None, Some(_), None) => Err(Problem::new(format!("the scenario has no {key}"))),
            (Some(Value::String(word)), _, Some(schema)) if name_of(schema) == Some("Noise") => {
                let table = named(word).into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
                Place { table: Some(&table), schema, noun: key }.get(rest)
            }
            (Some(Value::Table(_)) | None, _, Some(schema)) => {
                Place { table: written.and_then(Value::as_table), schema, noun: key }.get(rest)
            }
            _ => Err(Problem::new(format!("`{key}` is not a table")).help("leave out the end of the path")),
        }
    }
}

/// Returns the value of a key in the element that the path names.
fn element(elements: &[Value], key: &str, schema: &Schema, path: &[String]) -> Result<Found, Problem> {
    let [which, rest @ ..] = path else { unreachable!("the path goes on") };
    let names: Vec<&str> = elements.iter().filter_map(|e| e.get("name").and_then(Value::as_str)).collect();
    let number = || which.parse().ok().filter(|i| *i < elements.len());
    let Some(i) = elements.iter().position(|e| e.get("name").and_then(Value::as_str) == Some(which)).or_else(number)
    else {
        let help = match names.is_empty() {
            true => format!("select one by its number, 0 to {}", elements.len().saturating_sub(1)),
            false => suggest(which, "use one of", names),
        };
        return Err(Problem::new(format!("unknown {key} `{which}`")).help(help));
    };
    match rest {
        [] => Ok(Found::Written(elements[i].clone())),
        rest => Place { table: elements[i].as_table(), schema, noun: &format!("{key} `{which}`") }.get(rest),
    }
}
