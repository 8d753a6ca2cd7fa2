//! Paths with slashes.

use super::S;
use crate::functions::Functions;

pub(super) fn add(functions: &mut Functions) {
    for (name, os_name, part) in [
        ("base", "osBase", base as fn(&str) -> String),
        ("clean", "osClean", clean),
        ("dir", "osDir", dir),
        ("ext", "osExt", ext),
    ] {
        for name in [name, os_name] {
            functions.add(name, &[S], move |meter, args| {
                meter.make(args.str(0).len())?;
                Ok(part(args.str(0)).into())
            });
        }
    }
    for name in ["isAbs", "osIsAbs"] {
        functions.add(name, &[S], |_, args| {
            Ok(args.str(0).starts_with('/').into())
        });
    }
}

fn base(path: &str) -> String {
    let bare = path.trim_end_matches('/');
    match bare.rsplit('/').next() {
        _ if path.is_empty() => ".".to_owned(),
        Some(last) if !last.is_empty() => last.to_owned(),
        _ => "/".to_owned(),
    }
}

fn dir(path: &str) -> String {
    clean(&path[..path.rfind('/').map_or(0, |slash| slash + 1)])
}

fn ext(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rfind('.')
        .map_or_else(String::new, |dot| name[dot..].to_owned())
}

/// The shortest path that means the same.
fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if rooted => {}
            part => parts.push(part),
        }
    }
    match (rooted, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}
