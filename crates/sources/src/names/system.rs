//! Names looked up where the system looks them up.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::LookupIpStrategy;

use super::{Answer, Looking, Resolve, SHORTEST_LIFE};

/// Looks names up as `/etc/resolv.conf` and `/etc/hosts` say. Search domains do not count: a name is a whole one.
pub struct SystemResolver(Result<TokioResolver, Arc<str>>);

impl SystemResolver {
    /// Reads how the system looks names up. Where it does not say, each lookup fails.
    pub fn new() -> Self {
        let resolver = TokioResolver::builder_tokio().map(|mut builder| {
            builder.options_mut().ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
            builder.build()
        });
        Self(resolver.map_err(|error| Arc::from(error.to_string())))
    }
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self::new()
    }
}

impl Resolve for SystemResolver {
    fn look_up(&self, name: Arc<str>) -> Looking {
        let resolver = self.0.clone();
        Box::pin(async move {
            let resolver = resolver.map_err(|error| error.to_string())?;
            let whole = format!("{}.", name.trim_end_matches('.'));
            match resolver.lookup_ip(whole).await {
                Ok(found) => Ok(Answer {
                    addresses: found.iter().map(|ip: IpAddr| ip.to_canonical()).collect(),
                    life: found
                        .valid_until()
                        .saturating_duration_since(Instant::now()),
                }),
                // An answer, too.
                Err(error) if error.is_no_records_found() => Ok(Answer {
                    addresses: Vec::new(),
                    life: SHORTEST_LIFE,
                }),
                Err(error) => Err(error.to_string()),
            }
        })
    }
}
