//! Names of SRV records, looked up again when the answer is old.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use tokio_util::sync::CancellationToken;

use crate::fixed::instance;
use crate::report::{self, Instance, Reading, Registry, RegistryError, Report, Reports};

/// An answer is not asked for again sooner, nor later, than this.
const LIFE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// An answer that there is none is asked for again after this.
const NONE: Duration = Duration::from_secs(30);
/// The longest that an answer may take.
const LOOKUP: Duration = Duration::from_secs(10);

/// A service whose instances DNS lists by SRV records.
#[derive(Clone, Debug)]
pub struct Srv {
    /// Its host.
    pub host: Arc<str>,
    /// The names of the records.
    pub names: Vec<Arc<str>>,
}

/// Whether a name is one of SRV records: `_http._tcp.example.com`.
pub fn is_srv(name: &str) -> bool {
    let mut labels = name.split('.');
    let first = labels.next().is_some_and(|label| label.starts_with('_'));
    first && matches!(labels.next(), Some("_tcp" | "_udp"))
}

impl Srv {
    async fn run(&self, to: &Reports) -> Result<(), RegistryError> {
        let resolver = TokioResolver::builder_tokio().map_err(failed)?.build();
        let closed = |_| RegistryError("nobody listens".into());
        loop {
            let mut instances = Vec::new();
            let mut life = LIFE.1;
            for name in &self.names {
                let (found, holds) = look_up(&resolver, name).await?;
                instances.extend(found);
                life = life.min(holds);
            }
            let service = Report::Service(self.host.clone(), instances);
            to.send(service).await.map_err(closed)?;
            let whole = Report::Whole(BTreeSet::from([self.host.clone()]));
            to.send(whole).await.map_err(closed)?;
            tokio::time::sleep(life.clamp(LIFE.0, LIFE.1)).await;
        }
    }
}

fn failed(error: impl std::fmt::Display) -> RegistryError {
    RegistryError(error.to_string().into())
}

/// The instances that a name has, and how long that holds. Only those that are to be asked first count.
async fn look_up(
    resolver: &TokioResolver,
    name: &str,
) -> Result<(Vec<Instance>, Duration), RegistryError> {
    let whole = format!("{}.", name.trim_end_matches('.'));
    let looking = tokio::time::timeout(LOOKUP, resolver.srv_lookup(whole));
    let found = looking.await.map_err(|_| failed("no answer in time"))?;
    let found = match found {
        Ok(found) => found,
        Err(error) if error.is_no_records_found() => return Ok((Vec::new(), NONE)),
        Err(error) => return Err(failed(error)),
    };
    let until = found.as_lookup().valid_until();
    let records: Vec<_> = found
        .iter()
        .map(|srv| {
            (
                srv.priority(),
                srv.weight(),
                srv.port(),
                srv.target().to_utf8(),
            )
        })
        .collect();
    Ok((
        instances(&records),
        until.saturating_duration_since(Instant::now()),
    ))
}

/// Instances of records: priority, weight, port and target. Weights of 0 are the least there is, unless all are.
fn instances(records: &[(u16, u16, u16, String)]) -> Vec<Instance> {
    let first = records.iter().map(|record| record.0).min();
    let records = records.iter().filter(|record| Some(record.0) == first);
    // A target that is the root says that there is no such service.
    let records = records.filter(|record| record.3 != ".");
    let records = records.map(|(_, weight, port, target)| Instance {
        weight: f64::from((*weight).max(1)),
        ..instance(target.trim_end_matches('.'), *port)
    });
    records.collect()
}

impl Registry for Srv {
    fn read(self: Box<Self>, to: Reports, stop: CancellationToken) -> Reading {
        report::until(stop, async move { self.run(&to).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_priority_counts() {
        let record =
            |priority, weight, port, target: &str| (priority, weight, port, target.to_owned());
        let found = instances(&[
            record(20, 5, 1, "late.example."),
            record(10, 0, 2, "a.example."),
            record(10, 60, 3, "b.example."),
        ]);
        let found: Vec<_> = found
            .iter()
            .map(|i| (&*i.address, i.port, i.weight))
            .collect();
        assert_eq!(found, [("a.example", 2, 1.0), ("b.example", 3, 60.0)]);
        assert!(instances(&[record(0, 0, 0, ".")]).is_empty());
    }

    #[test]
    fn names_of_services_are_told_from_hosts() {
        assert!(is_srv("_http._tcp.example.com") && is_srv("_dns._udp.example.com"));
        assert!(!is_srv("_dmarc.example.com") && !is_srv("a._tcp.example.com") && !is_srv("a"));
    }
}
