//! ServiceEntries.

use std::collections::{BTreeMap, BTreeSet};

use incr::Cx;
use model::kinds::istio::ServiceEntry;
use model::{Object, ObjectName};
use store::{Reads, Snapshot};

use crate::code;
use crate::facts::several;
use crate::facts::stated::EntryOf;
use crate::finding::Report;

/// Istio: pkg/config/analysis/analyzers/serviceentry/protocoladdresses.go, 1.32.
pub(crate) fn addresses(
    cx: &Cx<'_, Snapshot>,
    entry: &Object<ServiceEntry>,
    report: &mut Report<'_>,
) {
    if !entry.spec.addresses.is_empty() || !entry.status.addresses.is_empty() {
        return;
    }
    let config = cx.settings().mesh.default_config.as_ref();
    let on = |name: &str| {
        config
            .and_then(|c| c.proxy_metadata.get(name))
            .is_some_and(|v| v == "true")
    };
    let allocated = on("ISTIO_META_DNS_AUTO_ALLOCATE") || on("PILOT_ENABLE_IP_AUTOALLOCATE");
    if on("ISTIO_META_DNS_CAPTURE") && allocated {
        return;
    }
    for (i, port) in entry.spec.ports.iter().enumerate() {
        if port.protocol.is_empty() || port.protocol.eq_ignore_ascii_case("TCP") {
            report
                .add(
                    entry,
                    &code::ADDRESSES_REQUIRED,
                    format!("spec.ports[{i}].name"),
                    format!("without addresses, port {} catches TCP to every address", port.number),
                )
                .help("set spec.addresses, or say that the port speaks HTTP or TLS, where the host is in the bytes");
        }
    }
}

/// Entries of one host and port in one scope: what each says it speaks.
type Spoken<'a> = Vec<(&'a str, &'a ObjectName)>;

/// Istio: pkg/config/analysis/analyzers/serviceentry/conflictingserviceentries.go, 1.32.
pub(crate) fn protocols(cx: &Cx<'_, Snapshot>, report: &mut Report<'_>) {
    let stated: Vec<_> = cx
        .names::<ServiceEntry>()
        .into_iter()
        .map(|name| (cx.query(&EntryOf(name.clone())), name))
        .collect();
    let mut index: BTreeMap<(&str, u32, &str), Spoken<'_>> = BTreeMap::new();
    for (entry, name) in &stated {
        let Some(entry) = &**entry else {
            continue;
        };
        for scope in &entry.scopes {
            for host in &entry.hosts {
                for (port, protocol) in &entry.ports {
                    let spoken = index.entry((host, *port, scope)).or_default();
                    spoken.push((protocol, name));
                }
            }
        }
    }
    let mut told = BTreeSet::new();
    for ((host, port, scope), spoken) in &index {
        let for_all = (*scope != "*").then(|| index.get(&(*host, *port, "*")));
        let all: Vec<_> = spoken
            .iter()
            .chain(for_all.flatten().into_iter().flatten())
            .collect();
        let protocols: BTreeSet<String> = all.iter().map(|(p, _)| p.to_uppercase()).collect();
        if protocols.len() < 2 {
            continue;
        }
        let names: BTreeSet<String> = all.iter().map(|(_, name)| name.to_string()).collect();
        let names: Vec<String> = names.into_iter().collect();
        let protocols: Vec<String> = protocols.into_iter().collect();
        for (_, name) in all {
            if told.insert(*name)
                && let Some(entry) = cx.get::<ServiceEntry>(name)
            {
                report
                    .add(
                        &entry,
                        &code::CONFLICTING_PROTOCOL,
                        "spec.ports",
                        format!(
                            "{} give port {port} of {host} different protocols: {}",
                            several(&names),
                            protocols.join(", ")
                        ),
                    )
                    .help("state the same protocol in each of them, or export them to different namespaces");
            }
        }
    }
}
