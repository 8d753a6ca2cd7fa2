//! How many different places proxies may say that they are at.
//!
//! What is derived for a proxy follows from where it says it is: its namespace, its DNS domain, its locality, network and
//! cluster. Proxies at one place share nearly all of it; one at a place of its own has a set of everything. Nothing proves
//! what they say, so whoever invents places must not make the server derive without end. How many places there may be follows
//! from how many namespaces there are; of what is free, one address gets half, and fewer of the namespaces that nothing is
//! known of.

use std::net::IpAddr;
use std::sync::Arc;

use incr::KeyedMap;
use model::kinds::Kind;
use model::names::{ClusterId, Namespace, Network};
use model::node::Node;
use model::object::ObjectName;
use model::service::Locality;
use store::Snapshot;

/// Limits on the places of proxies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OriginLimits {
    /// Places that there may be in any case.
    pub places: usize,
    /// Places more for each namespace that has objects.
    pub places_per_namespace: usize,
    /// Places in namespaces that have none.
    pub unknown: usize,
    /// How many of these one address may be at.
    pub unknown_per_address: usize,
}

impl Default for OriginLimits {
    fn default() -> Self {
        Self {
            places: 64,
            places_per_namespace: 8,
            unknown: 64,
            unknown_per_address: 8,
        }
    }
}

/// Where a proxy says that it is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Origin {
    namespace: Namespace,
    dns_domain: Arc<str>,
    locality: Locality,
    network: Network,
    cluster: ClusterId,
}

impl Origin {
    fn of(node: &Node) -> Self {
        Self {
            namespace: node.namespace.clone(),
            dns_domain: node.dns_domain.clone(),
            locality: node.locality.clone(),
            network: node.network.clone(),
            cluster: node.cluster.clone(),
        }
    }
}

#[derive(Debug)]
struct OriginState {
    proxies: usize,
    /// Who came here first.
    by: IpAddr,
    /// Whether its namespace is unknown, once it was judged: those of held proxies are not yet.
    unknown: Option<bool>,
}

/// Judged places, of all or of one address.
#[derive(Clone, Copy, Debug, Default)]
struct OriginCount {
    places: usize,
    unknown: usize,
}

/// The places of connected proxies.
#[derive(Debug, Default)]
pub(super) struct Origins {
    limits: OriginLimits,
    places: KeyedMap<Arc<Origin>, OriginState>,
    all: OriginCount,
    by: KeyedMap<IpAddr, OriginCount>,
    /// How many namespaces have objects, and at which revision they were counted.
    namespaces: Option<(u64, usize)>,
}

/// A proxy's entry; to be given back to [`Origins::leave`].
#[derive(Debug)]
pub(super) struct Entry(Arc<Origin>);

impl Origins {
    pub(super) fn new(limits: OriginLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Lets a proxy in. Of one that is `held` it is not known yet whether that is too much: nothing is derived for it, and
    /// what there is has not been read.
    ///
    /// # Errors
    ///
    /// The words for the proxy's operator, when it is at one place too many.
    pub(super) fn enter(
        &mut self,
        node: &Node,
        by: IpAddr,
        held: bool,
        snapshot: &Snapshot,
    ) -> Result<Entry, String> {
        let origin = Origin::of(node);
        let known = self.places.get_key_value(&origin);
        let entry = known.map_or_else(|| Arc::new(origin), |(known, _)| known.clone());
        let entry = Entry(entry);
        let place = known.map(|(_, place)| (place.by, place.unknown));
        let unknown = match place {
            Some((_, Some(unknown))) => Some(unknown),
            _ if held => None,
            place => {
                let by = place.map_or(by, |(first, _)| first);
                Some(self.judge(&entry.0, by, snapshot)?)
            }
        };
        let place = self.places.entry(entry.0.clone()).or_insert(OriginState {
            proxies: 0,
            by,
            unknown,
        });
        place.proxies += 1;
        place.unknown = unknown;
        Ok(entry)
    }

    /// A held proxy is let go.
    ///
    /// # Errors
    ///
    /// As those of [`Origins::enter`]; the entry is still to be given back.
    pub(super) fn confirm(&mut self, entry: &Entry, snapshot: &Snapshot) -> Result<(), String> {
        let place = self.places.get(&entry.0).filter(|p| p.unknown.is_none());
        let Some(by) = place.map(|place| place.by) else {
            return Ok(());
        };
        let unknown = self.judge(&entry.0, by, snapshot)?;
        if let Some(place) = self.places.get_mut(&entry.0) {
            place.unknown = Some(unknown);
        }
        Ok(())
    }

    /// Counts a place; returns whether its namespace is unknown.
    fn judge(&mut self, origin: &Origin, by: IpAddr, snapshot: &Snapshot) -> Result<bool, String> {
        let (limits, all) = (self.limits, self.all);
        let unknown = !is_known(snapshot, &origin.namespace);
        let own = self.by.get(&by).copied().unwrap_or_default();
        let too_many = all.unknown >= limits.unknown || own.unknown >= limits.unknown_per_address;
        if unknown && too_many {
            return Err(format!(
                "nothing is known of the namespace {:?}, and proxies of {} such namespaces are connected, {} of them from this \
                 address (the limits are {} and {})",
                beginning(&origin.namespace),
                all.unknown,
                own.unknown,
                limits.unknown,
                limits.unknown_per_address
            ));
        }
        let limit = limits.places + limits.places_per_namespace * self.count(snapshot);
        if limit.saturating_sub(all.places) <= own.places {
            return Err(format!(
                "proxies say that they are at {} different places (namespace, DNS domain, locality, network, cluster), {} of \
                 them from this address, of {limit} that there may be",
                all.places, own.places
            ));
        }
        for of in [&mut self.all, self.by.entry(by).or_default()] {
            of.places += 1;
            of.unknown += usize::from(unknown);
        }
        Ok(unknown)
    }

    /// Takes back an entry.
    pub(super) fn leave(&mut self, entry: &Entry) {
        let Some(place) = self.places.get_mut(&entry.0) else {
            return;
        };
        place.proxies -= 1;
        if place.proxies > 0 {
            return;
        }
        let (by, unknown) = (place.by, place.unknown);
        self.places.remove(&entry.0);
        let Some(unknown) = unknown else { return };
        let own = self.by.entry(by).or_default();
        for of in [&mut self.all, &mut *own] {
            of.places -= 1;
            of.unknown -= usize::from(unknown);
        }
        if own.places == 0 {
            self.by.remove(&by);
        }
    }

    /// How many namespaces have objects.
    fn count(&mut self, snapshot: &Snapshot) -> usize {
        match self.namespaces {
            Some((revision, count)) if revision == snapshot.revision => count,
            _ => {
                let count = snapshot.tables.all_namespaces().len();
                self.namespaces = Some((snapshot.revision, count));
                count
            }
        }
    }
}

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(64)]
}

fn is_known(snapshot: &Snapshot, namespace: &Namespace) -> bool {
    let tables = &snapshot.tables;
    let mut kinds = Kind::ALL.iter();
    let object = ObjectName::new("", &**namespace);
    kinds.any(|kind| tables.has_namespace(*kind, namespace))
        || tables.get_any(Kind::Namespace, &object).is_some()
}
