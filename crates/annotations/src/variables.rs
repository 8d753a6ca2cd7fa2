//! Variables of nginx in Envoy's format of substitution.

use crate::reader::Fault;

/// A text with variables of nginx, in Envoy's format: what is `%` in the text is doubled.
pub(crate) fn format(text: &str) -> Result<String, Fault> {
    format_by(text, substitution)
}

/// The same for a script, which can escape paths.
pub(crate) fn format_of_script(text: &str) -> Result<String, Fault> {
    format_by(text, |name| match name {
        "escaped_request_uri" => Some("%ESCAPED_REQ(:path)%".to_owned()),
        name => substitution(name),
    })
}

fn format_by(text: &str, substitution: fn(&str) -> Option<String>) -> Result<String, Fault> {
    let mut formatted = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['$', '%']) {
        formatted.push_str(&rest[..at]);
        let sign = &rest[at..=at];
        rest = &rest[at + 1..];
        if sign == "%" {
            formatted.push_str("%%");
            continue;
        }
        let (name, after) = name(rest).ok_or("has a $ without the name of a variable")?;
        formatted.push_str(&substitution(name).ok_or("has a variable of nginx that has no equal")?);
        rest = after;
    }
    formatted.push_str(rest);
    Ok(formatted)
}

/// Whether a text has variables.
pub(crate) fn has_any(text: &str) -> bool {
    text.contains('$')
}

/// The names of the variables of a text.
pub(crate) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('$')
        .skip(1)
        .map(|rest| name(rest).map_or("", |(name, _)| name))
}

/// The name after a `$`, and what follows.
pub(crate) fn name(text: &str) -> Option<(&str, &str)> {
    if let Some(inner) = text.strip_prefix('{') {
        return inner.split_once('}').filter(|(name, _)| !name.is_empty());
    }
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c| !is_of_name(c)).unwrap_or(text.len());
    Some(text.split_at(end)).filter(|(name, _)| !name.is_empty())
}

fn substitution(name: &str) -> Option<String> {
    let fixed = match name {
        "scheme" | "pass_access_scheme" => "%REQ(x-forwarded-proto)%",
        "host" | "http_host" | "best_http_host" => "%REQ(:authority)%",
        "request_uri" | "escaped_request_uri" | "uri" => "%REQ(:path)%",
        "request_method" => "%REQ(:method)%",
        "remote_addr" => "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
        "request_id" | "req_id" => "%REQ(x-request-id)%",
        "proxy_add_x_forwarded_for" => "%REQ(x-forwarded-for)%",
        "server_protocol" => "%PROTOCOL%",
        _ => {
            let header = name.strip_prefix("http_")?;
            let valid = !header.is_empty() && header.len() <= 64;
            let header = header.to_ascii_lowercase().replace('_', "-");
            let plain = header
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-');
            return (valid && plain).then(|| format!("%REQ({header})%"));
        }
    };
    Some(fixed.to_owned())
}
