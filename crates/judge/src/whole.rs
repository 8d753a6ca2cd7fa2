//! Checks of several fields together that Envoy's code makes.

use std::net::IpAddr;

use crate::check::shown;
use crate::discovery;
use crate::fault::Fault;
use crate::table::Whole;
use crate::wire::{Fields, Value};

/// Hash rings have at most so many entries, and so many if nothing is stated.
const LARGEST_RING: u64 = 8_388_608;
/// And at least so many.
const SMALLEST_RING: u64 = 1024;

pub(crate) fn check(check: Whole, message: &[u8]) -> Result<(), Fault> {
    match check {
        Whole::Weights => weights(message),
        Whole::Format => format(message),
        Whole::Cidr => cidr(message),
        Whole::Ring => ring(message, (1, 4)),
        Whole::TypedRing => ring(message, (2, 3)),
        Whole::BackOff => back_off(message),
        Whole::Rewrites => rewrites(message),
        Whole::NamedPeers => named_peers(message),
        Whole::ListensAtIp => listens_at_ip(message),
        Whole::Discovery => discovery::check(message),
    }
}

/// The last value of a field that is written as a message or text.
pub(crate) fn bytes_of(message: &[u8], number: u32) -> Option<&[u8]> {
    let fields = Fields::of(message).filter_map(Result::ok);
    let found = fields.filter_map(|field| match field {
        (at, Value::Bytes(bytes)) if at == number => Some(bytes),
        _ => None,
    });
    found.last()
}

/// The number in a field that is a message around it.
fn wrapped(message: &[u8], number: u32) -> Option<u64> {
    let held = bytes_of(message, number)?;
    let numbers = Fields::of(held).filter_map(|field| match field {
        Ok((1, Value::Varint(n))) => Some(n),
        _ => None,
    });
    Some(numbers.last().unwrap_or(0))
}

/// The weights of `WeightedCluster` sum up to something that fits 32 bits.
fn weights(message: &[u8]) -> Result<(), Fault> {
    let mut sum: u64 = 0;
    for field in Fields::of(message) {
        if let (1, Value::Bytes(cluster)) = field? {
            sum = sum.saturating_add(wrapped(cluster, 2).unwrap_or(0));
        }
    }
    match sum {
        0 => Err(Fault::new("the sum of all weights is 0").within("clusters")),
        sum if sum > u64::from(u32::MAX) => {
            let why = format!("the sum of all weights is {sum}, more than {}", u32::MAX);
            Err(Fault::new(why).within("clusters"))
        }
        _ => Ok(()),
    }
}

/// The value that a header is set to is a format.
fn format(message: &[u8]) -> Result<(), Fault> {
    let value = bytes_of(message, 1).and_then(|header| bytes_of(header, 2));
    let value = value.unwrap_or_default();
    if !value.contains(&b'%') {
        return Ok(());
    }
    let text = str::from_utf8(value).map_err(|_| Fault::new("is not UTF-8"));
    text.and_then(|text| validate::text::header_value(text).map_err(Fault::new))
        .map_err(|fault| fault.within("value").within("header"))
}

/// An address is one. A prefix that is too long is cut by Envoy.
fn cidr(message: &[u8]) -> Result<(), Fault> {
    let address = bytes_of(message, 1).unwrap_or_default();
    match str::from_utf8(address).map(str::parse::<IpAddr>) {
        Ok(Ok(_)) => Ok(()),
        _ => {
            let why = format!("{} is not an IP address", shown(address));
            Err(Fault::new(why).within("address_prefix"))
        }
    }
}

/// A ring is not larger at least than at most.
fn ring(message: &[u8], (least, most): (u32, u32)) -> Result<(), Fault> {
    let least = wrapped(message, least).unwrap_or(SMALLEST_RING);
    let most = wrapped(message, most).unwrap_or(LARGEST_RING);
    if least > most {
        let why = format!("{least} is more than the largest size, which is {most}");
        return Err(Fault::new(why).within("minimum_ring_size"));
    }
    Ok(())
}

/// Retries wait at most as long as they wait at first, or longer.
fn back_off(message: &[u8]) -> Result<(), Fault> {
    let nanos = |number| {
        let time = bytes_of(message, number)?;
        let part = |number| {
            let numbers = Fields::of(time).filter_map(move |field| match field {
                Ok((at, Value::Varint(n))) if at == number => Some(n),
                _ => None,
            });
            u128::from(numbers.last().unwrap_or(0))
        };
        Some(part(1) * 1_000_000_000 + part(2))
    };
    match (nanos(1), nanos(2)) {
        (Some(base), Some(most)) if most < base => {
            Err(Fault::new("is shorter than the base interval").within("max_interval"))
        }
        _ => Ok(()),
    }
}

/// A path is rewritten in one way.
fn rewrites(message: &[u8]) -> Result<(), Fault> {
    const WAYS: [u32; 3] = [5, 32, 41];
    let stated = WAYS.iter().filter(|number| {
        bytes_of(message, **number).is_some_and(|value| **number != 5 || !value.is_empty())
    });
    match stated.count() {
        0 | 1 => Ok(()),
        _ => Err(Fault::new("the path is rewritten in several ways")),
    }
}

/// Where names of peers are asked for, something vouches for them: roots or a validator of its own. What comes by SDS is not
/// there yet; of what else has roots in the API, Envoy knows nothing.
fn named_peers(message: &[u8]) -> Result<(), Fault> {
    const CONTEXT: u32 = 3;
    const NAMES: [u32; 2] = [9, 15];
    const ROOTS: [u32; 2] = [1, 12];
    let Some(context) = bytes_of(message, CONTEXT) else {
        return Ok(());
    };
    let has = |numbers: &[u32]| {
        numbers
            .iter()
            .any(|number| bytes_of(context, *number).is_some())
    };
    match has(&NAMES) && !has(&ROOTS) {
        true => Err(
            Fault::new("names of peers are asked for without a trusted CA")
                .within("validation_context"),
        ),
        false => Ok(()),
    }
}

/// A listener has an IP address, unless it says who resolves names, or is at another kind of address.
fn listens_at_ip(message: &[u8]) -> Result<(), Fault> {
    const ADDRESS: u32 = 2;
    const ADDITIONAL: u32 = 33;
    for field in Fields::of(message) {
        let address = match field? {
            (ADDRESS, Value::Bytes(address)) => Some(address),
            (ADDITIONAL, Value::Bytes(additional)) => bytes_of(additional, 1),
            _ => None,
        };
        let Some(socket) = address.and_then(|address| bytes_of(address, 1)) else {
            continue;
        };
        let (text, resolver) = (bytes_of(socket, 2), bytes_of(socket, 5));
        let text = text.unwrap_or_default();
        let is_ip = str::from_utf8(text).is_ok_and(|text| text.parse::<IpAddr>().is_ok());
        if resolver.is_none_or(<[u8]>::is_empty) && !is_ip {
            let why = format!("{} is not an IP address", shown(text));
            return Err(Fault::new(why).within("address"));
        }
    }
    Ok(())
}
