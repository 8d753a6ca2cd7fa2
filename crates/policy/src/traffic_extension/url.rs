//! Where modules come from, as their URLs say.
//!
//! Istio reads them with Go's `net/url`; of that, what decides between the sources.

/// The scheme of a URL, in lower case; `None` for text that is no URL.
///
/// Text without a scheme names an image.
pub(super) fn scheme(url: &str) -> Option<String> {
    for (at, byte) in url.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return None,
            b':' => return Some(url[..at].to_ascii_lowercase()),
            _ => break,
        }
    }
    // Up to the first slash a colon would end a scheme, but what stands before it is none.
    let first = url.split('/').next().unwrap_or_default();
    let readable = !first.contains(':') && !url.contains(|c: char| c.is_ascii_control());
    readable.then(|| "oci".to_owned())
}

/// The URL with its scheme, as agents are told.
pub(super) fn with_scheme(url: &str, scheme: &str) -> String {
    let stated = url.get(..scheme.len()).zip(url.get(scheme.len()..));
    match stated {
        Some((own, rest)) if own.eq_ignore_ascii_case(scheme) && rest.starts_with(':') => {
            format!("{scheme}{rest}")
        }
        _ => format!("{scheme}://{url}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_scheme_names_an_image() {
        assert_eq!(scheme("reg.example.com/a:v1").as_deref(), Some("oci"));
        assert_eq!(scheme("HTTPS://example.com/a").as_deref(), Some("https"));
        assert_eq!(scheme("file:///a.wasm").as_deref(), Some("file"));
        assert_eq!(scheme("127.0.0.1:5000/a"), None);
        assert_eq!(scheme(":a"), None);
    }

    #[test]
    fn agents_are_told_the_scheme() {
        assert_eq!(with_scheme("reg/a:v1", "oci"), "oci://reg/a:v1");
        assert_eq!(with_scheme("oci://reg/a", "oci"), "oci://reg/a");
        assert_eq!(with_scheme("HTTP://x/a", "http"), "http://x/a");
    }
}
