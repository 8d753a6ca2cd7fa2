//! What servers say, as JSON, and what of it is an instance.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{DeserializeOwned, Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::names::Key;
use crate::lenient::{Pairs, Scalar, text};
use crate::report::Instance;

/// More instances of a service than this are not read.
const MOST_INSTANCES: usize = 50_000;
/// More names in one page than this are not read.
const MOST_NAMES: usize = 10_000;

/// The answer to any request over gRPC. Each has some of these.
#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Answer {
    /// 200 where all is well.
    pub(super) result_code: i64,
    /// What is wrong.
    pub(super) error_code: i64,
    /// The same in words.
    pub(super) message: Option<String>,
    /// Of a page of the list of services.
    #[serde(deserialize_with = "names")]
    pub(super) service_names: Vec<String>,
    /// What a subscription begins with.
    pub(super) service_info: Option<ServiceInfo>,
}

/// What a server asks of a client. Each has some of these.
#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Request {
    /// Named in the answer.
    pub(super) request_id: Option<String>,
    /// What a service is now.
    pub(super) service_info: Option<ServiceInfo>,
}

impl Request {
    /// Which service is something else now, and what.
    pub(super) fn pushed(self) -> Option<(Key, Vec<Instance>)> {
        let service = self.service_info?;
        let key = Key::read(&service.name?, &service.group_name?)?;
        Some((key, service.hosts))
    }
}

/// A service with its instances: of a push, a subscription, or a list over HTTP.
#[derive(Deserialize, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ServiceInfo {
    /// The service, alone or as `<group>@@<service>`.
    #[serde(deserialize_with = "text")]
    pub(super) name: Option<Arc<str>>,
    /// Its group.
    #[serde(deserialize_with = "text")]
    pub(super) group_name: Option<Arc<str>>,
    /// Its instances.
    #[serde(deserialize_with = "instances")]
    pub(super) hosts: Vec<Instance>,
}

/// A page of the list of services over HTTP.
#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub(super) struct Page {
    /// Names of services.
    #[serde(deserialize_with = "names")]
    pub(super) doms: Vec<String>,
}

/// What a login gets.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Granted {
    /// Sent with requests.
    pub(super) access_token: String,
    /// Seconds that it holds.
    pub(super) token_ttl: u64,
}

/// Reads JSON that a server sent.
///
/// # Errors
///
/// Says what is wrong with it, and never what it said.
pub(super) fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    serde_json::from_slice(json).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!("JSON that cannot be read at {line}:{column}")
    })
}

/// An instance as it is written.
#[derive(Deserialize)]
#[serde(default)]
struct Written {
    #[serde(deserialize_with = "text")]
    ip: Option<Arc<str>>,
    port: Number,
    weight: Number,
    healthy: bool,
    enabled: bool,
    // Its name before Nacos 1.
    valid: bool,
    metadata: Pairs,
}

impl Default for Written {
    fn default() -> Self {
        Self {
            ip: None,
            port: Number(0.0),
            weight: Number(1.0),
            healthy: true,
            enabled: true,
            valid: true,
            metadata: Pairs::default(),
        }
    }
}

impl Written {
    /// None where nobody could connect to it.
    fn instance(self, known: &mut Known) -> Option<Instance> {
        let address = self.ip.filter(|ip| !ip.is_empty())?;
        let port = self.port.0;
        // Casts saturate, and a fraction is no port.
        let number = port as u16;
        if number == 0 || f64::from(number) != port {
            return None;
        }
        let metadata = self.metadata.0.into_iter();
        Some(Instance {
            address,
            port: number,
            protocol: None,
            weight: self.weight.0,
            healthy: self.healthy && self.enabled && self.valid,
            metadata: metadata
                .map(|(k, v)| (known.get(k), known.get(v)))
                .collect(),
        })
    }
}

/// Texts that instances of a service share.
#[derive(Default)]
struct Known(HashSet<Arc<str>>);

impl Known {
    fn get(&mut self, text: Arc<str>) -> Arc<str> {
        match self.0.get(&text) {
            Some(known) => known.clone(),
            None => {
                self.0.insert(text.clone());
                text
            }
        }
    }
}

/// A number, whichever way it is written. What is none is 1.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Number(f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Scalar::deserialize(deserializer)?;
        let read: Option<f64> = written.0.and_then(|text| text.parse().ok());
        Ok(Self(read.filter(|n| n.is_finite()).unwrap_or(1.0)))
    }
}

/// A list, or `null`, with each element taken as it comes.
struct Each<T, F>(F, &'static str, PhantomData<T>);

impl<'de, T: Deserialize<'de>, F: FnMut(T) -> bool> Visitor<'de> for Each<T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while let Some(element) = seq.next_element()? {
            if !(self.0)(element) {
                return Err(Error::custom(self.1));
            }
        }
        Ok(())
    }
}

fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let mut names = Vec::new();
    let take = |name: String| {
        names.push(name);
        names.len() <= MOST_NAMES
    };
    deserializer.deserialize_any(Each(take, "too many names", PhantomData))?;
    Ok(names)
}

fn instances<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Instance>, D::Error> {
    let (mut instances, mut known) = (Vec::new(), Known::default());
    let take = |written: Written| {
        instances.extend(written.instance(&mut known));
        instances.len() <= MOST_INSTANCES
    };
    deserializer.deserialize_any(Each(take, "too many instances", PhantomData))?;
    Ok(instances)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(json: &str) -> Result<Vec<Instance>, String> {
        let service: ServiceInfo = read(json.as_bytes())?;
        Ok(service.hosts)
    }

    #[test]
    fn an_instance_gets_requests_where_it_is_healthy_and_enabled() {
        for (flags, healthy) in [
            ("", true),
            (r#","healthy":false"#, false),
            (r#","enabled":false"#, false),
            (r#","healthy":true,"enabled":true"#, true),
        ] {
            let json = format!(r#"{{"hosts":[{{"ip":"10.0.0.1","port":80{flags}}}]}}"#);
            assert_eq!(hosts(&json).unwrap()[0].healthy, healthy, "{flags}");
        }
    }

    #[test]
    fn what_is_no_instance_is_left_out_alone() {
        for (host, left) in [
            (r#"{"ip":"a","port":80,"weight":0.4}"#, Some((80, 0.4))),
            (r#"{"ip":"a","port":"80","weight":"NaN"}"#, Some((80, 1.0))),
            (
                r#"{"ip":"a","port":80,"weight":null,"metadata":null}"#,
                Some((80, 1.0)),
            ),
            (r#"{"ip":"a","port":0}"#, None),
            (r#"{"ip":"a","port":65536}"#, None),
            (r#"{"ip":"a","port":-1}"#, None),
            (r#"{"ip":"a","port":80.5}"#, None),
            (r#"{"ip":"","port":80}"#, None),
            (r#"{"port":80}"#, None),
        ] {
            let json = format!(r#"{{"hosts":[{host},{{"ip":"b","port":1}}]}}"#);
            let found = hosts(&json).unwrap();
            let (last, first) = found.split_last().unwrap();
            assert_eq!(&*last.address, "b");
            assert_eq!(first.first().map(|i| (i.port, i.weight)), left, "{host}");
        }
    }

    #[test]
    fn metadata_is_texts() {
        let json = r#"{"hosts":[{"ip":"a","port":1,"metadata":
            {"a":"b","n":1,"t":true,"null":null,"list":[1,{}],"map":{"a":[]}}}]}"#;
        let found = hosts(json).unwrap();
        let metadata: Vec<(&str, &str)> = found[0]
            .metadata
            .iter()
            .map(|(k, v)| (&**k, &**v))
            .collect();
        assert_eq!(metadata, [("a", "b"), ("n", "1"), ("t", "true")]);
    }

    #[test]
    fn lists_are_bounded_and_errors_say_nothing_of_the_content() {
        let many = |n: usize, one: &str| vec![one; n].join(",");
        let host = r#"{"ip":"a","port":1}"#;
        assert!(hosts(&format!(r#"{{"hosts":[{}]}}"#, many(MOST_INSTANCES, host))).is_ok());
        assert!(
            hosts(&format!(
                r#"{{"hosts":[{}]}}"#,
                many(MOST_INSTANCES + 1, host)
            ))
            .is_err()
        );
        let page = |n| read::<Page>(format!(r#"{{"doms":[{}]}}"#, many(n, r#""""#)).as_bytes());
        assert!(page(MOST_NAMES).is_ok() && page(MOST_NAMES + 1).is_err());
        let deep = format!(r#"{{"x":{}"#, "[".repeat(100_000));
        assert!(hosts(&deep).is_err());
        let error = hosts(r#"{"hosts":[{"ip":"a","port":1,"healthy":"hunter2"}]}"#).unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
