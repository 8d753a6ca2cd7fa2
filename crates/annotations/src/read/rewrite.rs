//! Paths and hosts as backends see them.

use crate::reader::{Fault, Reader};
use crate::values::{authority, boolean, path};
use crate::{Paths, Rewrite};
use std::sync::Arc;

/// Reads how requests are rewritten.
///
/// ingress-nginx reads every path of a host as a regular expression where one of its Ingresses has `use-regex` or a
/// `rewrite-target`; this says it of the Ingress, and whoever knows the host spreads it.
pub(crate) fn read(r: &mut Reader<'_>) -> Rewrite {
    let target = r.get("rewrite-target", target);
    let regex = r.get("use-regex", boolean).unwrap_or_default();
    let full = r.get("full-path-regex", boolean).unwrap_or_default();
    let by_target = target.is_some() && r.is_nginx();
    Rewrite {
        path: r.get("rewrite-path", path),
        host: r.get("upstream-vhost", authority),
        paths: match (full, regex || by_target) {
            (true, _) => Paths::FullRegex,
            (false, true) => Paths::Regex,
            (false, false) => Paths::Plain,
        },
        forwarded_prefix: r.get("x-forwarded-prefix", path),
        target,
    }
}

/// A path in which `$1` or `\1` is a group.
fn target(text: &str) -> Result<Arc<str>, Fault> {
    if text.len() > 1024 {
        return Err("is too long".into());
    }
    match text
        .bytes()
        .all(|b| b.is_ascii_graphic() && !b"\"<>^`{|}".contains(&b))
    {
        true => Ok(text.into()),
        false => Err("has characters that no path has".into()),
    }
}
