//! How many requests are served, and how large they may be.

use crate::reader::Reader;
use crate::values::{count, number, ranges, size};
use crate::{Limits, Rate};

/// How many times the rate may come at once, where it is not stated.
const MULTIPLIER: u32 = 5;

/// Reads limits.
pub(crate) fn read(r: &mut Reader<'_>) -> Limits {
    let mut rates = Vec::new();
    rates.extend(of_route(r));
    let names = [("limit-rps", 1), ("limit-rpm", 60)];
    let multiplier = r.get("limit-burst-multiplier", count).filter(|m| *m > 0);
    let status = r.option("limit-req-status-code", |text| {
        let status = u16::try_from(number(text)?).ok();
        let status = status.filter(|status| (400..600).contains(status));
        status.ok_or_else(|| "is no status from 400 to 599".into())
    });
    for (name, seconds) in names {
        if let Some(requests) = r.get(name, count).filter(|n| *n > 0) {
            rates.push(Rate {
                requests,
                seconds,
                burst: requests.saturating_mul(multiplier.unwrap_or(MULTIPLIER)),
                per_client: true,
                status: status.unwrap_or(503),
            });
        }
    }
    let except = r.get("limit-allowlist", ranges);
    let except = except.or_else(|| r.get("limit-whitelist", ranges));
    let body = r
        .get_or_option("proxy-body-size", size)
        .filter(|bytes| *bytes > 0);
    Limits {
        rates,
        except: except.unwrap_or_default(),
        body: body.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX)),
    }
}

/// The limit of a route in each proxy. Of two, that of minutes counts.
fn of_route(r: &mut Reader<'_>) -> Option<Rate> {
    let minutes = r.get("route-limit-rpm", count).filter(|n| *n > 0);
    let by_second = r.get("route-limit-rps", count).filter(|n| *n > 0);
    let multiplier = r
        .get("route-limit-burst-multiplier", count)
        .filter(|m| *m > 0);
    let (requests, seconds) = match minutes {
        Some(requests) => (requests, 60),
        None => (by_second?, 1),
    };
    Some(Rate {
        requests,
        seconds,
        burst: requests.saturating_mul(multiplier.unwrap_or(MULTIPLIER)),
        per_client: false,
        status: 429,
    })
}
