//! Requests as access logs of nginx have them.

use super::Request;

/// What a log does not say by itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogFormat {
    /// The host of requests where lines do not begin with `$host`.
    pub host: Option<String>,
    /// Whether requests came over TLS.
    pub tls: bool,
}

/// The requests of a log in nginx's combined format, the host of the request before it if it is there:
/// `[$host] $remote_addr - $remote_user [$time_local] "$request" $status ...`. With how many lines are no requests.
pub fn of_access_log(text: &str, format: &LogFormat) -> (Vec<Request>, usize) {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let read = lines.map(|line| of_line(line, format));
    let (mut requests, mut unreadable) = (Vec::new(), 0);
    for request in read {
        match request {
            Some(request) => requests.push(request),
            None => unreadable += 1,
        }
    }
    (requests, unreadable)
}

fn of_line(line: &str, format: &LogFormat) -> Option<Request> {
    let (before, rest) = line.split_once('[')?;
    let words: Vec<&str> = before.split_whitespace().collect();
    // `host address - user`, or `address - user`.
    let host = match words[..] {
        [host, _, "-", _] => Some(host.to_owned()),
        [_, "-", _] => format.host.clone(),
        _ => return None,
    };
    let (_, rest) = rest.split_once("] \"")?;
    let (request, _) = rest.split_once('"')?;
    let mut words = request.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let is_method = !method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase());
    if !is_method || !words.next()?.starts_with("HTTP/") {
        return None;
    }
    let scheme = if format.tls { "https" } else { "http" };
    let url = match target.starts_with('/') {
        true => format!("{scheme}://{}{target}", host?),
        false => target.to_owned(),
    };
    Request::new(method, &url).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_with_the_host_or_not() {
        let log = "\
10.0.0.1 - - [02/Jan/2026:03:04:05 +0000] \"GET /a?b=c HTTP/1.1\" 200 5 \"-\" \"curl\" 80 0.001
shop.com 10.0.0.1 - anna [02/Jan/2026:03:04:05 +0000] \"POST /b HTTP/2.0\" 200 5
10.0.0.1 - - [02/Jan/2026:03:04:05 +0000] \"\\x16\\x03\" 400 5
nothing
";
        let format = LogFormat {
            host: Some("web.com".to_owned()),
            tls: true,
        };
        let (requests, unreadable) = of_access_log(log, &format);
        let patterns: Vec<String> = requests.iter().map(Request::pattern).collect();
        assert_eq!(
            patterns,
            ["GET https://web.com/a", "POST https://shop.com/b"]
        );
        assert_eq!(unreadable, 2);
        let (requests, unreadable) = of_access_log(log, &LogFormat::default());
        assert_eq!((requests.len(), unreadable), (1, 3));
    }
}
