//! Texts of routes as they may stand in messages of HTTP.

/// A text without control characters: nothing in it starts another header.
pub(super) fn line(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

/// A text without whitespace, too: a path, a host.
pub(super) fn word(text: &str) -> String {
    let kept = text
        .chars()
        .filter(|c| !c.is_control() && !c.is_whitespace());
    kept.collect()
}

/// The name of a header in lower case, or a method as it is; `None` where it is none.
pub(super) fn token(text: &str) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    (!text.is_empty() && text.chars().all(is_part)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::{line, token, word};

    #[test]
    fn nothing_starts_another_header() {
        assert_eq!(line("a b\r\nx-admin: true"), "a bx-admin: true");
        assert_eq!(word("/a b\n"), "/ab");
        assert_eq!(token("x-user"), Some("x-user"));
        assert_eq!(token("x user"), None);
        assert_eq!(token(""), None);
    }
}
