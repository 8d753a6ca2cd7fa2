//! `canary` and its family.

use crate::reader::Reader;
use crate::values::{boolean, count, header, regex, text, token};
use crate::{Canary, HeaderValue, Takes};

/// What a weight is of where it is not stated.
const TOTAL: u32 = 100;

/// Reads what a canary takes; `None` for other Ingresses.
///
/// ingress-nginx: rootfs/etc/nginx/lua/balancer.lua, 1.15: where the header says nothing the cookie counts, then the weight.
/// Higress reads the first of them alone.
pub(crate) fn read(r: &mut Reader<'_>) -> Option<Canary> {
    let is_canary = r.get("canary", boolean)?;
    if !is_canary {
        return None;
    }
    let mut takes = Vec::new();
    if let Some(name) = r.get("canary-by-header", header) {
        let value = header_value(r);
        takes.push(Takes::Header { name, value });
    }
    if (r.is_nginx() || takes.is_empty())
        && let Some(name) = r.get("canary-by-cookie", token)
    {
        takes.push(Takes::Cookie(name));
    }
    if r.is_nginx() || takes.is_empty() {
        let weight = weight(r);
        takes.extend((takes.is_empty() || r.has("canary-weight")).then_some(weight));
    }
    Some(Canary { takes })
}

fn header_value(r: &mut Reader<'_>) -> HeaderValue {
    if let Some(value) = r.get("canary-by-header-value", text) {
        return HeaderValue::Value(value);
    }
    let pattern = r.get("canary-by-header-pattern", regex);
    pattern.map_or(HeaderValue::Always, HeaderValue::Pattern)
}

fn weight(r: &mut Reader<'_>) -> Takes {
    let weight = r.get("canary-weight", count).unwrap_or(0);
    let total = r
        .get("canary-weight-total", count)
        .filter(|total| *total > 0);
    let total = total.unwrap_or(TOTAL);
    Takes::Weight {
        weight: weight.min(total),
        total,
    }
}
