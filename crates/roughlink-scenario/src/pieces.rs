//! Large texts, read in pieces: the parser takes many times the memory of the text that it reads at once.
//!
//! A piece ends before a line `[[name]]`. If the text before such a line is complete, the line begins a table of the
//! document. The tables of all pieces are then the tables of the whole text. [`read`] fails after a fault, and where a
//! rule of TOML concerns several pieces: then the parser must see the whole text.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reason why a text must be read at once, with its place.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// A piece that is not a document.
    Fault(Range<usize>),
    /// A piece of more than [`MAX_AT_ONCE`] bytes.
    Long(Range<usize>),
    /// A piece that was not taken.
    NotTaken(Range<usize>),
    /// A key that several pieces have, and not only in lines `[[key]]`.
    Shared(Range<usize>),
}

/// Bytes of the largest text that is read at once.
pub(super) const MAX_AT_ONCE: usize = if cfg!(test) { 1_000_000 } else { 32_000_000 };

/// Reads `text` in pieces of at least `least` bytes and passes their places and documents to `take`. The first piece
/// has all keys that are not in a table, the others only tables and lists of tables. Stops at a piece that `take`
/// returns `None` for.
///
/// # Errors
/// Returns an error if the parser must see the whole text.
pub(super) fn read<'t>(
    text: &'t str,
    least: usize,
    mut take: impl FnMut(Range<usize>, Spanned<DeTable<'t>>) -> Option<()>,
) -> Result<(), Obstacle> {
    // Keys of the document, and whether a piece may add to their values.
    let mut keys: BTreeMap<Cow<'t, str>, bool> = BTreeMap::new();
    let mut piece = 0..head(text);
    loop {
        if piece.len() > MAX_AT_ONCE {
            return Err(Obstacle::Long(piece));
        }
        let Ok(document) = DeTable::parse(&text[piece.clone()]) else { return Err(Obstacle::Fault(piece)) };
        for (key, value) in document.get_ref() {
            // After the first piece only lines `[[key]]` make a list.
            let is_open = piece.start > 0 && matches!(value.get_ref(), DeValue::Array(_));
            if keys.insert(key.get_ref().clone(), is_open).is_some_and(|was_open| !(was_open && is_open)) {
                return Err(Obstacle::Shared(shifted(key.span(), piece.start)));
            }
        }
        let span = shifted(document.span(), piece.start);
        if take(piece.clone(), Spanned::new(span, shifted_table(document.into_inner(), piece.start))).is_none() {
            return Err(Obstacle::NotTaken(piece));
        }
        if piece.end == text.len() {
            return Ok(());
        }
        piece = piece.end..next_list(text, piece.end + least);
    }
}

/// Returns the length of the first piece.
pub(super) fn head(text: &str) -> usize {
    next_list(text, 0)
}

/// Returns the start of the first line `[[name]]` that begins after `from`, or else the end of the text.
fn next_list(text: &str, from: usize) -> usize {
    let from = text.ceil_char_boundary(from);
    let is_list = |line: &usize| {
        let name = &text[line + "[[".len()..];
        let rest = name.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        rest.len() < name.len() && rest.starts_with("]]")
    };
    text[from..].match_indices("\n[[").map(|(i, _)| from + i + 1).find(is_list).unwrap_or(text.len())
}

fn shifted(span: Range<usize>, by: usize) -> Range<usize> {
    span.start + by..span.end + by
}

fn shifted_table<'t>(table: DeTable<'t>, by: usize) -> DeTable<'t> {
    if by == 0 {
        return table;
    }
    let entry = |(key, value): (Spanned<Cow<'t, str>>, _)| {
        let span = shifted(key.span(), by);
        (Spanned::new(span, key.into_inner()), shifted_value(value, by))
    };
    table.into_iter().map(entry).collect()
}

fn shifted_value(value: Spanned<DeValue<'_>>, by: usize) -> Spanned<DeValue<'_>> {
    let span = shifted(value.span(), by);
    let value = match value.into_inner() {
        DeValue::Table(inner) => DeValue::Table(shifted_table(inner, by)),
        DeValue::Array(items) => DeValue::Array(items.into_iter().map(|item| shifted_value(item, by)).collect()),
        single => single,
    };
    Spanned::new(span, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends the documents of the pieces; `None` if the text must be read at once.
    fn joined(text: &str, least: usize) -> Option<(DeTable<'_>, usize)> {
        let (mut document, mut pieces) = (DeTable::new(), 0);
        read(text, least, |_, piece| {
            pieces += 1;
            for (key, value) in piece.into_inner() {
                match (document.get_mut(&**key.get_ref()).map(Spanned::get_mut), value.get_ref()) {
                    (Some(DeValue::Array(list)), DeValue::Array(more)) => {
                        more.iter().for_each(|i| list.push(i.clone()))
                    }
                    (None, _) => document.extend([(key, value)]),
                    (Some(known), _) => panic!("{key} is {known:?} in an earlier piece"),
                }
            }
            Some(())
        })
        .ok()?;
        Some((document, pieces))
    }

    /// Returns the document as text with all places; `None` after a fault.
    fn at_once(text: &str) -> Option<String> {
        DeTable::parse(text).ok().map(|document| format!("{:?}", document.into_inner()))
    }

    #[test]
    fn tables_of_lists_are_read_in_pieces() {
        let text = "a = 'ä'\n[t]\n[[n]]\nx = [{ y = 1 }]\r\n[[n.m]]\n[n.m.o]\n[[l]]\n[u]\n[[n]] # ä\n[[n]]\nx = 1";
        for (least, pieces) in [(0, 5), (40, 3), (1000, 2)] {
            let (document, count) = joined(text, least).unwrap();
            assert_eq!((Some(format!("{document:?}")), count), (at_once(text), pieces), "{least}");
        }
    }

    #[test]
    fn faults_and_rules_that_concern_several_pieces_need_the_whole_text() {
        for text in [
            "n = [{}]\n[[n]]\n",
            "[n]\n[[n]]\n",
            "[[n]]\n[[m]]\n[n.o]\n",
            "[[n]]\n[[m]]\n[n]\n",
            "[[n]]\n[[m]]\n[[n.o]]\n",
            "[t]\n[[m]]\n[t.o]\n",
            "[t]\n[[m]]\n[t]\n",
            "x = '''\n[[n]]\n'''\n",
            "x = [\n[[n]]\n]\n",
            "[[n]]\nx = 1\nx = 2\n[[n]]\n",
        ] {
            assert!(joined(text, 0).is_none(), "{text}");
        }
    }

    const LINES: [&str; 16] = [
        "[[n]]\n",
        "[[m]] # ä\r\n",
        " [[n]]\n",
        "[[n.o]]\n",
        "[[n]\n",
        "[n]\n",
        "[n.o]\n",
        "[t]\n",
        "[t.o]\n",
        "x = 1\n",
        "n = [{}]\n",
        "x.y = 'ä'\n",
        "z = '''\n",
        "'''\n",
        "z = [\n",
        "]\n",
    ];

    #[test]
    fn pieces_make_the_document_of_the_whole_text() {
        let mut in_pieces = 0;
        for number in 0..LINES.len().pow(4) {
            let text: String = (0..4).map(|i| LINES[number / LINES.len().pow(i) % LINES.len()]).collect();
            for least in [0, 10] {
                if let Some((document, pieces)) = joined(&text, least) {
                    in_pieces += usize::from(pieces > 2);
                    assert_eq!(Some(format!("{document:?}")), at_once(&text), "{text}");
                }
            }
        }
        assert!(in_pieces > 500, "{in_pieces} texts were read in several pieces");
    }
}
