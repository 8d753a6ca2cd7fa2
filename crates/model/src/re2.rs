//! Texts as regular expressions of RE2.

/// A text as a regular expression that matches it and nothing else.
///
/// Go: regexp.QuoteMeta, whose bytes names and routes have elsewhere.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_meaning_is_escaped() {
        assert_eq!(quote(r"/a.b(c)-d\"), r"/a\.b\(c\)-d\\");
    }
}
