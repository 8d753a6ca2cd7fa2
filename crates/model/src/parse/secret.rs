//! What is said of a Secret: nothing of its values.

use std::borrow::Cow;

use crate::diagnostic::Diagnostic;

/// Takes lines and quoted values out of what was found in a Secret.
pub(super) fn hush(found: &mut [Diagnostic]) {
    for diagnostic in found {
        diagnostic.excerpt = None;
        let message: &str = &diagnostic.message;
        if let Cow::Owned(hushed) = without_quotes(message) {
            diagnostic.message = hushed.into();
        }
    }
}

/// A text without what stands in quotes, from the first to the last of them: values may have quotes themselves.
fn without_quotes(text: &str) -> Cow<'_, str> {
    match (text.find('"'), text.rfind('"')) {
        (Some(first), Some(last)) if first < last => {
            format!("{}(not shown){}", &text[..first], &text[last + 1..]).into()
        }
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_shown() {
        for (text, hushed) in [
            (
                "expected a map, found a list",
                "expected a map, found a list",
            ),
            (
                r#"expected a map, found the text "a\" b""#,
                "expected a map, found the text (not shown)",
            ),
        ] {
            assert_eq!(without_quotes(text), hushed);
        }
    }
}
