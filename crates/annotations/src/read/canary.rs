//! `canary` and its family: header before cookie before weight.

use crate::reader::Reader;
use crate::values::{boolean, count, header, regex, text, token};
use crate::{Canary, HeaderValue, Takes};

/// What a weight is of where it is not stated.
const TOTAL: u32 = 100;

/// Reads what a canary takes; `None` for other Ingresses.
pub(crate) fn read(r: &mut Reader<'_>) -> Option<Canary> {
    let is_canary = r.get("canary", boolean)?;
    if !is_canary {
        return None;
    }
    if let Some(name) = r.get("canary-by-header", header) {
        let exact = r
            .get("canary-by-header-value", text)
            .map(HeaderValue::Value);
        let value = match exact {
            Some(exact) => exact,
            None => {
                let pattern = r.get("canary-by-header-pattern", regex);
                pattern.map_or(HeaderValue::Always, HeaderValue::Pattern)
            }
        };
        return Some(Canary {
            takes: Takes::Header { name, value },
        });
    }
    if let Some(name) = r.get("canary-by-cookie", token) {
        return Some(Canary {
            takes: Takes::Cookie(name),
        });
    }
    let weight = r.get("canary-weight", count).unwrap_or(0);
    let total = r
        .get("canary-weight-total", count)
        .filter(|total| *total > 0);
    let total = total.unwrap_or(TOTAL);
    Some(Canary {
        takes: Takes::Weight {
            weight: weight.min(total),
            total,
        },
    })
}
