//! URLs as dicts.

use super::{S, dict_type};
use crate::functions::{Args, Fault, Functions};
use crate::value::Value;

pub(super) fn add(functions: &mut Functions) {
    functions.add("urlParse", &[S], |meter, args| {
        meter.make(args.str(0).len().saturating_mul(2))?;
        parsed(args.str(0)).map_err(|why| {
            format!(
                "unable to parse url: parse {}: {why}",
                crate::print::quote(args.str(0))
            )
            .into()
        })
    });
    functions.add("urlJoin", &[dict_type()], |meter, args| {
        let url = joined(&args)?;
        meter.make(url.len())?;
        Ok(url.into())
    });
}

fn parsed(url: &str) -> Result<Value, String> {
    if url.chars().any(|c| c.is_ascii_control()) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (scheme, rest) = scheme(rest)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let opaque = !scheme.is_empty() && !rest.starts_with('/') && !rest.is_empty();
    let (authority, path) = match rest.strip_prefix("//") {
        _ if opaque => ("", ""),
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let hostname = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    Ok(Value::dict([
        ("scheme", Value::from(scheme)),
        ("host", host.into()),
        ("hostname", hostname.into()),
        ("path", unescaped(path)?.into()),
        ("query", query.into()),
        ("opaque", if opaque { rest } else { "" }.into()),
        ("fragment", unescaped(fragment)?.into()),
        ("userinfo", user.into()),
    ]))
}

/// The scheme in lower case, and what follows it.
fn scheme(url: &str) -> Result<(String, &str), String> {
    let word = url.len()
        - url
            .trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "+-.".contains(c))
            .len();
    match url[word..].strip_prefix(':') {
        Some(_) if word == 0 => Err("missing protocol scheme".to_owned()),
        Some(_) if !url.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            Err("first path segment in URL cannot contain colon".to_owned())
        }
        Some(rest) => Ok((url[..word].to_ascii_lowercase(), rest)),
        None => Ok((String::new(), url)),
    }
}

fn unescaped(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let Some(byte) = byte else {
            let end = rest.len().min(2);
            let shown = String::from_utf8_lossy(&after[..end]);
            return Err(format!(
                "invalid URL escape {}",
                crate::print::quote(&format!("%{shown}"))
            ));
        };
        bytes.push(byte);
        rest = &after[2..];
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn joined(args: &Args<'_>) -> Result<String, Fault> {
    let map = args.map(0);
    let part = |key: &str| match map.get(key) {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.to_string()),
        Some(other) => Err(Fault::from(format!(
            "unable to parse {key} key, must be of type string, but {} found",
            other.kind()
        ))),
    };
    let (scheme, host, path) = (part("scheme")?, part("host")?, part("path")?);
    let (query, opaque, fragment, user) = (
        part("query")?,
        part("opaque")?,
        part("fragment")?,
        part("userinfo")?,
    );
    let mut out = String::new();
    if !scheme.is_empty() {
        out.push_str(&format!("{scheme}:"));
    }
    if opaque.is_empty() {
        if !scheme.is_empty() || !host.is_empty() || !user.is_empty() {
            if !host.is_empty() || !path.is_empty() || !user.is_empty() {
                out.push_str("//");
            }
            if !user.is_empty() {
                out.push_str(&format!("{user}@"));
            }
            out.push_str(&escaped(&host, "[]:"));
        }
        if !path.is_empty() && !path.starts_with('/') && !host.is_empty() {
            out.push('/');
        }
        out.push_str(&escaped(&path, "/:@&=+$,;"));
    } else {
        out.push_str(&opaque);
    }
    if !query.is_empty() {
        out.push_str(&format!("?{query}"));
    }
    if !fragment.is_empty() {
        out.push_str(&format!("#{}", escaped(&fragment, "/:@&=+$,;?!()*'")));
    }
    Ok(out)
}

fn escaped(text: &str, kept: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || "-_.~".contains(c) || kept.contains(c) {
            out.push(c);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
