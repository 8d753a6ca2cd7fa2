//! Any names and values as annotations and options: no panic, reasons fit for a header, and a snippet that begins with an
//! access rule never fails open.
#![no_main]

use std::sync::Arc;

use annotations::{Defaults, Dialect, read};
use libfuzzer_sys::fuzz_target;
use model::Labels;

const NGINX: &str = "nginx.ingress.kubernetes.io/";

/// Pairs of a name and a value, with a NUL after each.
fn pairs(text: &str, prefix: &str) -> Labels {
    let mut parts = text.split('\0');
    let pair = || Some((format!("{prefix}{}", parts.next()?), parts.next()?.to_owned()));
    std::iter::from_fn(pair).collect()
}

fuzz_target!(|text: &str| {
    let (options, stated) = text.split_once("\0\0").unwrap_or(("", text));
    let defaults = Defaults { nginx: Arc::new(pairs(options, "")) };
    for dialect in [Dialect::Nginx, Dialect::Higress] {
        let found = read(&pairs(stated, NGINX), dialect, &defaults);
        if let Some(closed) = found.closed {
            assert!(closed.len() <= 120 && closed.bytes().all(|b| (0x20..0x7f).contains(&b)));
        }
        assert!(found.notes.iter().all(|note| !note.message.chars().any(char::is_control)));
    }
    let snippet = (format!("{NGINX}configuration-snippet"), format!("deny all;{text}"));
    let guarded = [snippet].into_iter().collect();
    assert!(read(&guarded, Dialect::Nginx, &Defaults::default()).closed.is_some());
});
