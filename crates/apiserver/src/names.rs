//! What names may be written with.

use validate::text::is_label_value;

/// What is said of a name that may have a prefix.
pub(crate) const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
/// What is said of a value of a label.
pub(crate) const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SERVICE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// Whether a text is one label of a domain name.
pub(crate) fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// What is wrong with a label of a domain name.
pub(crate) fn label_fault(name: &str) -> Option<&'static str> {
    if name.len() > 63 {
        return Some("must be no more than 63 characters");
    }
    (!is_label(name)).then_some(LABEL)
}

/// What is wrong with a label that begins with a letter.
pub(crate) fn service_fault(name: &str) -> Option<&'static str> {
    if name.len() > 63 {
        return Some("must be no more than 63 characters");
    }
    let starts_well = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase());
    (!is_label(name) || !starts_well).then_some(SERVICE)
}

/// What is wrong with a domain name.
pub(crate) fn subdomain_fault(name: &str) -> Option<&'static str> {
    if name.len() > 253 {
        return Some("must be no more than 253 characters");
    }
    (!name.split('.').all(is_label)).then_some(SUBDOMAIN)
}

/// What is wrong with a name that stands in a path and may be written freely otherwise.
pub(crate) fn path_fault(name: &str) -> Option<&'static str> {
    match name {
        "." | ".." => Some("may not be '.' or '..'"),
        _ if name.contains('/') => Some("may not contain '/'"),
        _ if name.contains('%') => Some("may not contain '%'"),
        _ if name.contains(|c: char| c.is_control()) || name.len() > 253 => {
            Some("must be at most 253 characters that can be shown")
        }
        _ => None,
    }
}

/// Whether a text is a name with or without a prefix.
pub(crate) fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => {
            subdomain_fault(&prefix.to_ascii_lowercase()).is_none()
                && !name.is_empty()
                && is_label_value(name)
        }
        None => !text.is_empty() && is_label_value(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_held_to_the_rules_of_their_kind() {
        assert!(
            subdomain_fault("a.b-c").is_none()
                && subdomain_fault("A").is_some()
                && subdomain_fault("a..b").is_some()
        );
        assert!(
            path_fault("system:controller:x").is_none()
                && path_fault("a/b").is_some()
                && path_fault("..").is_some()
                && path_fault("a\0b").is_some()
        );
        assert!(label_fault("1a").is_none() && label_fault("a.b").is_some());
        assert!(service_fault("a1").is_none() && service_fault("1a").is_some());
        assert!(
            is_qualified_name("example.com/a_b")
                && !is_qualified_name("a/b/c")
                && !is_qualified_name("")
        );
        assert!(
            is_label_value("")
                && is_label_value("A.b_c-1")
                && !is_label_value("-a")
                && !is_label_value(&"a".repeat(64))
        );
    }
}
