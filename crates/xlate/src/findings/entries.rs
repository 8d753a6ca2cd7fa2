//! Hosts and addresses of ServiceEntries that another one has: who came later is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::{Cx, Query};
use model::age::Age;
use model::diagnostic::{Diagnostic, Severity};
use model::kinds::Kind;
use model::kinds::istio::ServiceEntry;
use model::names::Namespace;
use model::object::{Object, ObjectName};
use model::service::{Port, Resolution, Visibility};
use store::{ObjectIndex, Reads, Snapshot};

use super::{Findings, in_order};
use mesh::finding::{about, about_named, code};
use mesh::scope::apart;
use mesh::services::{Displaced, EntryServices};

/// Hosts of the ServiceEntries of a namespace that another ServiceEntry has, which comes first.
///
/// Proxies that see several services of one host use that of their own namespace, or else the oldest. Those of one namespace are
/// merged.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct TakenEntries(pub(super) Namespace);

impl Query<Snapshot> for TakenEntries {
    type Value = Findings;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Findings {
        let mut found = Vec::new();
        let entries = cx.list_in::<ServiceEntry>(&self.0);
        let firsts = firsts(&entries);
        for entry in &entries {
            for (at, host) in entry.spec.hosts.iter().enumerate() {
                if let Some(owner) = older(cx, entry, host) {
                    let home = &self.0;
                    let why = format!(
                        "proxies of other namespaces than {home} reach {host} as {} says, which {}",
                        owner.key(),
                        owner.meta.created.why_before(entry.meta.created)
                    );
                    let finding = about(entry, code::HOST_TAKEN, Severity::Warning, why);
                    found.push(finding.at(format!("spec.hosts[{at}]")));
                }
                let first = firsts.get(&host.to_ascii_lowercase());
                let first = first.filter(|first| first.meta.name != entry.meta.name);
                if let Some((severity, why)) =
                    first.and_then(|first| beside(cx, first, entry, host))
                {
                    let finding = about(entry, code::HOST_TAKEN, severity, why);
                    found.push(finding.at(format!("spec.hosts[{at}]")));
                }
            }
        }
        in_order(found)
    }
}

/// The ServiceEntry that comes first for each host of those of a namespace, in lower case.
fn firsts(entries: &[Arc<Object<ServiceEntry>>]) -> BTreeMap<String, &Object<ServiceEntry>> {
    let mut firsts: BTreeMap<String, &Object<ServiceEntry>> = BTreeMap::new();
    for entry in entries {
        for host in &entry.spec.hosts {
            let first = firsts.entry(host.to_ascii_lowercase()).or_insert(entry);
            if entry.cmp_age(first).is_lt() {
                *first = entry;
            }
        }
    }
    firsts
}

/// What becomes of a host of a ServiceEntry that another one of its namespace has, which comes first: they are one service, with the
/// endpoints of both at each port. A port that only this one has is there where nothing keeps them apart.
fn beside(
    cx: &Cx<'_, Snapshot>,
    first: &Object<ServiceEntry>,
    entry: &Object<ServiceEntry>,
    host: &str,
) -> Option<(Severity, String)> {
    let service = |entry: &ObjectName| {
        let services = cx.query(&EntryServices(entry.clone()));
        services
            .iter()
            .find(|service| *service.host == *host)
            .cloned()
    };
    let (of_first, own) = (service(&first.meta.name)?, service(&entry.meta.name)?);
    let is_known = |port: &&Port| {
        of_first
            .ports
            .iter()
            .any(|known| known.number == port.number)
    };
    let numbers = |ports: Vec<&Port>| {
        let numbers = ports.into_iter().map(|port| port.number.to_string());
        numbers.collect::<Vec<_>>().join(", ")
    };
    let (shared, new): (Vec<&Port>, Vec<&Port>) = own.ports.iter().partition(is_known);
    let (first, decided) = (
        first.key(),
        first.meta.created.why_before(entry.meta.created),
    );
    if let Some(field) = apart(&of_first, &own)
        && !new.is_empty()
    {
        let why = format!(
            "no proxy has a cluster for the ports {} of {host}, so requests to them get 503: {first} has the host, {decided}, and \
             its {field} differs, so its ports are all that count",
            numbers(new)
        );
        return Some((Severity::Warning, why));
    }
    if shared.is_empty() {
        return None;
    }
    let shared = numbers(shared);
    if [&own, &of_first]
        .iter()
        .any(|of| of.resolution == Resolution::DnsRoundRobin)
    {
        let why = format!(
            "the endpoints for the ports {shared} of {host} are left out: {first} has the host, {decided}, and there is one \
             endpoint with the resolution DNS_ROUND_ROBIN"
        );
        return Some((Severity::Warning, why));
    }
    let why = format!(
        "requests to the ports {shared} of {host} go to the endpoints of {first} as well: both are one service, with the protocols \
         of {first}, which {decided}"
    );
    Some((Severity::Info, why))
}

/// The oldest ServiceEntry of another namespace with the same host, if it is older than this one. Entries that not everybody sees
/// need not meet.
fn older(
    cx: &Cx<'_, Snapshot>,
    entry: &Object<ServiceEntry>,
    host: &str,
) -> Option<Arc<Object<ServiceEntry>>> {
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
    (oldest.cmp_age(entry).is_lt()).then_some(oldest)
}

/// Addresses that ServiceEntries state and that were allocated to older ones.
pub(super) fn displaced(cx: &Cx<'_, Snapshot>) -> Vec<Diagnostic> {
    let displaced = cx.query(&Displaced);
    let told = |entry: &ObjectName, path: &str, why: String| {
        let kind = Kind::ServiceEntry;
        about_named(kind, entry, code::NOT_OWNED, Severity::Warning, why).at(path.to_owned())
    };
    let created = |name: &ObjectName| {
        let entry = cx.get::<ServiceEntry>(name);
        entry.map_or_else(Age::default, |entry| entry.meta.created)
    };
    let refused = displaced.all_refused().flat_map(|(entry, addresses)| {
        addresses.iter().map(move |(address, owner)| {
            let why = format!(
                "the address {address} is left out: it was allocated to ServiceEntry {owner}, which {}",
                created(owner).why_before(created(entry))
            );
            told(entry, "spec.addresses", why)
        })
    });
    let moved = displaced.moved().map(|entry| {
        let why = "an address in the status is that of a ServiceEntry that comes first, so another is used";
        told(entry, "status.addresses", why.to_owned())
    });
    refused.chain(moved).collect()
}
