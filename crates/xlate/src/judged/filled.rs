//! Resources in which values of Secrets stand: a value may be one that Envoy refuses.

use bytes::Bytes;
use judge::judge_any;
use prost::Message;
use proto_envoy::envoy::config::cluster::v3::Cluster;
use proto_envoy::envoy::config::listener::v3::Listener;
use proto_envoy::envoy::config::route::v3::RouteConfiguration;
use xds::TypeUrl;

/// The encoded resource, with what Envoy would refuse of it closed. `None` where that is not possible: it is not to be
/// sent with these values. Resources that are not judged when they are made pass as they are.
pub(crate) fn filled(ty: TypeUrl, body: Bytes) -> Option<Bytes> {
    let is_judged = matches!(ty, TypeUrl::Route | TypeUrl::Cluster | TypeUrl::Listener);
    if !is_judged || judge_any(ty.as_str(), &body).is_ok() {
        return Some(body);
    }
    let resource = match ty {
        TypeUrl::Route => {
            let config = RouteConfiguration::decode(&*body).ok()?;
            return Some(super::configuration(config).0.into());
        }
        TypeUrl::Cluster => super::cluster(&Cluster::decode(&*body).ok()?, Vec::new()),
        TypeUrl::Listener => super::listener(Listener::decode(&*body).ok()?, Vec::new(), &|_| None),
        _ => None,
    };
    resource.map(|resource| resource.body.clone())
}
