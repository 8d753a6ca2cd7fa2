//! Names and values of HTTP headers.
// Istio: pkg/config/validation/validation.go, header_value_validator.go, 1.32.

mod format;

use std::borrow::Cow;

use model::work::{FORMAT_BYTES, STATED_BYTES};

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
        _ => Err(format!("{name:?} is not a header name")),
    }
}

/// The name of a header that is set on requests.
pub fn header_name_to_set(name: &str) -> Check {
    is_name(name)?;
    match name {
        _ if is_authority(name) || !name.starts_with(':') => Ok(()),
        _ => Err(format!("the header {name:?} cannot be set")),
    }
}

/// The name of a header that is removed, or set on responses.
pub fn header_name_to_remove(name: &str) -> Check {
    is_name(name)?;
    match name {
        _ if name.starts_with(':') || name.eq_ignore_ascii_case("host") => {
            Err(format!("the header {name:?} cannot be changed here"))
        }
        _ => Ok(()),
    }
}

const EMPTY: &str = "the name of the header is empty";

/// The longest name or value of a header that Envoy sets, in bytes.
const LONGEST: usize = 16_384;

/// The value of a header that Envoy sets: a format, in which `%` starts a command unless it is doubled.
pub fn header_value(value: &str) -> Check {
    let control = |b: u8| b < 0x20 && b != b'\t' || b == 0x7f;
    if value.bytes().any(control) {
        return Err("the value of the header has control characters".to_owned());
    }
    if value.len() > LONGEST {
        return Err(format!(
            "the value of the header has {} bytes, more than {LONGEST}",
            value.len()
        ));
    }
    format::check(value)
}

/// The most bytes that a format becomes for one request. `long` says how long the value of a command, by its name and
/// arguments, may be that others than the proxy have a say in.
pub fn expanded_size(format: &str, long: impl FnMut(&str, &str) -> usize) -> usize {
    format::expanded_size(format, long)
}

/// A format that does not become too much for one request.
pub fn expansion(value: &str) -> Check {
    let size = format::expanded_size(value, |_, _| STATED_BYTES);
    if size > FORMAT_BYTES {
        return Err(format!(
            "the value may become {} KiB long for one request, more than {}: write how many bytes of a text are wanted, as in \
             `%REQ(x-user):100%`",
            size >> 10,
            FORMAT_BYTES >> 10
        ));
    }
    Ok(())
}

/// The format that stands for a text as it is: signs that start commands are doubled.
pub fn literal_format(text: &str) -> Cow<'_, str> {
    if text.contains('%') {
        return Cow::Owned(text.replace('%', "%%"));
    }
    Cow::Borrowed(text)
}

/// What no name of a header may hold, whatever is done to it.
fn is_name(name: &str) -> Check {
    if name.is_empty() {
        return Err(EMPTY.to_owned());
    }
    if name.len() > LONGEST {
        return Err(format!(
            "the name of the header has {} bytes, more than {LONGEST}",
            name.len()
        ));
    }
    let bare = name.strip_prefix(':').unwrap_or(name);
    if !is_token(bare) {
        return Err(format!("{name:?} is not the name of a header"));
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
            "%REQ(x-y?:path):5%!",
            "%QUERY_PARAM(a)b)%",
        ] {
            assert_eq!(header_value(good), Ok(()), "{good}");
        }
        for bad in [
            "abc%123",
            "%A%%",
            "%",
            "%A(",
            "%A([x])%",
            "a\nb",
            "%A(x\\",
            "100%",
            "%20CERTIFICATE%",
            "%ENVIRONMENT(PATH)%",
            "%REQ(a?b?c)%",
        ] {
            assert!(header_value(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_one_request_makes_of_a_format_has_a_bound() {
        let commands = |command: &str, count| command.repeat(count);
        for good in [
            commands("%REQ(x)%", 16),
            commands("%REQ(x):100%", 900),
            commands("%RESPONSE_CODE%%UPSTREAM_HOST%", 300),
            commands("%%REQ(x)%%", 1600),
            "a".repeat(LONGEST),
        ] {
            assert_eq!(expansion(&good), Ok(()), "{good}");
        }
        for bad in [
            commands("%REQ(x)%", 18),
            commands("%REQ(x):999999%", 18),
            commands("%DYNAMIC_METADATA(a:b)%", 18),
            commands("%DOWNSTREAM_PEER_CERT%", 18),
            commands("a %%%PATH(NQ)%", 18),
            commands("%START_TIME(%c%c%c%c%c%c%c%c%c%c%c%c%c%c)%", 1200),
        ] {
            assert!(expansion(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn claims_of_tokens_stand_where_headers_do() {
        assert!(is_claim("@request.auth.claims.group") && is_claim("@Request.auth.claims[a][b]"));
        assert!(!is_claim("@request.auth.claims") && !is_claim("@request.auth.claims[]"));
        assert!(!is_claim("é"));
    }
}
