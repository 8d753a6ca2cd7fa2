//! Requests as lists of them say.

use serde::Deserialize;

/// A request.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Request {
    /// The host without a port, in lower case.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// The method.
    pub method: String,
    /// Whether it comes over TLS.
    pub tls: bool,
    /// Its headers, names in lower case.
    pub headers: Vec<(String, String)>,
}

/// A line that is no request. Who wrote it can act.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Unreadable {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: &'static str,
}

/// The form of a line of JSON.
#[derive(Deserialize)]
struct Json {
    #[serde(default)]
    method: String,
    url: String,
    #[serde(default)]
    headers: std::collections::BTreeMap<String, String>,
}

/// The requests of a list: `METHOD URL [NAME: VALUE]...` a line, or JSON `{"method", "url", "headers"}` a line. Lines that
/// are empty or begin with `#` say nothing.
///
/// # Errors
///
/// When a line is neither.
pub fn of_list(text: &str) -> Result<Vec<Request>, Unreadable> {
    let mut requests = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let read = match line.starts_with('{') {
            true => of_json(line),
            false => of_words(line),
        };
        let line = index + 1;
        requests.push(read.map_err(|why| Unreadable { line, why })?);
    }
    Ok(requests)
}

fn of_json(line: &str) -> Result<Request, &'static str> {
    let json: Json = serde_json::from_str(line).map_err(|_| "is no request in JSON")?;
    let mut request = Request::new(&json.method, &json.url)?;
    request.add(json.headers);
    Ok(request)
}

fn of_words(line: &str) -> Result<Request, &'static str> {
    let (method, rest) = line.split_once(char::is_whitespace).ok_or("has no URL")?;
    let rest = rest.trim_start();
    let (url, headers) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let mut request = Request::new(method, url)?;
    request.add(in_words(headers)?);
    Ok(request)
}

/// Headers as `a: b c: d`: a word that ends with a colon begins one.
fn in_words(text: &str) -> Result<Vec<(String, String)>, &'static str> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for word in text.split_whitespace() {
        match (word.strip_suffix(':'), headers.last_mut()) {
            (Some(name), _) => headers.push((name.to_owned(), String::new())),
            (None, Some((_, value))) if value.is_empty() => value.push_str(word),
            (None, Some((_, value))) => {
                value.push(' ');
                value.push_str(word);
            }
            (None, None) => return Err("has something behind the URL that is no `NAME: VALUE`"),
        }
    }
    Ok(headers)
}

impl Request {
    /// A request without headers.
    ///
    /// # Errors
    ///
    /// When the URL has no host.
    pub fn new(method: &str, url: &str) -> Result<Self, &'static str> {
        let (tls, rest) = match url.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            Some(_) => return Err("has a URL that is neither http nor https"),
            None => (false, url),
        };
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let host = without_port(authority);
        if host.is_empty() {
            return Err("has a URL without a host");
        }
        let method = if method.is_empty() { "GET" } else { method };
        Ok(Self {
            host: host.to_ascii_lowercase(),
            path: match path.starts_with('/') {
                true => path.to_owned(),
                false => format!("/{path}"),
            },
            method: method.to_ascii_uppercase(),
            tls,
            headers: Vec::new(),
        })
    }

    fn add(&mut self, headers: impl IntoIterator<Item = (String, String)>) {
        for (name, value) in headers {
            let name = name.to_ascii_lowercase();
            match &*name {
                "host" => self.host = without_port(&value).to_ascii_lowercase(),
                _ => self.headers.push((name, value)),
            }
        }
        self.headers.sort();
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut of_name = self.headers.iter().filter(|(n, _)| n == name);
        of_name.next().map(|(_, value)| value.as_str())
    }

    /// The value of a cookie.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        let pairs = self.header("cookie")?.split(';');
        let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// The scheme.
    pub fn scheme(&self) -> &'static str {
        match self.tls {
            true => "https",
            false => "http",
        }
    }

    /// The path without the query.
    pub fn bare_path(&self) -> &str {
        self.path.split(['?', '#']).next().unwrap_or_default()
    }

    /// The request, with `*` for what looks like an identifier and without the query.
    pub fn pattern(&self) -> String {
        let elements = self.bare_path().split('/');
        let elements: Vec<&str> = elements.map(|e| if is_id(e) { "*" } else { e }).collect();
        let path = elements.join("/");
        format!("{} {}://{}{path}", self.method, self.scheme(), self.host)
    }
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port))
            if port.bytes().all(|b| b.is_ascii_digit())
                && (!host.contains(':') || host.ends_with(']')) =>
        {
            host
        }
        _ => authority,
    }
}

/// Whether an element of a path is a number, or a long text with digits of sixteen.
fn is_id(element: &str) -> bool {
    let digits = element.bytes().filter(u8::is_ascii_digit).count();
    let hex = |b: u8| b.is_ascii_hexdigit() || b == b'-';
    (digits > 0 && digits == element.len())
        || (element.len() >= 8 && digits > 0 && element.bytes().all(hex))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_words_or_json() {
        let text = "# two\nget shop.com:8080/a?b=1 X-User: anna b Cookie: c=d\n\n{\"url\": \"https://Shop.com\", \"headers\": {\"Host\": \"b.com\"}}\n";
        let requests = of_list(text).unwrap();
        assert_eq!(requests[0].method, "GET");
        assert_eq!(requests[0].host, "shop.com");
        assert_eq!(requests[0].header("x-user"), Some("anna b"));
        assert_eq!(requests[0].cookie("c"), Some("d"));
        assert_eq!(requests[1].host, "b.com");
        assert!(requests[1].tls);
        assert_eq!(requests[1].path, "/");
        assert_eq!(of_list("GET /a").unwrap_err().line, 1);
        assert_eq!(of_list("GET ftp://a/b").unwrap_err().line, 1);
    }

    #[test]
    fn identifiers_are_no_part_of_a_pattern() {
        let request = Request::new("GET", "https://a.com/items/42/6f1c-00aa-77/face?q=1").unwrap();
        assert_eq!(request.pattern(), "GET https://a.com/items/*/*/face");
    }
}
