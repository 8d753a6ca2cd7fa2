//! The index of the pages: what there is, and the connected proxies.

use xds::TypeUrl;

use super::names::{ABSENT, INDEX};
use super::proxy_name;
use crate::streams::Connection;

/// The most proxies that are listed.
const LISTED: usize = 200;

/// The page.
pub(super) fn page(connections: &[Connection]) -> String {
    let mut rows = String::new();
    for (name, about) in INDEX {
        // Where a proxy has to be named, the list of proxies has the links.
        let shown = match name.ends_with("proxyID=") {
            true => (*name).to_owned(),
            false => format!("<a href=\"/debug/{name}\">{name}</a>"),
        };
        rows.push_str(&format!("<tr><td>{shown}</td><td>{about}</td></tr>\n"));
    }
    let mut absent = String::new();
    for (name, why) in ABSENT {
        absent.push_str(&format!("<tr><td>{name}</td><td>{why}</td></tr>\n"));
    }
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Pilothouse</title><style>\
         body{{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1d2733;background:#fff}}\
         td,th{{padding:.3rem 1.5rem .3rem 0;vertical-align:top;text-align:left}}a{{color:#0b5cad}}.bad{{color:#b3261e}}\
         @media(prefers-color-scheme:dark){{body{{color:#dde4ec;background:#161b22}}a{{color:#7ab8ff}}.bad{{color:#ff8a80}}}}\
         </style></head><body><h1>Pilothouse {}</h1><p>Debug pages, shown to clients on this machine only.</p>\
         {}<table>{rows}</table><h2>Pages of istiod that are not here</h2><table>{absent}</table><p><a href=\"/metrics\">metrics</a> · <a href=\"/ready\">ready</a></p></body></html>\n",
        env!("CARGO_PKG_VERSION"),
        proxies(connections),
    )
}

/// The connected proxies, with links to what each has.
fn proxies(connections: &[Connection]) -> String {
    if connections.is_empty() {
        return "<p>No proxy is connected.</p>".to_owned();
    }
    let mut rows = String::new();
    for connection in connections.iter().take(LISTED) {
        let name = proxy_name(&connection.node);
        let (shown, asked) = (escaped(&name), encoded(&name));
        let (class, state) = match behind(connection) {
            None => ("", "in sync".to_owned()),
            Some(words) => (" class=\"bad\"", words),
        };
        let links = ["config_dump", "certz", "edsz"]
            .map(|page| format!("<a href=\"/debug/{page}?proxyID={asked}\">{page}</a>"))
            .join(" ");
        let role = connection.node.role.as_str();
        rows.push_str(&format!(
            "<tr><td>{shown}</td><td>{role}</td><td{class}>{state}</td><td>{links}</td></tr>\n"
        ));
    }
    let more = match connections.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!("<p>and {more} more: <a href=\"/debug/syncz\">syncz</a></p>"),
    };
    format!(
        "<h2>Proxies</h2><table><tr><th>name</th><th>type</th><th>state</th><th>what it has</th></tr>\n{rows}</table>{more}<h2>Pages</h2>"
    )
}

/// What a proxy has not taken, or not yet; None where it has taken all.
fn behind(connection: &Connection) -> Option<String> {
    let states = TypeUrl::ALL.into_iter().filter_map(|ty| {
        let state = connection.types[ty].as_ref().filter(|t| t.is_known())?;
        match (&state.refused, state.is_taken()) {
            (Some(why), _) => Some(format!("rejects {}: {}", ty.short(), escaped(why))),
            (None, false) => Some(format!("{} is on its way", ty.short())),
            (None, true) => None,
        }
    });
    let states: Vec<String> = states.collect();
    (!states.is_empty()).then(|| states.join("<br>"))
}

/// Text in a page: what proxies say of themselves is no markup.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c => safe.push(c),
        }
    }
    safe
}

/// Text in a query.
fn encoded(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => safe.push(char::from(byte)),
            false => safe.push_str(&format!("%{byte:02X}")),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::streams::TypeState;

    #[test]
    fn proxies_are_listed_with_what_they_reject_and_without_their_markup() {
        let metadata = serde_json::json!({ "NAME": "web", "NAMESPACE": "shop" });
        let node = serde_json::json!({ "id": "sidecar~10.0.0.1~web.shop~c", "metadata": metadata });
        let mut connection = Connection {
            number: 1,
            node: testkit::node(&node),
            peer: ([127, 0, 0, 1], 1).into(),
            since: SystemTime::UNIX_EPOCH,
            types: Default::default(),
        };
        connection.types[TypeUrl::Cluster] = Some(TypeState {
            sent: 2,
            acked: Some(2),
            ..TypeState::default()
        });
        let shown = |connection: &Connection| page(std::slice::from_ref(connection));
        let text = shown(&connection);
        assert!(text.contains("in sync"), "{text}");
        assert!(text.contains("config_dump?proxyID=web.shop"), "{text}");
        connection.types[TypeUrl::Listener] = Some(TypeState {
            sent: 1,
            refused: Some("no <i>filter</i>".into()),
            ..TypeState::default()
        });
        let text = shown(&connection);
        assert!(text.contains("rejects LDS: no &lt;i&gt;filter"), "{text}");
        let empty = page(&[]);
        assert!(empty.contains("No proxy is connected."));
        assert!(empty.contains("<td>cachez</td>"), "{empty}");
        assert_eq!(escaped("<b> & \"c\""), "&lt;b&gt; &amp; &quot;c&quot;");
        assert_eq!(encoded("<b>.shop"), "%3Cb%3E.shop");
    }
}
