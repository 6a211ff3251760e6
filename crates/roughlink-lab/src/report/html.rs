//! Text as HTML: escapes, identifiers, readable numbers.

use crate::statistics::ConfidenceInterval;
use roughlink_core::text;
use serde_json::Value;

/// Escapes text for an element's content or a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Formats JSON for a script element: no character in it can end the element or begin a comment.
pub(super) fn json(value: &Value) -> String {
    value.to_string().replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e")
}

/// Renders plain text with empty lines between paragraphs; text between backticks is code.
pub(super) fn paragraphs(text: &str, class: &str) -> String {
    text.split("\n\n")
        .map(str::trim)
        .filter(|p| !p.is_empty())
        .map(|p| format!("<p class=\"{class}\">{}</p>\n", code(p)))
        .collect()
}

fn code(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return escape(text); // an unpaired backtick
    }
    let part =
        |(i, part): (usize, &&str)| if i % 2 == 0 { escape(part) } else { format!("<code>{}</code>", escape(part)) };
    parts.iter().enumerate().map(part).collect()
}

/// Returns the name of an experiment in addresses and file names.
pub(super) fn slug(experiment: &str) -> String {
    text::slug(experiment, "experiment")
}

fn decimals(x: f64) -> usize {
    match x.abs() {
        a if a >= 1000.0 => 0,
        a if a >= 100.0 => 1,
        a if a >= 10.0 => 2,
        _ => 3,
    }
}

/// Formats a measured number with about four digits.
pub(super) fn number(x: f64) -> String {
    if !x.is_finite() {
        return "-".into();
    }
    if x != 0.0 && x.abs() < 0.001 {
        return format!("{x:.2e}");
    }
    if x.fract() == 0.0 && x.abs() < 1e15 {
        return format!("{x:.0}");
    }
    format!("{x:.*}", decimals(x))
}

/// Formats a mean and the half width of its confidence interval, both with the mean's decimals.
pub(super) fn with_interval(mean: f64, ci: Option<f64>) -> (String, Option<String>) {
    let Some(ci) = ci.filter(|c| c.is_finite()) else { return (number(mean), None) };
    if mean != 0.0 && mean.abs() < 0.001 {
        return (number(mean), Some(format!("{ci:.2e}")));
    }
    if mean.fract() == 0.0 && ci == 0.0 {
        return (number(mean), Some("0".into()));
    }
    let places = decimals(mean);
    (format!("{mean:.places$}"), Some(format!("{ci:.places$}")))
}

/// Formats an interval as `1.2 to 3.4`, or `&gt; 1.2` or `&lt; 3.4` if only one end is known.
pub(super) fn range([from, to]: ConfidenceInterval) -> String {
    match (from.is_finite(), to.is_finite()) {
        (_, false) => format!("&gt; {}", number(from)),
        (false, _) => format!("&lt; {}", number(to)),
        _ => format!("{} to {}", number(from), number(to)),
    }
}

/// Formats a given number with up to six significant digits, without trailing zeros.
pub(super) fn exact(x: f64) -> String {
    if x.is_finite() { rounded(x).to_string() } else { "-".into() }
}

/// Rounds to six significant digits: more are invisible in a chart, and fewer digits make a smaller file.
pub(super) fn rounded(x: f64) -> Value {
    if !x.is_finite() {
        return Value::Null;
    }
    let short: f64 = format!("{x:.5e}").parse().unwrap_or(x);
    if short.fract() == 0.0 && short.abs() < 1e15 { Value::from(short as i64) } else { Value::from(short) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_stays_text() {
        assert_eq!(escape("<b a=\"1\">&'\u{1b}"), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;\u{fffd}");
        assert_eq!(paragraphs("a < b\n\nc\n\n\n", "x"), "<p class=\"x\">a &lt; b</p>\n<p class=\"x\">c</p>\n");
    }

    #[test]
    fn backticks_make_code() {
        assert_eq!(paragraphs("`a<b` and `c`", ""), "<p class=\"\"><code>a&lt;b</code> and <code>c</code></p>\n");
        assert_eq!(paragraphs("a ` b", ""), "<p class=\"\">a ` b</p>\n");
    }

    #[test]
    fn json_cannot_leave_its_element() {
        let value = serde_json::json!({"a": "</script><!-- & \u{2028}"});
        let text = json(&value);
        assert!(!text.contains('<') && !text.contains('>') && !text.contains('&'));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn numbers_keep_significant_digits() {
        assert_eq!(number(0.43112), "0.431");
        assert_eq!(number(9.3232), "9.323");
        assert_eq!(number(812.0), "812");
        assert_eq!(number(3120.7), "3121");
        assert_eq!(number(0.000_012), "1.20e-5");
        assert_eq!(with_interval(12.3456, Some(0.5)), ("12.35".into(), Some("0.50".into())));
        assert_eq!(with_interval(8.0, Some(0.0)), ("8".into(), Some("0".into())));
        assert_eq!(with_interval(3.0, None), ("3".into(), None));
        assert_eq!([exact(0.485), exact(2.0), exact(0.1 + 0.2)], ["0.485", "2", "0.3"]);
        assert_eq!(rounded(0.123_456_789), serde_json::json!(0.123457));
        assert_eq!(rounded(100_000_000.0), serde_json::json!(100_000_000));
        assert_eq!(rounded(f64::NAN), Value::Null);
    }
}
