//! Text of others in messages and tables.

use std::borrow::Cow;

/// `text` with what a terminal would act on shown as escapes: control characters other than line ends and tabs, and the
/// characters that change the direction of writing (Unicode Standard Annex 9, section 2).
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let escape = |c: char| if is_hidden(c) { c.escape_unicode().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(escape).collect())
}

/// Whether a terminal acts on a character and does not show it.
pub fn is_hidden(c: char) -> bool {
    let control = c.is_control() && !matches!(c, '\n' | '\t');
    control || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_shown() {
        assert_eq!(visible("a\u{1b}]0;x\u{7}\u{202e}b\r\n\tc"), "a\\u{1b}]0;x\\u{7}\\u{202e}b\\u{d}\n\tc");
        assert!(matches!(visible("10 Mbit/s – 5 µs"), Cow::Borrowed(_)));
    }
}
