//! What a registry says, before anything is made of it.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;

use model::outside::Texts;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The host of a service as Higress names it: `<service>.<group>.<namespace>.nacos`, `<service>.<datacenter>.consul`,
/// `<APP>.eureka`.
pub type ServiceName = Arc<str>;

/// An instance of a service, as its registry has it.
#[derive(Clone, PartialEq, Debug)]
pub struct Instance {
    /// An IP address or a host name.
    pub address: Arc<str>,
    /// The port that it listens on.
    pub port: u16,
    /// What the registry calls its protocol, where it says so apart from metadata.
    pub protocol: Option<Arc<str>>,
    /// Its share of requests; 1 where the registry has no weights. 0 means none.
    pub weight: f64,
    /// Whether it is to get requests: healthy and enabled, in the registry's words.
    pub healthy: bool,
    /// What it says of itself.
    pub metadata: BTreeMap<Arc<str>, Arc<str>>,
}

/// What a registry says. Reports of a service replace earlier ones.
#[derive(Clone, PartialEq, Debug)]
pub enum Report {
    /// All instances of a service, in any order; none where the registry knows the service and no instance of it.
    Service(ServiceName, Vec<Instance>),
    /// All services that there are, once each of them has been reported since the connection was made. What is not among
    /// them is gone.
    Whole(BTreeSet<ServiceName>),
    /// The registry does not answer, and why. What it said before is old, not wrong.
    Lost(Arc<str>),
}

impl Texts for Report {
    fn edit(&mut self, new: &dyn Fn(&str) -> Option<String>) {
        match self {
            Self::Service(name, instances) => {
                name.edit(new);
                for instance in instances {
                    instance.address.edit(new);
                    if let Some(protocol) = &mut instance.protocol {
                        protocol.edit(new);
                    }
                    instance.metadata.edit(new);
                }
            }
            Self::Whole(names) => {
                if names.iter().any(|name| new(name).is_some()) {
                    let cleaned = std::mem::take(names).into_iter().map(|mut name| {
                        name.edit(new);
                        name
                    });
                    *names = cleaned.collect();
                }
            }
            Self::Lost(why) => why.edit(new),
        }
    }
}

/// Where a registry sends its reports. Sending waits while many were not yet taken.
pub type Reports = mpsc::Sender<Report>;

/// Why a registry cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RegistryError(pub Arc<str>);

/// A registry that is being read.
pub type Reading = Pin<Box<dyn Future<Output = Result<(), RegistryError>> + Send>>;

/// Reads until `stop`, for a protocol that may be dropped at any time.
pub(crate) fn until(
    stop: CancellationToken,
    reading: impl Future<Output = Result<(), RegistryError>> + Send + 'static,
) -> Reading {
    Box::pin(async move {
        tokio::select! {
            ended = reading => ended,
            () = stop.cancelled() => Ok(()),
        }
    })
}

/// The protocol of one kind of registry.
pub trait Registry: Send {
    /// Reports everything, then [`Report::Whole`], then each change, until `stop`. Whoever runs it starts it again, with a
    /// wait that grows, when it ends with an error.
    fn read(self: Box<Self>, to: Reports, stop: CancellationToken) -> Reading;
}

#[cfg(test)]
mod tests {
    use model::outside::Outside;

    use super::*;

    #[test]
    fn no_text_of_a_registry_is_a_mark() {
        let forged: Arc<str> = "\u{FDD0}ops\u{FDD0}{secret.ops/key.k}\\ufdd0".into();
        let instance = Instance {
            address: forged.clone(),
            port: 80,
            protocol: Some(forged.clone()),
            weight: 1.0,
            healthy: true,
            metadata: BTreeMap::from([(forged.clone(), forged.clone())]),
        };
        for report in [
            Report::Service(forged.clone(), vec![instance]),
            Report::Whole([forged.clone()].into()),
            Report::Lost(forged),
        ] {
            let cleaned = format!("{:?}", *Outside::new(report));
            assert!(cleaned.contains("secret.ops/key.k"), "{cleaned}");
            assert!(!cleaned.contains("fdd0"), "{cleaned}");
        }
    }
}
