//! Which certificates are wanted: those that the ConfigMap `higress-https` has ordered, and those of flags.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use acme::{MOST_HOSTS, Wanted, Wish};
use convert::edge::https::Https;
use model::ObjectName;
use model::kinds::kube::ConfigMap;
use model::object::Object;
use model::settings::Features;
use tokio::sync::watch;

use super::AcmeOptions;

const DAY: Duration = Duration::from_secs(86_400);
/// How long before its end a certificate of a flag is renewed.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * 86_400);

/// Tells what is wanted whenever that is something else.
pub(super) async fn follow(
    options: AcmeOptions,
    features: Features,
    mut map: watch::Receiver<Option<Arc<Object<ConfigMap>>>>,
    tell: watch::Sender<Arc<Wanted>>,
) {
    let serves = !features.edge_classes.is_empty();
    loop {
        let now = map.borrow_and_update().clone();
        let wanted = wanted(&options, now.as_deref().filter(|_| serves));
        tell.send_if_modified(|known| {
            let differs = **known != wanted;
            *known = Arc::new(wanted);
            differs
        });
        if map.changed().await.is_err() {
            return;
        }
    }
}

/// What is wanted. What cannot be is a finding of the ConfigMap, or was refused with its flag.
fn wanted(options: &AcmeOptions, map: Option<&Object<ConfigMap>>) -> Wanted {
    let mut hosts: BTreeMap<ObjectName, (BTreeSet<Arc<str>>, Duration)> = BTreeMap::new();
    let mut email = None;
    let text = map.and_then(|map| Some((map.spec.data.get("cert")?, map.namespace())));
    let read = text.and_then(|(text, namespace)| Https::read(text, namespace).ok());
    if let Some(https) = read {
        email = https.email.clone();
        let before = DAY * https.renew_before_days;
        let ordered = https.credentials.iter().filter(|_| https.automatic);
        for credential in ordered.filter(|credential| credential.ordered) {
            let domains = credential.domains.iter().cloned().collect();
            hosts.insert(credential.secret.clone(), (domains, before));
        }
    }
    for stated in &options.acme_host {
        let of_secret = hosts.entry(stated.secret.clone());
        let (hosts, _) = of_secret.or_insert((BTreeSet::new(), RENEW_BEFORE));
        if hosts.len() < MOST_HOSTS {
            hosts.insert(stated.host.as_str().into());
        }
    }
    let certificates = hosts.into_iter().map(|(secret, (hosts, renew_before))| {
        let wish = Wish {
            hosts: hosts.into_iter().collect(),
            renew_before,
        };
        (secret, wish)
    });
    Wanted {
        email: options.acme_email.as_deref().map(Arc::from).or(email),
        certificates: certificates.collect(),
    }
}
