//! Functions that Kubernetes adds: URLs, addresses, quantities, regular expressions, lists.
//!
//! URLs, addresses and quantities stay texts, which their functions read again.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use ::cel::extractors::{Arguments, This};
use ::cel::objects::OptionalValue;
use ::cel::{Context, ExecutionError, Value};
use ipnet::IpNet;

use crate::quantity::Quantity;
use crate::text::{is_ip, is_request_url, url_part};
use crate::written::is_subdomain;

type Text = Arc<String>;
type Result<T> = std::result::Result<T, ExecutionError>;

/// The largest expression that is compiled, in bytes of its program.
const LARGEST_REGEX: usize = 1 << 20;

/// Whether a text has a form.
type Has = fn(&str) -> bool;

/// Forms of texts that `format` knows, with what has them.
const FORMATS: [(&str, Has); 6] = [
    ("dns1123Label", |t| {
        t.len() <= 63 && !t.contains('.') && is_subdomain(t)
    }),
    ("dns1123Subdomain", |t| t.len() <= 253 && is_subdomain(t)),
    ("dns1035Label", |t| {
        let starts = t.starts_with(|c: char| c.is_ascii_lowercase());
        starts && t.len() <= 63 && !t.contains('.') && is_subdomain(t)
    }),
    ("labelValue", |t| {
        t.is_empty() || model::labels::fault("key", t).is_none()
    }),
    ("qualifiedName", |t| model::labels::fault(t, "").is_none()),
    ("uri", is_request_url),
];

/// What an address is.
type Is = fn(IpAddr) -> bool;

/// Kinds of addresses.
// Kubernetes: staging/src/k8s.io/apiserver/pkg/cel/library/ip.go, 1.36.
const ADDRESSES: [(&str, Is); 5] = [
    ("isUnspecified", |ip| ip.is_unspecified()),
    ("isLoopback", |ip| ip.is_loopback()),
    ("isLinkLocalMulticast", |ip| match ip {
        IpAddr::V4(ip) => matches!(ip.octets(), [224, 0, 0, _]),
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }),
    ("isLinkLocalUnicast", is_link_local),
    ("isGlobalUnicast", |ip| {
        let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
        let narrow = ip.is_unspecified() || ip.is_loopback() || is_link_local(ip);
        !(narrow || broadcast || ip.is_multicast())
    }),
];

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Adds them. Where there is nothing wrong with a text, `validate` gives an optional without a value; published rules compare
/// it with `null` as well, and get that where `nulls` says so.
pub(super) fn add(context: &mut Context<'_, '_>, nulls: bool) {
    context.add_variable_from_value("format", Value::from("format"));
    for (name, _) in FORMATS {
        let _ = context.add_function(name, move |This(_): This<Text>| Value::from(name));
    }
    // What is wrong with a text.
    let _ = context.add_function(
        "validate",
        move |This(name): This<Text>, text: Text| match FORMATS
            .iter()
            .find(|(known, _)| **known == **name)
        {
            Some((_, is)) if is(&text) && nulls => Value::Null,
            Some((_, is)) if is(&text) => Value::Opaque(Arc::new(OptionalValue::none())),
            _ => {
                let faults = Value::List(Arc::new(vec![Value::from(format!("no {name}"))]));
                Value::Opaque(Arc::new(OptionalValue::of(faults)))
            }
        },
    );
    // Names that the standard library has are left to it.
    let _ = context.add_function("isURL", |t: Text| is_request_url(&t));
    let _ = context.add_function("url", |t: Text| read(t, is_request_url, "URL"));
    let _ = context.add_function("getScheme", |This(t): This<Text>| url_part(&t, "scheme"));
    let _ = context.add_function("getHost", |This(t): This<Text>| url_part(&t, "host"));
    let _ = context.add_function("getHostname", |This(t): This<Text>| {
        url_part(&t, "hostname")
    });
    let _ = context.add_function("getPort", |This(t): This<Text>| url_part(&t, "port"));
    let _ = context.add_function("getEscapedPath", |This(t): This<Text>| url_part(&t, "path"));
    let _ = context.add_function("isIP", |t: Text| is_ip(&t));
    // Of a text, and of a range.
    let _ = context.add_function("ip", |This(t): This<Text>| match t.parse::<IpNet>() {
        Ok(range) => Ok(Value::from(range.addr().to_string())),
        Err(_) => read(t, is_ip, "IP address"),
    });
    let _ = context.add_function("ip.isCanonical", |t: Text| {
        t.parse::<IpAddr>().is_ok_and(|ip| ip.to_string() == **t)
    });
    for (name, is) in ADDRESSES {
        let _ = context.add_function(name, move |This(t): This<Text>| t.parse().is_ok_and(is));
    }
    let _ = context.add_function(
        "containsCIDR",
        |This(range): This<Text>, inner: Text| match (
            range.parse::<IpNet>(),
            inner.parse::<IpNet>(),
        ) {
            (Ok(range), Ok(inner)) => range.contains(&inner),
            _ => false,
        },
    );
    let _ = context.add_function("masked", |This(range): This<Text>| {
        range
            .parse::<IpNet>()
            .map_or(String::new(), |r| r.trunc().to_string())
    });
    let _ = context.add_function(
        "family",
        |This(t): This<Text>| {
            if t.contains(':') { 6_i64 } else { 4 }
        },
    );
    let _ = context.add_function("isCIDR", |t: Text| is_range(&t));
    let _ = context.add_function("cidr", |t: Text| read(t, is_range, "CIDR range"));
    let _ = context.add_function("containsIP", |This(range): This<Text>, ip: Text| {
        match (range.parse::<IpNet>(), ip.parse()) {
            (Ok(range), Ok(ip)) => range.contains::<&std::net::IpAddr>(&ip),
            _ => false,
        }
    });
    let _ = context.add_function("prefixLength", |This(range): This<Text>| {
        range
            .parse::<IpNet>()
            .map_or(0, |r| i64::from(r.prefix_len()))
    });
    let _ = context.add_function("isQuantity", |t: Text| quantity(&t).is_some());
    let _ = context.add_function("quantity", |t: Text| {
        read(t, |t| quantity(t).is_some(), "quantity")
    });
    let _ = context.add_function("isGreaterThan", |This(a): This<Text>, b: Text| {
        quantity(&a) > quantity(&b)
    });
    let _ = context.add_function("isLessThan", |This(a): This<Text>, b: Text| {
        quantity(&a) < quantity(&b)
    });
    let _ = context.add_function("compareTo", |This(a): This<Text>, b: Text| {
        let order = quantity(&a).partial_cmp(&quantity(&b));
        order.map_or(0_i64, |order| order as i64)
    });
    let number = |t: &str| quantity(t).unwrap_or_default();
    let _ = context.add_function("sign", move |This(t): This<Text>| {
        let order = number(&t).partial_cmp(&0.0);
        order.map_or(0_i64, |order| order as i64)
    });
    let _ = context.add_function("isInteger", move |This(t): This<Text>| {
        let number = number(&t);
        number.fract() == 0.0 && number.abs() < 9.2e18
    });
    let _ = context.add_function("asInteger", move |This(t): This<Text>| -> Result<i64> {
        let number = number(&t);
        if number.fract() != 0.0 || number.abs() >= 9.2e18 {
            let message = format!("{t:?} is no whole number");
            return Err(ExecutionError::function_error("asInteger", message));
        }
        #[allow(clippy::cast_possible_truncation)] // It is whole and fits.
        Ok(number as i64)
    });
    let _ = context.add_function("asApproximateFloat", move |This(t): This<Text>| number(&t));
    let _ = context.add_function("strings.quote", |t: Text| format!("{t:?}"));
    sets(context);
    let _ = context.add_function(
        "find",
        |This(t): This<Text>, pattern: Text| -> Result<Value> {
            let regex = regex(&pattern)?;
            Ok(Value::from(regex.find(&t).map_or("", |m| m.as_str())))
        },
    );
    let _ = context.add_function(
        "findAll",
        |This(t): This<Text>, Arguments(args): Arguments| -> Result<Value> {
            let Some(Value::String(pattern)) = args.first() else {
                return Err(ExecutionError::missing_argument_or_target());
            };
            let most = match args.get(1) {
                Some(Value::Int(most)) => usize::try_from(*most).unwrap_or(usize::MAX),
                _ => usize::MAX,
            };
            let regex = regex(pattern)?;
            let found = regex.find_iter(&t).take(most);
            let found = found.map(|m| Value::from(m.as_str()));
            Ok(Value::List(Arc::new(found.collect())))
        },
    );
    let _ = context.add_function("isSorted", |This(list): This<Value>| match list {
        Value::List(items) => {
            items.is_sorted_by(|a, b| a.partial_cmp(b).is_some_and(|o| o.is_le()))
        }
        _ => false,
    });
    let _ = context.add_function("sum", |This(list): This<Value>| -> Result<Value> {
        let Value::List(items) = list else {
            return Ok(Value::Int(0));
        };
        let mut items = items.iter().cloned();
        let first = items.next().unwrap_or(Value::Int(0));
        items.try_fold(first, |a, b| a + b)
    });
}

/// Sets, which are lists, and the ends of lists.
fn sets(context: &mut Context<'_, '_>) {
    type List = Arc<Vec<Value>>;
    let all = |a: &List, b: &List| b.iter().all(|item| a.contains(item));
    let _ = context.add_function("sets.contains", move |a: List, b: List| all(&a, &b));
    let _ = context.add_function("sets.equivalent", move |a: List, b: List| {
        all(&a, &b) && all(&b, &a)
    });
    let _ = context.add_function("sets.intersects", |a: List, b: List| {
        b.iter().any(|item| a.contains(item))
    });
    for (name, wanted) in [("min", Ordering::Less), ("max", Ordering::Greater)] {
        let _ = context.add_function(name, move |This(list): This<List>| -> Result<Value> {
            let mut items = list.iter();
            let first = items.next().cloned();
            let first = first.ok_or_else(|| ExecutionError::function_error(name, "empty list"))?;
            Ok(items.fold(first, |best, item| {
                if item.partial_cmp(&best) == Some(wanted) {
                    item.clone()
                } else {
                    best
                }
            }))
        });
    }
}

fn read(text: Text, is: impl Fn(&str) -> bool, what: &str) -> Result<Value> {
    match is(&text) {
        true => Ok(Value::String(text)),
        false => Err(ExecutionError::function_error(
            "conversion",
            format!("{text:?} is no {what}"),
        )),
    }
}

fn is_range(text: &str) -> bool {
    text.parse::<IpNet>().is_ok()
}

fn regex(pattern: &str) -> Result<regex::Regex> {
    regex::RegexBuilder::new(pattern)
        .size_limit(LARGEST_REGEX)
        .build()
        .map_err(|e| ExecutionError::function_error("find", e))
}

/// The number that a quantity such as `1.5Gi` stands for.
fn quantity(text: &str) -> Option<f64> {
    let nanos = Quantity::parse(text).ok()?.nanos();
    #[allow(clippy::cast_precision_loss)]
    Some(nanos as f64 / 1e9)
}
