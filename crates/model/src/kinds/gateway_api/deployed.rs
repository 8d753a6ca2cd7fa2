//! What is deployed for a Gateway: whether anything is, and how it is called.

use aws_lc_rs::digest;

use super::Gateway;
use crate::object::Object;

/// The annotation with the name of what is deployed for a Gateway, in place of the default one.
const NAME_OVERRIDE: &str = "gateway.istio.io/name-override";
/// The annotation with the service account of proxies that are deployed for a Gateway, in place of the default one.
pub const SERVICE_ACCOUNT: &str = "gateway.istio.io/service-account";
/// How long the name of a Service may be.
pub(super) const NAME_LENGTH: usize = 63;

impl Gateway {
    /// Whether proxies are deployed for it, rather than named by it.
    ///
    /// Istio: pilot/pkg/config/kube/gatewaycommon/gateway_utils.go IsManaged, 1.32.
    pub fn is_deployed(&self, manual_deployment: bool) -> bool {
        match self.addresses.as_slice() {
            _ if !manual_deployment => true,
            [] => true,
            [only] => &*only.address_type == "IPAddress",
            _ => false,
        }
    }
}

impl Object<Gateway> {
    /// The name of what is deployed for it; `names_class` says whether the default one names the class.
    pub fn deployed_name(&self, names_class: bool) -> String {
        self.annotated(NAME_OVERRIDE, names_class)
    }

    /// The service account of the proxies that are deployed for it.
    pub fn deployed_account(&self, names_class: bool) -> String {
        self.annotated(SERVICE_ACCOUNT, names_class)
    }

    fn annotated(&self, annotation: &str, names_class: bool) -> String {
        let stated = self.meta.annotations.get(annotation);
        match stated.filter(|value| !value.is_empty()) {
            Some(stated) => stated.to_owned(),
            None if names_class => {
                let class = &self.spec.gateway_class_name;
                short(format!("{}-{class}", self.meta.name.name))
            }
            None => self.meta.name.name.to_string(),
        }
    }
}

/// A name that a Service may have: one that is too long ends with a hash in place of what does not fit. Istio has it refused.
fn short(name: String) -> String {
    if name.len() <= NAME_LENGTH {
        return name;
    }
    let hash = short_hash(&name);
    let room = NAME_LENGTH - 1 - hash.len();
    let base = name.get(..room).unwrap_or(&name);
    format!("{}-{hash}", base.trim_end_matches(['-', '.']))
}

/// Eight hexadecimal digits that tell a text from others.
pub fn short_hash(text: &str) -> String {
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    let bytes = hash.as_ref().iter().take(4);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn names_fit_services() {
        assert_eq!(short("web-istio".to_owned()), "web-istio");
        let long = |end: &str| short(format!("{}-{end}", "gateway-".repeat(9)));
        assert_eq!(long("istio").len(), 63);
        assert_ne!(long("istio"), long("pilothouse"));
    }
}
