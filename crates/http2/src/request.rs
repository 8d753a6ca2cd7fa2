//! A request's head from its header fields (RFC 9113, section 8).

use http::header::{CONNECTION, CONTENT_LENGTH, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, uri};

/// What all fields of a block may count together, as HTTP/2 counts them.
pub(crate) const MAX_LIST: usize = 64 << 10;

/// How many fields a block may have. A gRPC call has a dozen. Each costs a microsecond and as little as one octet on the wire.
const MAX_FIELDS: usize = 256;

/// Collects fields.
#[derive(Default)]
pub(crate) struct Fields {
    method: Option<Method>,
    scheme: Option<uri::Scheme>,
    authority: Option<uri::Authority>,
    path: Option<uri::PathAndQuery>,
    headers: HeaderMap,
    size: usize,
    count: usize,
    malformed: bool,
}

/// Why a block is no head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bad {
    /// The client broke a rule.
    Malformed,
    /// It is larger than we allow.
    TooLarge,
}

impl Fields {
    /// The next field of the block.
    pub(crate) fn push(&mut self, name: &[u8], value: &[u8]) {
        self.size += name.len() + value.len() + 32;
        self.count += 1;
        if !self.malformed && !self.is_too_large() {
            self.malformed = self.take(name, value).is_none();
        }
    }

    fn is_too_large(&self) -> bool {
        self.size > MAX_LIST || self.count > MAX_FIELDS
    }

    fn take(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        let Some(pseudo) = name.strip_prefix(b":") else {
            return self.header(name, value);
        };
        if !self.headers.is_empty() {
            return None;
        }
        let first = match pseudo {
            b"method" => self
                .method
                .replace(Method::from_bytes(value).ok()?)
                .is_none(),
            b"scheme" => self.scheme.replace(value.try_into().ok()?).is_none(),
            b"authority" => self.authority.replace(value.try_into().ok()?).is_none(),
            b"path" => self.path.replace(path(value)?).is_none(),
            _ => false,
        };
        first.then_some(())
    }

    fn header(&mut self, name: &[u8], value: &[u8]) -> Option<()> {
        // The library would take capitals and make them small.
        let name = HeaderName::from_lowercase(name).ok()?;
        let value = HeaderValue::from_bytes(value).ok()?;
        let of_connection = [CONNECTION, TRANSFER_ENCODING, UPGRADE].contains(&name)
            || matches!(name.as_str(), "proxy-connection" | "keep-alive");
        if of_connection || name == TE && value != "trailers" {
            return None;
        }
        self.headers.try_append(name, value).ok()?;
        Some(())
    }

    /// The head, and how long its body is to be if that is said.
    pub(crate) fn request(self) -> Result<(Request<()>, Option<u64>), Bad> {
        if self.is_too_large() {
            return Err(Bad::TooLarge);
        }
        if self.malformed || self.scheme.is_none() {
            return Err(Bad::Malformed);
        }
        let mut uri = uri::Parts::default();
        uri.path_and_query = Some(self.path.ok_or(Bad::Malformed)?);
        // Together or not at all, says the library.
        if self.authority.is_some() {
            uri.authority = self.authority;
            uri.scheme = self.scheme;
        }
        let length = match self.headers.get(CONTENT_LENGTH) {
            Some(value) => Some(number(value).ok_or(Bad::Malformed)?),
            None => None,
        };
        let mut request = Request::new(());
        *request.method_mut() = self.method.ok_or(Bad::Malformed)?;
        *request.uri_mut() = Uri::from_parts(uri).map_err(|_| Bad::Malformed)?;
        *request.version_mut() = http::Version::HTTP_2;
        *request.headers_mut() = self.headers;
        Ok((request, length))
    }

    /// Whether these are trailers.
    pub(crate) fn trailers(self) -> Result<(), Bad> {
        let too_large = self.is_too_large();
        let pseudo = self.method.is_some()
            || self.scheme.is_some()
            || self.authority.is_some()
            || self.path.is_some();
        match self.malformed || pseudo {
            true => Err(Bad::Malformed),
            false if too_large => Err(Bad::TooLarge),
            false => Ok(()),
        }
    }
}

fn path(value: &[u8]) -> Option<uri::PathAndQuery> {
    (!value.is_empty()).then(|| value.try_into().ok()).flatten()
}

fn number(value: &HeaderValue) -> Option<u64> {
    let digits = value.to_str().ok()?;
    let only = digits.bytes().all(|b| b.is_ascii_digit());
    only.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: [(&str, &str); 4] = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/a.B/C"),
        (":authority", "x:1"),
    ];

    fn fields(list: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::default();
        for (name, value) in list {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        fields
    }

    fn with(more: &[(&str, &str)]) -> Vec<(&'static str, String)> {
        let begin = BEGIN.iter().map(|(n, v)| (*n, (*v).to_owned()));
        let leak = |n: &str| -> &'static str { n.to_owned().leak() };
        begin
            .chain(more.iter().map(|(n, v)| (leak(n), (*v).to_owned())))
            .collect()
    }

    fn request(list: &[(&str, String)]) -> Result<(Request<()>, Option<u64>), Bad> {
        let list: Vec<(&str, &str)> = list.iter().map(|(n, v)| (*n, v.as_str())).collect();
        fields(&list).request()
    }

    #[test]
    fn a_request_is_read() {
        let list = with(&[("te", "trailers"), ("content-length", "12"), ("a", "")]);
        let (request, length) = request(&list).unwrap();
        assert_eq!(request.uri(), "http://x:1/a.B/C");
        assert_eq!(request.method(), Method::POST);
        assert_eq!((length, request.headers().len()), (Some(12), 3));
        assert!(fields(&[("a", "b")]).trailers().is_ok());
    }

    #[test]
    fn malformed_heads_are_refused() {
        let bad: [&[(&str, &str)]; 12] = [
            &[("A", "b")],
            &[("connection", "close")],
            &[("keep-alive", "1")],
            &[("te", "gzip")],
            &[("a", "b\n")],
            &[(":path", "/")],
            &[(":new", "b")],
            &[("a", "b"), (":authority", "c")],
            &[("content-length", "+1")],
            &[("content-length", "99999999999999999999999")],
            &[("", "b")],
            &[("a b", "c")],
        ];
        for more in bad {
            assert_eq!(request(&with(more)).err(), Some(Bad::Malformed), "{more:?}");
        }
        for missing in 0..3 {
            let mut list = with(&[]);
            list.remove(missing);
            assert_eq!(request(&list).err(), Some(Bad::Malformed));
        }
        assert_eq!(
            fields(&[(":path", "/")]).trailers().err(),
            Some(Bad::Malformed)
        );
        let large = with(&[("a", &"b".repeat(MAX_LIST))]);
        assert_eq!(request(&large).err(), Some(Bad::TooLarge));
        let many = with(&[("a", ""); MAX_FIELDS - BEGIN.len()]);
        assert!(request(&many).is_ok());
        let more = with(&[("a", ""); MAX_FIELDS]);
        assert_eq!(request(&more).err(), Some(Bad::TooLarge));
        assert_eq!(
            fields(&[("a", ""); MAX_FIELDS + 1]).trailers().err(),
            Some(Bad::TooLarge)
        );
    }
}
