//! The Gateway of a host, and which proxies serve cluster-local ones.

use model::ObjectName;
use model::derived::Semantics;
use model::kinds::knative::Visibility;
use model::settings::Features;
use proto_istio::networking::Gateway;

use super::owner::MembersOf;
use super::tls::TlsOf;
use super::{Place, class, derived, name};
use crate::edge;
use crate::outcome::{Made, Outcome, object};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The Gateway of a host, with what is wrong with its certificate.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GatewayOfHost(pub Place);

impl Derive for GatewayOfHost {
    type Stratum = Routes;
    type Value = Outcome<Routes>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Outcome<Routes> {
        let features = &read.settings().features;
        if !class::is_on(features) {
            return Outcome::default();
        }
        let members = read.derived(MembersOf(self.0.clone()));
        let Ok(Some(at)) = entrance(features, self.0.visibility) else {
            return Outcome::default();
        };
        let Some((_, first)) = members.all().first() else {
            return Outcome::default();
        };
        let tls = read.derived(TlsOf(self.0.clone()));
        let host = &self.0.host;
        let mut servers = vec![edge::server(host, at.plain, "HTTP", None)];
        if let (Some(secure), Some(settings)) = (at.secure, &tls.settings) {
            servers.push(edge::server(host, secure, "HTTPS", Some(settings.clone())));
        }
        let gateway = Gateway {
            selector: edge::label(at.label),
            servers,
        };
        let mut others = tls.others.clone();
        others.extend(members.grants.iter().cloned());
        others.sort();
        others.dedup();
        let from = members.all().iter().map(|(ingress, _)| ingress);
        let derived = derived(from, others, Semantics::Edge);
        let mut made = object(name_of(features, &self.0), derived, gateway);
        made.meta.created = first.created;
        Outcome {
            objects: vec![Made::new(made)],
            findings: tls.findings.clone().into(),
        }
    }
}

/// The name of the Gateway of a host.
pub(super) fn name_of(features: &Features, place: &Place) -> ObjectName {
    ObjectName::new(features.edge_namespace.clone(), name::of_host(place))
}

/// Where requests enter.
pub(super) struct Entrance<'f> {
    /// The label of the proxies.
    label: &'f str,
    /// The port for plain text.
    plain: u16,
    /// That for HTTPS, where there may be one.
    secure: Option<u16>,
}

/// Where requests for hosts of that visibility enter; none where sidecars alone serve them. The error says why the proxies
/// that are named for it must not, as a sentence about a host.
pub(super) fn entrance(
    features: &Features,
    visibility: Visibility,
) -> Result<Option<Entrance<'_>>, &'static str> {
    let (http, https) = (
        features.edge_http_port.get(),
        features.edge_https_port.get(),
    );
    let (outer, inner) = (
        features.edge_selector.as_str(),
        features.knative_local_selector.as_str(),
    );
    if visibility == Visibility::ExternalIp {
        return Ok(Some(Entrance {
            label: outer,
            plain: http,
            secure: Some(https),
        }));
    }
    if inner.is_empty() {
        return Ok(None);
    }
    let plain = features.knative_local_port.get();
    let is_shared = edge::label(outer) == edge::label(inner);
    if is_shared && [http, https].contains(&plain) {
        return Err(
            "is not served: the proxies for cluster-local hosts are those that everybody reaches, by a port of theirs",
        );
    }
    Ok(Some(Entrance {
        label: inner,
        plain,
        secure: (!is_shared && plain != https).then_some(https),
    }))
}
