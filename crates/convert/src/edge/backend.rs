//! Where the requests of a path go.

use std::sync::Arc;

use annotations::Destination as Stated;
use model::ObjectName;
use proto_istio::networking::{Destination, HttpRouteDestination, PortSelector};

use super::refer;
use super::rules::Backend;
use crate::reader::Reader;
use crate::strata::Routes;

/// The destinations of a backend of an Ingress; otherwise what is wrong, as a sentence.
pub(super) fn destinations(
    read: &Reader<'_, '_, Routes>,
    ingress: &ObjectName,
    backend: &Backend,
    stated: &[Stated],
) -> Result<Vec<HttpRouteDestination>, String> {
    match backend {
        Backend::None => Err("the backend cannot be used".to_owned()),
        Backend::Service(name, port) => {
            let service = ObjectName::new(ingress.namespace.clone(), &**name);
            let service = service.in_cluster(ingress.cluster.as_ref());
            let number = refer::port(read, &service, Some(port))?;
            Ok(vec![to(&refer::host_of(read, &service), number, None, 100)])
        }
        Backend::Destinations => {
            let weights: Vec<u32> = stated.iter().map(|to| to.weight).collect();
            let weights = hundredths(&weights);
            let pairs = stated.iter().zip(weights);
            let all = pairs.map(|(stated, weight)| {
                let subset = stated.subset.clone();
                to(
                    &stated.host,
                    stated.port.unwrap_or_default(),
                    subset,
                    weight,
                )
            });
            Ok(all.collect())
        }
    }
}

/// A destination; port 0 is the only one that the host has.
pub(crate) fn to(
    host: &str,
    port: u16,
    subset: Option<Arc<str>>,
    weight: i32,
) -> HttpRouteDestination {
    HttpRouteDestination {
        destination: Some(Destination {
            host: host.to_owned(),
            subset: subset.map(|s| s.to_string()).unwrap_or_default(),
            port: (port > 0).then(|| PortSelector {
                number: u32::from(port),
            }),
        }),
        weight,
        ..HttpRouteDestination::default()
    }
}

/// Shares of 100 in proportion to weights; what is left by rounding goes to the first that has a weight.
pub(crate) fn hundredths(weights: &[u32]) -> Vec<i32> {
    let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    if total == 0 {
        let first = |at: usize| if at == 0 { 100 } else { 0 };
        return (0..weights.len()).map(first).collect();
    }
    let share = |weight: &u32| i32::try_from(u64::from(*weight) * 100 / total).unwrap_or(0);
    let mut shares: Vec<i32> = weights.iter().map(share).collect();
    let missing = 100 - shares.iter().sum::<i32>();
    if let Some(first) = weights.iter().position(|weight| *weight > 0) {
        shares[first] += missing;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_sum_up_to_a_hundred() {
        for weights in [
            &[1, 1, 1][..],
            &[0, 0],
            &[48, 48, 0],
            &[7],
            &[u32::MAX, 1, 3],
        ] {
            let shares = hundredths(weights);
            assert_eq!(shares.iter().sum::<i32>(), 100, "{weights:?} {shares:?}");
        }
        assert_eq!(hundredths(&[0, 3, 1]), [0, 75, 25]);
    }
}
