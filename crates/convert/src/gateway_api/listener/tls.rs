//! How a listener meets TLS.
//!
//! Istio: pilot/pkg/config/kube/gateway/conversion.go buildTLS, 1.32.

use model::kinds::gateway_api::{
    CertificateValidation, ClientTls, GatewayTls, ListenerTls, ObjectRef, Reference, SecretRef,
    TlsMode, ValidationMode,
};
use model::{Kind, Namespace, ObjectKey, cipher};
use proto_istio::networking::ServerTlsSettings;
use proto_istio::networking::server_tls_settings::TlSmode as Mode;

use super::Problem;
use crate::gateway_api::credential::{CertificateOf, RootsOf};
use crate::reader::Reader;
use crate::refer::{Author, Named, may_name};
use crate::strata::Routes;

/// Whether clients show certificates, and whose the listener's own is.
const TERMINATE_MODE: &str = "gateway.istio.io/tls-terminate-mode";
/// Cipher suites, with commas between them.
const CIPHER_SUITES: &str = "gateway.istio.io/tls-cipher-suites";

const BAD_CERTIFICATE: &str = "InvalidCertificateRef";
const BAD_AUTHORITY: &str = "InvalidCACertificateRef";
/// What names an object of another namespace without leave.
pub(super) const NOT_PERMITTED: &str = "RefNotPermitted";

/// A listener of an object, with its TLS.
pub(super) struct Met<'a> {
    /// The kind of the object that the listener is in.
    pub(super) kind: Kind,
    /// Its namespace.
    pub(super) namespace: &'a Namespace,
    /// The namespace of the Gateway.
    pub(super) gateway_namespace: &'a Namespace,
    /// Whether it lets TLS pass between networks.
    pub(super) is_between_networks: bool,
    /// The port of the listener.
    pub(super) port: u16,
    /// What its Gateway says of clients.
    pub(super) gateway: Option<&'a GatewayTls>,
    /// What the listener says.
    pub(super) tls: &'a ListenerTls,
}

/// What became of a listener's TLS.
#[derive(Default)]
pub(super) struct Settings {
    /// The settings of the server.
    pub(super) server: ServerTlsSettings,
    /// What is wrong.
    pub(super) problem: Option<Problem>,
    /// Whether clients can be served in spite of that.
    pub(super) is_usable: bool,
    /// Objects that are used.
    pub(super) from: Vec<ObjectKey>,
}

impl Met<'_> {
    /// The settings of the server that is made of the listener.
    pub(super) fn settings(&self, read: &Reader<'_, '_, Routes>) -> Settings {
        let mut made = Settings {
            is_usable: true,
            ..Settings::default()
        };
        match self.tls.mode {
            TlsMode::Passthrough if self.is_between_networks => {
                made.server.set_mode(Mode::AutoPassthrough)
            }
            TlsMode::Passthrough => made.server.set_mode(Mode::Passthrough),
            TlsMode::Terminate => {
                let option = self.tls.options.get(TERMINATE_MODE);
                match option.map_or("", |option| &**option) {
                    "ISTIO_SIMPLE" => {
                        made.server.set_mode(Mode::Simple);
                        made.server.credential_name = "builtin://".to_owned();
                        return made;
                    }
                    "ISTIO_MUTUAL" => {
                        made.server.set_mode(Mode::IstioMutual);
                        return made;
                    }
                    "MUTUAL" => made.server.set_mode(Mode::Mutual),
                    "OPTIONAL_MUTUAL" => made.server.set_mode(Mode::OptionalMutual),
                    _ => made.server.set_mode(Mode::Simple),
                }
                let ended = self
                    .certificates(read, &mut made)
                    .and_then(|()| self.authorities(read, &mut made));
                if let Err(problem) = ended {
                    made.problem = Some(problem);
                    made.is_usable = false;
                    return made;
                }
            }
        }
        if let Some(stated) = self.tls.options.get(CIPHER_SUITES) {
            made.server.cipher_suites = cipher::known(stated.split(',').map(str::trim));
        }
        made
    }

    /// Names the certificates that the listener shows. One that can be used suffices.
    fn certificates(
        &self,
        read: &Reader<'_, '_, Routes>,
        made: &mut Settings,
    ) -> Result<(), Problem> {
        let refs = &self.tls.certificate_refs;
        if refs.is_empty() {
            return Err(Problem::new(
                BAD_CERTIFICATE,
                "`tls.certificateRefs` names no certificate",
            ));
        }
        if refs.len() > 2 {
            let message = "a listener can show two certificates at most, one of each kind of key";
            return Err(Problem::new(BAD_CERTIFICATE, message));
        }
        let mut names = Vec::new();
        for reference in refs {
            match self.certificate(read, reference, &mut made.from) {
                Ok(secret) => {
                    names.push(credential_name("kubernetes-gateway", &secret, ""));
                    made.from.push(secret);
                }
                Err(problem) => made.problem = Some(joined(made.problem.take(), problem)),
            }
        }
        match (names.len(), names.pop()) {
            (0, _) | (_, None) => {
                let none = || Problem::new(BAD_CERTIFICATE, "no certificate can be used");
                return Err(made.problem.take().unwrap_or_else(none));
            }
            (1, Some(name)) => made.server.credential_name = name,
            (_, Some(name)) => {
                names.push(name);
                made.server.credential_names = names;
            }
        }
        Ok(())
    }

    fn certificate(
        &self,
        read: &Reader<'_, '_, Routes>,
        reference: &SecretRef,
        from: &mut Vec<ObjectKey>,
    ) -> Result<ObjectKey, Problem> {
        let to = secret_of(reference, self.namespace)
            .ok_or_else(|| Problem::new(BAD_CERTIFICATE, not_a_secret(reference)))?;
        check_leave(read, (self.kind, self.namespace), &to, from)?;
        match *read.derived(CertificateOf(to.name.clone())) {
            None => Ok(to),
            Some(fault) => Err(Problem::new(BAD_CERTIFICATE, format!("{to} {fault}"))),
        }
    }

    /// Has clients show certificates, where the Gateway wants that on this port.
    fn authorities(
        &self,
        read: &Reader<'_, '_, Routes>,
        made: &mut Settings,
    ) -> Result<(), Problem> {
        let validation = self.gateway.and_then(|tls| client_tls(tls, self.port));
        let Some(CertificateValidation {
            ca_certificate_refs,
            mode,
        }) = validation
        else {
            return Ok(());
        };
        let reference = match &ca_certificate_refs[..] {
            [] => return Ok(()),
            [reference] => reference,
            _ => {
                let message =
                    "`caCertificateRefs` can name one object only; put all authorities into it";
                return Err(Problem::new(BAD_AUTHORITY, message));
            }
        };
        let roots = self.roots(read, reference, &mut made.from)?;
        let scheme = match roots.kind {
            Kind::ConfigMap => "configmap",
            _ => "kubernetes-gateway",
        };
        made.server.ca_cert_credential_name = credential_name(scheme, &roots, "-cacert");
        made.from.push(roots);
        let option = self.tls.options.get(TERMINATE_MODE);
        let (mode, skip_verify) = match (option.map_or("", |option| &**option), mode) {
            ("MUTUAL", _) => (Mode::Mutual, false),
            ("OPTIONAL_MUTUAL", _) => (Mode::OptionalMutual, false),
            (_, ValidationMode::AllowInsecureFallback) => (Mode::OptionalMutual, true),
            (_, ValidationMode::AllowValidOnly) => (Mode::Mutual, false),
        };
        made.server.set_mode(mode);
        made.server.insecure_skip_verify = Some(skip_verify);
        Ok(())
    }

    fn roots(
        &self,
        read: &Reader<'_, '_, Routes>,
        reference: &ObjectRef,
        from: &mut Vec<ObjectKey>,
    ) -> Result<ObjectKey, Problem> {
        let named = Reference {
            group: &reference.group,
            kind: &reference.kind,
            namespace: reference.namespace.as_deref(),
            name: &reference.name,
        };
        let to = named.key(self.gateway_namespace);
        let known = to.filter(|to| matches!(to.kind, Kind::ConfigMap | Kind::Secret));
        let Some(to) = known else {
            let message = format!(
                "authorities are read from ConfigMaps and Secrets, not from a {}",
                reference.kind
            );
            return Err(Problem::new("InvalidCACertificateKind", message));
        };
        check_leave(read, (Kind::KubeGateway, self.gateway_namespace), &to, from)?;
        match *read.derived(RootsOf(to.clone())) {
            None => Ok(to),
            Some(fault) => Err(Problem::new(BAD_AUTHORITY, format!("{to} {fault}"))),
        }
    }
}

/// Whether an object of a kind and namespace may refer to another; what lets it is noted.
fn check_leave(
    read: &Reader<'_, '_, Routes>,
    (kind, namespace): (Kind, &Namespace),
    to: &ObjectKey,
    from: &mut Vec<ObjectKey>,
) -> Result<(), Problem> {
    let by = Author {
        kind,
        namespace,
        cluster: None,
        in_mesh: false,
    };
    let target = may_name(read, by, Named::Object(to.clone())).map_err(|_| {
        // Whether it is there is reported to nobody who may not refer to it.
        let kind = kind.name();
        let message =
            format!("no ReferenceGrant lets a {kind} of the namespace {namespace} refer to {to}");
        Problem::new(NOT_PERMITTED, message)
    })?;
    from.extend(target.grants().iter().cloned());
    Ok(())
}

/// What a Gateway says of clients of a port, where it wants certificates of them.
fn client_tls(tls: &GatewayTls, port: u16) -> Option<&CertificateValidation> {
    let frontend = tls.frontend.as_ref()?;
    let of_port = frontend.per_port.iter().find(|of| of.port == port);
    let ClientTls { validation } = of_port.map_or(&frontend.default, |of| &of.tls);
    validation.as_ref()
}

/// The Secret that a reference names; `None` where it names something else.
pub(crate) fn secret_of(reference: &SecretRef, namespace: &Namespace) -> Option<ObjectKey> {
    let named = Reference {
        group: &reference.group,
        kind: &reference.kind,
        namespace: reference.namespace.as_deref(),
        name: &reference.name,
    };
    named.key(namespace).filter(|to| to.kind == Kind::Secret)
}

/// That a reference for a certificate names something else than a Secret.
pub(crate) fn not_a_secret(reference: &SecretRef) -> String {
    format!(
        "certificates are read from Secrets, not from a {}",
        reference.kind
    )
}

/// The name by which proxies ask for what an object holds.
fn credential_name(scheme: &str, of: &ObjectKey, suffix: &str) -> String {
    format!("{scheme}://{}/{}{suffix}", of.name.namespace, of.name.name)
}

fn joined(before: Option<Problem>, next: Problem) -> Problem {
    match before {
        Some(before) => Problem::new(
            before.reason,
            format!("{}; {}", before.message, next.message),
        ),
        None => next,
    }
}
