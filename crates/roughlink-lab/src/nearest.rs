//! "Did you mean": the nearest of the known words.

/// ``did you mean `x`?`` if one of `known` is near enough, else the whole list after `introduction`.
pub fn suggest<'k>(word: &str, introduction: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let far = word.chars().count().max(3) / 3; // as in `roughlink_scenario`
    let distance = |k: &str| strsim::damerau_levenshtein(&word.to_lowercase(), &k.to_lowercase());
    let near = known.iter().map(|k| (distance(k), *k)).filter(|(d, _)| *d <= far).min();
    let begun = || known.iter().filter(|k| word.len() > 2 && k.starts_with(word)).map(|k| (k.len(), *k)).min();
    match near.or_else(begun) {
        Some((_, k)) => format!("did you mean `{k}`?"),
        None => format!("{introduction} {}", list(&known)),
    }
}

/// `a`, `b`, `c`
pub fn list(words: &[&str]) -> String {
    words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
}
