//! Where the requests of a path go.

use annotations::Destination as Stated;
use model::{Kind, ObjectKey, ObjectName};
use proto_istio::networking::HttpRouteDestination;

use super::balance;
use super::elsewhere::entry_host;
use super::refer::{self, Fault};
use super::rules::Backend;
use crate::outcome::code;
use crate::reader::Reader;
use crate::refer::{Named, Target};
use crate::strata::Routes;

/// The destinations of a backend of an Ingress; otherwise what is wrong. The objects that let it name them are noted.
pub(super) fn destinations(
    read: &Reader<'_, '_, Routes>,
    ingress: &ObjectName,
    backend: &Backend,
    stated: &[Stated],
    others: &mut Vec<ObjectKey>,
) -> Result<Vec<HttpRouteDestination>, Fault> {
    match backend {
        Backend::None => Err("the backend cannot be used".to_owned().into()),
        Backend::Service(name, port) => {
            let name = ObjectName::new(ingress.namespace.clone(), &**name);
            let name = name.in_cluster(ingress.cluster.as_ref());
            let number = refer::port(read, &name, Some(port))?;
            let service = ObjectKey {
                kind: Kind::Service,
                name: name.clone(),
            };
            let target = refer::target(read, ingress, Named::Object(service), others)?;
            let target = way(read, &name, target, number)?;
            Ok(vec![to(&target, number, None, 100)])
        }
        Backend::Destinations => {
            let weights: Vec<u32> = stated.iter().map(|to| to.weight).collect();
            let weights = hundredths(&weights);
            let pairs = stated.iter().zip(weights);
            let all = pairs.map(|(stated, weight)| {
                let target = refer::target(read, ingress, Named::Host(&stated.host), others)?;
                let port = stated.port.unwrap_or_default();
                Ok(to(&target, port, stated.subset.as_deref(), weight))
            });
            all.collect()
        }
    }
}

/// By which host requests go to a Service. One that is an alias is looked up where nobody knows the host that it names, or where
/// Ingresses ask for TLS: rules for the Service have no effect on the host that it names, and rules for that host may say otherwise.
fn way(
    read: &Reader<'_, '_, Routes>,
    service: &ObjectName,
    target: Target,
    port: u16,
) -> Result<Target, Fault> {
    if !target.is_alias() {
        return Ok(target);
    }
    let nowhere = target.leads_nowhere(port);
    let is_secured = balance::is_secured(read, service);
    if (nowhere.is_some() || is_secured)
        && let Some(host) = entry_host(read, service)
    {
        return Ok(target.by_host(host));
    }
    if let Some(sentence) = nowhere {
        return Err(sentence.into());
    }
    match is_secured {
        false => Ok(target),
        true => Err(Fault {
            code: code::CLOSED,
            sentence: format!(
                "the Service {service} is an alias of another one, to which its TLS does not apply (name that one instead)"
            ),
        }),
    }
}

/// A destination; port 0 is the only one that the host has.
pub(crate) fn to(
    target: &Target,
    port: u16,
    subset: Option<&str>,
    weight: i32,
) -> HttpRouteDestination {
    HttpRouteDestination {
        destination: Some(target.destination(port, subset)),
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
