//! The command line of this process, for messages and results.

/// Returns the command line in a form that can be run again.
pub(crate) fn command_line() -> String {
    let words = typed_words().into_iter().map(|word| quote(&word));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the command line without the options that select a part.
pub(crate) fn whole_command(words: Vec<String>) -> String {
    let given = |word: &str| word == "--part" || word.starts_with("--part=");
    if !words.iter().any(|word| given(word)) {
        return words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ");
    }
    let mut kept = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match &*word {
            "--part" | "-o" => drop(words.next()),
            _ if given(&word) || word.starts_with("-o") => {} // -oDIR
            _ => kept.push(quote(&word)),
        }
    }
    kept.join(" ")
}

/// Returns the words of the command line; bytes that are not UTF-8 are replaced.
pub(crate) fn typed_words() -> Vec<String> {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    std::iter::once("roughlink".to_owned()).chain(words).collect()
}

/// Quotes a word for a shell if necessary.
pub(crate) fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}
