//! What a gateway chooses that serves what is derived.

use simulate::{Call, End, Part, Protocol, Refusal, Resources, Tls, Walk, walk};

use super::{Choice, Chosen, Request};
use crate::report::service_of;

/// The ports of the gateway.
const PORTS: [u16; 2] = [80, 443];

/// Where a request goes.
pub(super) fn choose(resources: &Resources, domain: &str, request: &Request) -> Chosen {
    let tls = match request.tls {
        true => Tls::Simple,
        false => Tls::None,
    };
    let protocol = Protocol::Http1;
    let call = Call {
        port: PORTS[usize::from(request.tls)],
        protocol,
        tls,
        sni: match request.tls {
            true => request.host.clone(),
            false => String::new(),
        },
        alpn: Call::default_alpn(protocol, tls),
        method: request.method.clone(),
        authority: request.host.clone(),
        path: request.path.clone(),
        headers: request.headers.clone(),
        ..Call::default()
    };
    let walked = walk(resources, &call);
    let choice = of_end(&walked, domain, request);
    let route = walked.steps.iter().rev();
    let mut named = route.filter(|step| matches!(step.part, Part::Route | Part::VirtualHost));
    let by = named.find(|step| !step.name.is_empty());
    Chosen {
        choice,
        by: by.map(|step| step.name.clone()).unwrap_or_default(),
    }
}

fn of_end(walked: &Walk, domain: &str, request: &Request) -> Choice {
    match &walked.end {
        End::Clusters(all) => {
            let mut backends: Vec<(String, u32)> = all
                .iter()
                .filter(|to| to.weight > 0)
                .map(|to| (backend(&to.cluster, domain), percent(to.weight, to.total)))
                .collect();
            backends.sort();
            match backends.is_empty() {
                true => Choice::Answer(503),
                false => Choice::Backends(backends),
            }
        }
        End::Redirect { status, location } => Choice::Redirect {
            status: *status,
            location: location.clone(),
        },
        End::Response { status, .. } => Choice::Answer(*status),
        End::Refused(Refusal::TlsRequired) => Choice::Redirect {
            status: 301,
            location: format!("https://{}{}", request.host, request.path),
        },
        End::Refused(Refusal::NoVirtualHost | Refusal::NoRoute) => Choice::Answer(404),
        // Whether the client has a certificate to show, no request says.
        End::Refused(why @ (Refusal::WrongCertificate | Refusal::SeveralFilterChains)) => {
            Choice::Unknown(why.to_string())
        }
        End::Refused(why) => Choice::Refused(why.to_string()),
    }
}

fn percent(weight: u32, total: u32) -> u32 {
    let total = u64::from(total.max(1));
    u32::try_from(u64::from(weight) * 100 / total).unwrap_or(100)
}

/// The Service of a cluster, `outbound|80||web.shop.svc.cluster.local`, and its port.
fn backend(cluster: &str, domain: &str) -> String {
    let parts: Vec<&str> = cluster.split('|').collect();
    match parts[..] {
        [_, port, _, host] => format!("{}:{port}", service_of(host, domain)),
        _ => cluster.to_owned(),
    }
}
