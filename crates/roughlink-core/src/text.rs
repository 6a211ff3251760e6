//! Text from outside in messages, tables and names.

use std::borrow::Cow;

/// Returns `text` with escapes for characters that a terminal would interpret. These are control characters other than
/// line ends and tabs, and characters that change the writing direction (Unicode Standard Annex 9, section 2).
///
/// ```
/// use roughlink_core::text::visible;
///
/// assert_eq!(visible("a\u{1b}]0;x\u{7}b"), "a\\u{1b}]0;x\\u{7}b");
/// assert_eq!(visible("10 Mbit/s"), "10 Mbit/s");
/// ```
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| if is_hidden(c) { c.escape_unicode().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(escape).collect())
}

/// Returns true if a terminal interprets the character instead of showing it.
pub fn is_hidden(c: char) -> bool {
    let control = c.is_control() && !matches!(c, '\n' | '\t');
    control || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns `text` on one line.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a name that is safe in a URL, an HTML `id` and a file name, or `otherwise` if nothing of `text` is left.
///
/// ```
/// use roughlink_core::text::slug;
///
/// assert_eq!(slug("v2g/table2", "results"), "v2g-table2");
/// assert_eq!(slug("///", "results"), "results");
/// ```
pub fn slug(text: &str, otherwise: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || c == '_' {
            out.push(c.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    let out = out.trim_end_matches('-');
    if out.is_empty() { otherwise } else { out }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_safe_names() {
        assert_eq!(slug("v2g/table2", ""), "v2g-table2");
        assert_eq!(slug("../../etc: \"x\"", ""), "etc-x");
        assert_eq!(slug("My_sweep (2)", ""), "my_sweep-2");
        assert_eq!(slug("///", "results"), "results");
    }

    #[test]
    fn control_characters_are_shown_as_escapes() {
        assert_eq!(visible("a\u{1b}]0;x\u{7}\u{202e}b\r\n\tc"), "a\\u{1b}]0;x\\u{7}\\u{202e}b\\u{d}\n\tc");
        assert!(matches!(visible("10 Mbit/s – 5 µs"), Cow::Borrowed(_)));
    }
}
