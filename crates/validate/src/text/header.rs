//! Names and values of HTTP headers.
// Istio: pkg/config/validation/validation.go, header_value_validator.go, 1.32.

use super::Check;

const PSEUDO: [&str; 5] = [":method", ":scheme", ":authority", ":path", ":status"];
const CLAIMS: &str = "@request.auth.claims";

/// Whether the text is a token of HTTP, as names of headers are.
pub fn is_token(text: &str) -> bool {
    let of_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(of_token)
}

/// Whether the name stands for the host that a request is for.
pub fn is_authority(name: &str) -> bool {
    name.eq_ignore_ascii_case(":authority") || name.eq_ignore_ascii_case("host")
}

/// Whether the name of a header to match stands for a claim of the token that came with the request.
pub fn is_claim(name: &str) -> bool {
    let Some(start) = name.get(..CLAIMS.len()) else {
        return false;
    };
    let rest = &name[CLAIMS.len()..];
    let dotted = rest.len() > 1 && rest.starts_with('.');
    let in_brackets = rest.len() > 2 && rest.starts_with('[') && rest.ends_with(']');
    start.eq_ignore_ascii_case(CLAIMS) && (dotted || in_brackets)
}

/// The name of a header that requests are matched by.
pub fn header_name_to_match(name: &str) -> Check {
    match name {
        "" => Err(EMPTY.to_owned()),
        _ if is_claim(name) || PSEUDO.contains(&name) || is_token(name) => Ok(()),
        _ => Err(format!("{name:?} is no name of a header")),
    }
}

/// The name of a header that is set on requests.
pub fn header_name_to_set(name: &str) -> Check {
    match name {
        "" => Err(EMPTY.to_owned()),
        _ if is_authority(name) || !name.starts_with(':') => Ok(()),
        _ => Err(format!("the header {name:?} cannot be set")),
    }
}

/// The name of a header that is removed, or set on responses.
pub fn header_name_to_remove(name: &str) -> Check {
    match name {
        "" => Err(EMPTY.to_owned()),
        _ if name.starts_with(':') || name.eq_ignore_ascii_case("host") => {
            Err(format!("the header {name:?} cannot be changed here"))
        }
        _ => Ok(()),
    }
}

const EMPTY: &str = "the name of the header is empty";

/// What of a value with `%VARIABLES%` stands before the next character.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Literal,
    Name,
    Arguments,
    Item,
    Text,
    AfterItem,
    AfterItems,
    AfterArguments,
}

/// The value of a header that Envoy sets: `%` starts a variable unless it is doubled.
pub fn header_value(value: &str) -> Check {
    let control = |b: u8| b < 0x20 && b != b'\t' || b == 0x7f;
    if value.bytes().any(control) {
        return Err("the value of the header has control characters".to_owned());
    }
    let mut state = State::Literal;
    let mut bytes = value.bytes().peekable();
    while let Some(b) = bytes.next() {
        state = match (state, b) {
            (State::Literal, b'%') => match bytes.peek() {
                None => return Err("a single `%` at the end: write `%%`".to_owned()),
                Some(b'%') => {
                    bytes.next();
                    State::Literal
                }
                Some(_) => State::Name,
            },
            (State::Name, b'%') | (State::AfterArguments, b'%') => State::Literal,
            (State::Name, b'(') => State::Arguments,
            (State::Arguments, b'[') | (State::AfterItem, b',') => State::Item,
            (State::Arguments, b) if b != b' ' => State::Text,
            (State::Item, b'"') => State::Text,
            (State::Text, b'\\') => match bytes.next() {
                None => return Err("the value ends with a backslash".to_owned()),
                Some(_) => State::Text,
            },
            (State::Text, b')') | (State::AfterItems, b')') => State::AfterArguments,
            (State::Text, b'"') => State::AfterItem,
            (State::AfterItem, b']') => State::AfterItems,
            (State::Item | State::AfterItem | State::AfterItems | State::AfterArguments, b)
                if b != b' ' =>
            {
                let found = char::from(b);
                return Err(format!(
                    "{found:?} is not expected within a `%VARIABLE(...)%`"
                ));
            }
            (state, _) => state,
        };
    }
    if state != State::Literal {
        return Err(
            "a `%` starts a variable that does not end: write `%%` for the sign".to_owned(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_signs_start_variables_unless_doubled() {
        for good in [
            "",
            "a b\tc",
            "%HOSTNAME%",
            "100%%",
            r#"%DYNAMIC_METADATA(["a", "b"])%"#,
            "%REQ(x-y)%!",
        ] {
            assert_eq!(header_value(good), Ok(()), "{good}");
        }
        for bad in ["abc%123", "%A%%", "%", "%A(", "%A([x])%", "a\nb", "%A(x\\"] {
            assert!(header_value(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn claims_of_tokens_stand_where_headers_do() {
        assert!(is_claim("@request.auth.claims.group") && is_claim("@Request.auth.claims[a][b]"));
        assert!(!is_claim("@request.auth.claims") && !is_claim("@request.auth.claims[]"));
        assert!(!is_claim("é"));
    }
}
