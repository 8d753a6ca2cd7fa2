//! Hosts and addresses of ServiceEntries that are somebody else's: who came later is told.

use incr::{Cx, Query};
use model::diagnostic::{Diagnostic, Severity};
use model::kinds::Kind;
use model::kinds::istio::ServiceEntry;
use model::names::Namespace;
use model::object::{Object, ObjectName};
use model::service::Visibility;
use store::{ObjectIndex, Reads, Snapshot};

use super::{Findings, in_order};
use mesh::finding::{about, about_named, code};
use mesh::services::{Displaced, EntryServices};

/// Hosts of the ServiceEntries of a namespace that an older ServiceEntry of another one has.
///
/// Proxies that see several services of one host use that of their own namespace, or else the oldest.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct TakenEntries(pub(super) Namespace);

impl Query<Snapshot> for TakenEntries {
    type Value = Findings;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Findings {
        let mut found = Vec::new();
        for entry in cx.list_in::<ServiceEntry>(&self.0) {
            for (at, host) in entry.spec.hosts.iter().enumerate() {
                if let Some(owner) = older(cx, &entry, host) {
                    let home = &self.0;
                    let why = format!(
                        "proxies of other namespaces than {home} reach {host} as {owner} says, which is older"
                    );
                    let finding = about(&entry, code::HOST_TAKEN, Severity::Warning, why);
                    found.push(finding.at(format!("spec.hosts[{at}]")));
                }
            }
        }
        in_order(found)
    }
}

/// The oldest ServiceEntry of another namespace with the same host, if it is older than this one. Entries that not everybody sees
/// need not meet.
fn older(cx: &Cx<'_, Snapshot>, entry: &Object<ServiceEntry>, host: &str) -> Option<String> {
    let names = cx.names_by::<ServiceEntry>(ObjectIndex::Host, &host.to_ascii_lowercase());
    let is_foreign = |name: &ObjectName| name.namespace != *entry.namespace();
    let mut others = names.into_iter().filter(is_foreign).peekable();
    others.peek()?;
    let is_public = |name: &ObjectName| {
        let services = cx.query(&EntryServices(name.clone()));
        let mut of_host = services.iter().filter(|service| *service.host == *host);
        of_host.any(|service| service.export_to == Visibility::Public)
    };
    if !is_public(&entry.meta.name) {
        return None;
    }
    let others = others.filter(is_public);
    let others = others.filter_map(|name| cx.get::<ServiceEntry>(&name));
    let oldest = others.min_by(|a, b| a.cmp_age(b))?;
    (oldest.cmp_age(entry).is_lt()).then(|| oldest.key().to_string())
}

/// Addresses that ServiceEntries state and that were allocated to older ones.
pub(super) fn displaced(cx: &Cx<'_, Snapshot>) -> Vec<Diagnostic> {
    let displaced = cx.query(&Displaced);
    let told = |entry: &ObjectName, path: &str, why: String| {
        let kind = Kind::ServiceEntry;
        about_named(kind, entry, code::NOT_OWNED, Severity::Warning, why).at(path.to_owned())
    };
    let refused = displaced.all_refused().flat_map(|(entry, addresses)| {
        addresses.iter().map(move |(address, owner)| {
            let why = format!(
                "the address {address} is left out: it was allocated to ServiceEntry {owner}, which is older"
            );
            told(entry, "spec.addresses", why)
        })
    });
    let moved = displaced.moved().map(|entry| {
        let why = "an address in the status is an older ServiceEntry's, so another is used";
        told(entry, "status.addresses", why.to_owned())
    });
    refused.chain(moved).collect()
}
