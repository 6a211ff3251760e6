//! Text of a scenario with one link and one flow.

/// Nodes `a` and `b`, link `l` between them, flow `f` from `a` to `b`; `tcp`, `link` and `flow` are additional lines.
pub fn one_link(tcp: &str, link: &str, flow: &str) -> String {
    format!(
        r#"
duration = "600 s"
node = [{{ name = "a" }}, {{ name = "b" }}]
[tcp]
{tcp}
[[link]]
name = "l"
between = ["a", "b"]
{link}
[[flow]]
name = "f"
from = "a"
to = "b"
{flow}
"#
    )
}
