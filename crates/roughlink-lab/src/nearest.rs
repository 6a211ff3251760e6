//! "Did you mean": finds the known word nearest to a misspelled one.

/// Returns ``did you mean `x`?`` if one of `known` is near enough, else the whole list after `introduction`.
///
/// ```
/// use roughlink_lab::nearest::suggest;
///
/// assert_eq!(suggest("cubik", "expected", ["bbr", "cubic"]), "did you mean `cubic`?");
/// assert_eq!(suggest("prague", "expected", ["bbr", "cubic"]), "expected `bbr`, `cubic`");
/// ```
pub fn suggest<'k>(word: &str, introduction: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let begun = || known.iter().filter(|k| word.len() > 2 && k.starts_with(word)).min_by_key(|k| k.len()).copied();
    match roughlink_scenario::nearest(word, known.iter().copied()).or_else(begun) {
        Some(k) => format!("did you mean `{k}`?"),
        None => format!("{introduction} {}", roughlink_scenario::list(&known)),
    }
}
