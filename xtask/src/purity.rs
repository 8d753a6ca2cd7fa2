//! Generation is a function of its key and of recorded reads: what it could learn, remember or tell by other ways it may
//! not name.

use std::path::Path;

use crate::code::{Code, from_root};

/// The crates of generation.
pub(crate) const GENERATION: &[&str] =
    &["convert", "mesh", "policy", "xlate", "analysis", "export"];

/// Modules of the standard library of which only these may be named.
const RESTRICTED: &[(&str, &[&str], &str)] = &[
    ("sync", &["Arc", "Weak"], "locks and what threads share"),
    ("cell", &[], "cells"),
    ("time", &["Duration"], "the clock"),
    (
        "net",
        &[
            "IpAddr",
            "Ipv4Addr",
            "Ipv6Addr",
            "SocketAddr",
            "SocketAddrV4",
            "SocketAddrV6",
            "AddrParseError",
        ],
        "sockets",
    ),
    ("fs", &[], "files"),
    ("io", &[], "files and streams"),
    ("env", &[], "the environment"),
    ("thread", &[], "threads"),
    ("process", &[], "processes"),
    ("os", &[], "the system"),
    ("random", &[], "chance"),
    ("task", &[], "async"),
    ("future", &[], "async"),
    (
        "hash",
        &["Hash", "Hasher", "BuildHasher"],
        "hashing that differs between runs",
    ),
    (
        "collections",
        &[
            "BTreeMap",
            "BTreeSet",
            "BinaryHeap",
            "VecDeque",
            "btree_map",
            "btree_set",
            "Bound",
        ],
        "an order that differs between runs",
    ),
];

/// Crates that bring in what generation may not have.
const CRATES: &[&str] = &[
    "tokio",
    "futures",
    "rand",
    "getrandom",
    "fastrand",
    "parking_lot",
    "once_cell",
    "lazy_static",
    "arc_swap",
    "dashmap",
    "crossbeam",
    "chrono",
    "jiff",
    "hyper",
    "reqwest",
    "rustix",
    "libc",
];

/// Names that mean the same wherever they are taken from.
const NAMES: &[&str] = &[
    "Mutex",
    "RwLock",
    "Condvar",
    "RefCell",
    "Cell",
    "UnsafeCell",
    "OnceCell",
    "LazyCell",
    "OnceLock",
    "LazyLock",
    "thread_local!",
    "Instant",
    "SystemTime",
    "HashMap",
    "HashSet",
    "RandomState",
    "async",
    "await",
    "unsafe",
    "extern",
    "env!",
    "option_env!",
    "print!",
    "println!",
    "eprint!",
    "eprintln!",
    "dbg!",
];

/// Methods by which types that may be named reach beyond the program.
const METHODS: &[&str] = &[
    "exists",
    "try_exists",
    "canonicalize",
    "read_dir",
    "read_link",
    "symlink_metadata",
    "is_file",
    "is_dir",
    "to_socket_addrs",
    "elapsed",
    "as_ptr",
];

/// What is named all the same: file, name, and why it does no harm.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "crates/xlate/src/listeners/gateway.rs",
        "cell",
        "counted while one listener is built, and gone with it",
    ),
    (
        "crates/xlate/src/routes/named.rs",
        "cell",
        "computed at most once while routes are built, and gone with them",
    ),
];

/// What the crates of generation name and may not, and exceptions that nothing needs.
///
/// # Errors
///
/// When sources cannot be read.
pub(crate) fn faults(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut faults = Vec::new();
    let mut used = vec![false; EXCEPTIONS.len()];
    for name in GENERATION {
        let files = from_root(&root.join("crates").join(name).join("src/lib.rs"))?;
        anyhow::ensure!(!files.code.is_empty(), "{name} has no sources");
        for (path, code) in &files.code {
            let shown = path
                .strip_prefix(root)
                .unwrap_or(path)
                .display()
                .to_string();
            for (what, line, brings) in impure(code) {
                let excepted = EXCEPTIONS.iter().position(|(file, name, _)| {
                    *file == shown && what.to_lowercase().contains(name)
                });
                match excepted {
                    Some(at) => used[at] = true,
                    None => faults.push(format!(
                        "{shown}:{line} names {what}: generation may not reach {brings}"
                    )),
                }
            }
        }
    }
    for ((file, name, _), used) in EXCEPTIONS.iter().zip(used) {
        if !used {
            faults.push(format!("{file} needs no exception for {name} any more"));
        }
    }
    Ok(faults)
}

/// What a source names and may not: the name, its line, what it brings in.
fn impure(code: &Code) -> Vec<(String, usize, &'static str)> {
    let before = std::iter::once("").chain(code.paths.iter().map(|(path, _)| path.as_str()));
    let paths = code.paths.iter().zip(before);
    let paths = paths.filter_map(|((path, line), before)| {
        Some((path.clone(), *line, forbidden(path, before == "use")?))
    });
    let methods = code
        .methods
        .iter()
        .filter(|(name, _)| METHODS.contains(&name.as_str()));
    let methods = methods.map(|(name, line)| (format!(".{name}()"), *line, "beyond the program"));
    let statics = code.statics.iter();
    let statics = statics.map(|(name, line)| {
        (
            format!("static {name}"),
            *line,
            "what outlives an evaluation",
        )
    });
    paths.chain(methods).chain(statics).collect()
}

/// What a path brings in that generation may not have; `imported`: it begins an import.
fn forbidden(path: &str, imported: bool) -> Option<&'static str> {
    let parts: Vec<&str> = path.split("::").collect();
    if matches!(parts[0], "std" | "core" | "alloc") {
        let Some(module) = parts.get(1) else {
            // `core` alone is also what a name of ours may be imported as.
            return (parts[0] != "core" || imported)
                .then_some("all of the standard library under another name");
        };
        if *module == "*" {
            return Some("all of the standard library");
        }
        if let Some((_, allowed, brings)) = RESTRICTED.iter().find(|(name, ..)| name == module)
            && parts.get(2).is_none_or(|name| !allowed.contains(name))
        {
            return Some(brings);
        }
    }
    if parts.len() > 1 && CRATES.contains(&parts[0]) {
        return Some("what that crate brings in");
    }
    let known = |part: &&str| NAMES.contains(part) || part.starts_with("Atomic");
    parts.iter().any(known).then_some("what is not its input")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let found = impure(&Code::read(text).unwrap());
        found.into_iter().map(|(name, ..)| name).collect()
    }

    #[test]
    fn every_side_channel_is_seen_however_it_is_imported() {
        for bad in [
            "use std::sync::Mutex;",
            "use std::{collections::BTreeMap, sync::{Arc, RwLock}};",
            "use std::sync;",
            "use std::sync::*;",
            "use std as s;",
            "use ::std::sync::OnceLock;",
            "fn f() { let x = std::sync::LazyLock::new(g); }",
            "use std::sync::atomic::AtomicU64;",
            "use store::AtomicBool;",
            "static X: u8 = 1;",
            "pub static X: &[u8] = b\"\";",
            "thread_local!(static X: u8 = 1);",
            "use std::cell::Cell;",
            "struct A { b: RefCell<u8> }",
            "use std::net::{IpAddr, TcpStream};",
            "use std::net::UdpSocket as S;",
            "fn f(p: &Path) { p.exists(); }",
            "fn f(h: &str) { h.to_socket_addrs(); }",
            "fn f() { std::fs::read(\"x\"); }",
            "use core::time;",
            "use std::{env, fmt};",
            "fn f() { option_env!(\"HOME\"); }",
            "use std::time::{Duration, SystemTime};",
            "fn f(i: I) { i.elapsed(); }",
            "use std::collections::{BTreeMap, HashMap};",
            "use std::hash::RandomState;",
            "use tokio::sync::watch;",
            "use rand::Rng;",
            "fn f() { vec![getrandom::fill(b)]; }",
            "async fn f() {}",
            "fn f() { unsafe { g() } }",
            "#[cfg(not(test))] use std::fs;",
            "#[cfg(test)] mod tests { } use std::fs;",
            "#[cfg(test)] const A: u8 = 1; fn f() { std::fs::read(\"x\"); }",
        ] {
            assert!(!names(bad).is_empty(), "{bad}");
        }
    }

    #[test]
    fn what_is_pure_may_be_named() {
        for good in [
            "use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};",
            "use std::net::{IpAddr, Ipv4Addr};",
            "use std::sync::Arc;",
            "use std::time::Duration;",
            "use std::hash::{Hash, Hasher};",
            "// std::fs\nconst A: &str = \"std::fs\";",
            "#[cfg(test)] mod tests { use std::fs; static X: u8 = 1; }",
            "fn f<'a>(a: &'static str) -> B<'a> { a.is_empty() }",
        ] {
            assert_eq!(names(good), [""; 0], "{good}");
        }
    }
}
