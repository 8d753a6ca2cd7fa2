//! The CA of this server: which one it is, as the options say.

mod options;
mod page;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use ca::plugged::{self, Source};
use ca::registration::{self, SignerRoots};
use ca::self_signed::{self, Storage};
use ca::{Authority, system_clock};
use model::settings::Settings;
use proto_istio::istio::mesh::v1alpha1::mesh_config::certificate_data::CertificateData as Stated;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use writeback::Place;

use crate::settings::Settled;
pub use options::{CaOptions, ExternalCa};
pub(crate) use page::page;

/// How often files of a plugged-in CA are looked at.
const LOOK_AT_FILES: Duration = Duration::from_secs(2);

/// How often a Secret is looked at.
const LOOK_AT_SECRET: Duration = Duration::from_secs(30);

/// An API is not asked more often, however often roots are checked.
const SHORTEST_LOOK: Duration = Duration::from_millis(200);

/// How long a signer of the cluster may take.
// Istio: security/pkg/k8s/chiron/utils.go, 1.32.
const PATIENCE: Duration = Duration::from_secs(60);

/// The roots of the cluster that this pod runs in.
const CLUSTER_ROOTS: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// What the CA is started with.
pub(crate) struct Parts<'a> {
    pub(crate) options: &'a CaOptions,
    /// The namespace of the control plane.
    pub(crate) namespace: &'a str,
    /// The API that its Secret is in, where it waits for nothing else.
    pub(crate) place: Option<Arc<dyn Place>>,
    /// The API that signers are asked over.
    pub(crate) requests: Option<Arc<dyn Place>>,
    pub(crate) settled: watch::Receiver<Settled>,
    pub(crate) stop: &'a CancellationToken,
}

/// Starts the CA; `None` where none is wanted. A self-signed one signs once it has been read or made.
///
/// # Errors
///
/// When what is plugged in cannot be used, or the API is missing that signers are asked over.
// Istio: maybeCreateCA in pilot/pkg/bootstrap/server.go and createIstioCA in istio_ca.go, 1.32.
pub(crate) async fn start(parts: Parts<'_>) -> anyhow::Result<Option<Authority>> {
    if !parts.options.enabled {
        return Ok(None);
    }
    if parts.options.external_ca == ExternalCa::Kubernetes {
        return parts.registration().map(Some);
    }
    match parts.plugged_in().await? {
        Some(authority) => Ok(Some(authority)),
        None => Ok(Some(parts.of_api_or_self_signed())),
    }
}

impl Parts<'_> {
    async fn plugged_in(&self) -> anyhow::Result<Option<Authority>> {
        let folder = Source::Folder(self.options.root_ca_dir.clone());
        let named = self.options.root_ca_dir.display();
        let leaves_generated = self.options.use_cacerts_for_self_signed_ca;
        let options = self.plugged(LOOK_AT_FILES, leaves_generated);
        let found = plugged::open(folder, options, system_clock()).await;
        let found =
            found.with_context(|| format!("cannot use the CA in {named} (--root-ca-dir)"))?;
        Ok(found.map(|found| found.start(self.stop.clone())))
    }

    fn plugged(&self, look: Duration, leaves_generated: bool) -> plugged::Options {
        plugged::Options {
            multiroot: self.options.multiroot_mesh,
            reads_crl: self.options.enable_ca_crl,
            leaves_generated,
            lifetimes: self.options.lifetimes(),
            look,
        }
    }

    /// The CA in the Secret `cacerts` of the API, or a self-signed one.
    fn of_api_or_self_signed(&self) -> Authority {
        let (storage, how, stop) = (self.storage(), self.self_signed(), self.stop.clone());
        let Some(place) = self.place.clone() else {
            return self_signed::start(storage, how, system_clock(), stop);
        };
        let source = Source::Secret {
            place,
            namespace: self.namespace.into(),
        };
        let options = self.plugged(LOOK_AT_SECRET, true);
        plugged::start_or_self_signed(source, options, storage, how, system_clock(), stop)
    }

    /// Where a self-signed CA is kept.
    fn storage(&self) -> Storage {
        let options = self.options;
        match (&self.place, &options.self_signed_ca_dir) {
            (_, Some(folder)) => Storage::Folder(folder.clone()),
            (Some(place), None) => Storage::Secret {
                place: place.clone(),
                namespace: self.namespace.into(),
                as_cacerts: options.use_cacerts_for_self_signed_ca,
            },
            (None, None) => {
                tracing::info!(
                    "The CA is in memory: a restart makes a new one, which workloads with certificates of this one refuse \
                     (--self-signed-ca-dir keeps it)."
                );
                Storage::memory()
            }
        }
    }

    fn self_signed(&self) -> self_signed::Options {
        let options = self.options;
        let distribution = options.root_cert_distribution;
        let mesh = self.settled.borrow().settings().mesh.clone();
        let interval = options.self_signed_root_cert_check_interval;
        self_signed::Options {
            organization: mesh.trust_domain.clone(),
            algorithm: options.algorithm(),
            lifetime: options.self_signed_ca_cert_ttl,
            check_interval: interval,
            grace_percent: options.self_signed_root_cert_grace_period_percentile,
            jitter: options.enable_jitter_for_root_cert_rotator,
            distribution: distribution.unwrap_or(options.default_workload_cert_ttl),
            lifetimes: options.lifetimes(),
            look: match interval.is_zero() {
                true => LOOK_AT_SECRET,
                false => interval.clamp(SHORTEST_LOOK, LOOK_AT_SECRET),
            },
        }
    }

    fn registration(&self) -> anyhow::Result<Authority> {
        let place = self.requests.clone().context(
            "EXTERNAL_CA=ISTIOD_RA_KUBERNETES_API needs a cluster that is written to (--kubeconfig with --write), and there is none",
        )?;
        let options = self.options;
        let name =
            |name: &Option<String>| name.as_deref().filter(|n| !n.is_empty()).map(Into::into);
        let how = registration::Options {
            domain: name(&options.cert_signer_domain),
            signer: name(&options.k8s_signer),
            roots: self.external_roots()?.map(Into::into),
            lifetimes: options.lifetimes(),
            patience: PATIENCE,
        };
        let stated = stated_roots(self.settled.clone(), self.stop.clone());
        registration::start(place, how, stated, system_clock(), self.stop.clone())
            .context("cannot use the roots of the cluster's signers (--external-ca-roots)")
    }

    // Istio: createIstioRA in pilot/pkg/bootstrap/istio_ca.go, 1.32.
    fn external_roots(&self) -> anyhow::Result<Option<String>> {
        let stated = self.options.external_ca_roots.as_path();
        let of_cluster = Path::new(CLUSTER_ROOTS);
        let file = match (stated.exists(), &self.options.cert_signer_domain) {
            (true, _) => stated,
            (false, None) if of_cluster.exists() => of_cluster,
            (false, _) => return Ok(None),
        };
        let text = disk::open::read_text(file, 1 << 20);
        let text = text.with_context(|| format!("cannot read {}", file.display()))?;
        Ok(Some(text))
    }
}

/// The roots of signers, as the mesh config has them now and later.
fn stated_roots(
    mut settled: watch::Receiver<Settled>,
    stop: CancellationToken,
) -> watch::Receiver<Arc<SignerRoots>> {
    let first = signer_roots(settled.borrow_and_update().settings());
    let (send, receive) = watch::channel(Arc::new(first));
    tokio::spawn(stop.run_until_cancelled_owned(async move {
        while settled.changed().await.is_ok() {
            let roots = Arc::new(signer_roots(settled.borrow_and_update().settings()));
            send.send_if_modified(|known| {
                let differs = *known != roots;
                *known = roots;
                differs
            });
        }
    }));
    receive
}

fn signer_roots(settings: &Settings) -> SignerRoots {
    let mut roots = SignerRoots::new();
    for entry in &settings.mesh.ca_certificates {
        let Some(Stated::Pem(pem)) = &entry.certificate_data else {
            continue;
        };
        let pem: Arc<str> = pem.as_str().into();
        for signer in &entry.cert_signers {
            roots.insert(signer.as_str().into(), pem.clone());
        }
    }
    roots
}
