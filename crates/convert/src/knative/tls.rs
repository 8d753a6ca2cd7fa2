//! The certificate of a host: that which the oldest of its Ingresses with one names.

use std::sync::Arc;

use model::kinds::knative::Visibility;
use model::{Diagnostic, Kind, ObjectKey};
use proto_istio::networking::ServerTlsSettings;
use proto_istio::networking::server_tls_settings::TlSmode;

use super::owner::MembersOf;
use super::{Place, told};
use crate::edge;
use crate::gateway_api::credential::Lacks;
use crate::outcome::code;
use crate::reader::{Derive, Reader};
use crate::refer::{Author, Named, may_name};
use crate::strata::Routes;

/// How the clients of a host connect with TLS.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct TlsOf(pub(super) Place);

/// How the clients of a host connect with TLS.
#[derive(PartialEq, Debug, Default)]
pub(super) struct Tls {
    /// What its HTTPS server is told; none where there is no HTTPS.
    pub(super) settings: Option<ServerTlsSettings>,
    pub(super) others: Vec<ObjectKey>,
    pub(super) findings: Vec<Diagnostic>,
}

impl Derive for TlsOf {
    type Stratum = Routes;
    type Value = Arc<Tls>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let members = read.derived(MembersOf(self.0.clone()));
        let mut tls = Tls::default();
        let stated = members.deciding().iter().find_map(|(ingress, rules)| {
            let (at, secret) = rules.certificate.as_ref()?;
            Some((ingress, at, secret))
        });
        if let Some((ingress, at, secret)) = stated {
            let object = ObjectKey {
                kind: Kind::Secret,
                name: secret.clone(),
            };
            let by = Author::new(Kind::KnativeIngress, ingress);
            let named = may_name(read, by, Named::Object(object.clone()));
            let fault = match named {
                Err(refusal) => Some((code::CLOSED, refusal.sentence())),
                Ok(target) => match &*read.derived(Lacks::pair(secret)) {
                    Some(why) => Some((code::NO_BACKEND, why.clone())),
                    None => {
                        tls.others.extend(target.grants().iter().cloned());
                        None
                    }
                },
            };
            match fault {
                Some((code, fault)) => {
                    let message = format!("{fault}, so no HTTPS is served with it");
                    tls.findings.push(told(ingress, code, at.clone(), message));
                }
                None => {
                    tls.others.push(object);
                    tls.settings = Some(ServerTlsSettings {
                        mode: TlSmode::Simple.into(),
                        credential_name: edge::credential(secret),
                        ..ServerTlsSettings::default()
                    });
                }
            }
        }
        if tls.settings.is_none() && self.0.visibility == Visibility::ExternalIp {
            let redirected = members
                .deciding()
                .iter()
                .filter(|(_, rules)| rules.redirected);
            for (ingress, _) in redirected {
                let message = format!(
                    "sends the clients of {:?} to HTTPS, which is not served: no certificate can be used",
                    self.0.host
                );
                let at = "spec.httpOption".to_owned();
                tls.findings.push(told(ingress, code::CLOSED, at, message));
            }
        }
        Arc::new(tls)
    }
}
