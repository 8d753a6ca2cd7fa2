//! How large the patches of a proxy may be: what they patch repeats their values.
//!
//! A patch that adds something to the proxy once, or removes something, costs what it says and is not limited.

use std::mem::{Discriminant, discriminant};

use incr::{KeyedMap, KeyedSet};
use model::diagnostic::Diagnostic;
use model::kinds::Kind;
use model::object::ObjectName;
use proto_istio::networking::envoy_filter::patch::Operation;

use super::Context;
use super::patch::{AnyPatch, ListenerPatches, Patch, is_virtual};
use mesh::limits::{self, Budget, Exceeded, PatchLimit};

/// A patch whose value is repeated.
struct Copied<'a> {
    limit: PatchLimit,
    to: Named<'a>,
    weight: usize,
}

/// What a patch names among all of its kind; the default for patches of everything.
type Named<'a> = (&'a str, &'a str, u32);

/// What the patch is repeated in; `None` where it is not.
fn copied(patch: &AnyPatch) -> Option<Copied<'_>> {
    match patch {
        AnyPatch::Cluster(p) if p.operation != Operation::Add => {
            let stated = p.cluster();
            let name = stated.map_or("", |m| &m.name);
            let service = stated.map_or("", |m| &m.service);
            let limit = one_or(!name.is_empty(), limits::PATCH_OF_MANY);
            let port = stated.map_or(0, |m| m.port_number);
            of(p, limit, (name, service, port))
        }
        AnyPatch::VirtualHost(p) => {
            let config = p.route().map_or("", |m| &m.name);
            let host = p.route().and_then(|m| m.vhost.as_ref());
            let host = host.map_or(("", ""), |h| (&*h.name, &*h.domain_name));
            let named = match p.operation {
                Operation::Add => (config, ""),
                _ => host,
            };
            let limit = one_or(named != ("", ""), limits::PATCH_OF_MANY);
            of(p, limit, (named.0, named.1, 0))
        }
        AnyPatch::HttpRoute(p) => {
            let host = p.route().and_then(|m| m.vhost.as_ref());
            let named = host.map_or(("", ""), |h| (&*h.name, &*h.domain_name));
            let route = host.and_then(|h| h.route.as_ref());
            let every_route = p.lists().is_some() && route.is_none_or(|r| r.name.is_empty());
            let limit = one_or(named != ("", "") && !every_route, limits::PATCH_OF_MANY);
            of(p, limit, (named.0, named.1, 0))
        }
        AnyPatch::RouteConfiguration(p) => {
            let name = p.route().map_or("", |m| &m.name);
            of(
                p,
                one_or(!name.is_empty(), limits::PATCH_OF_CHAINS),
                (name, "", 0),
            )
        }
        AnyPatch::ListenerFilter(p) => of(p, limits::PATCH_OF_CHAINS, place(p)),
        AnyPatch::FilterChain(p) => of(p, limits::PATCH_OF_CHAINS, place(p)),
        AnyPatch::Listener(p) if p.operation != Operation::Add => {
            of(p, limits::PATCH_OF_ONE, place(p))
        }
        AnyPatch::NetworkFilter(p) => of(p, limits::PATCH_OF_ONE, place(p)),
        AnyPatch::HttpFilter(p) => of(p, limits::PATCH_OF_ONE, place(p)),
        AnyPatch::Cluster(_) | AnyPatch::Listener(_) | AnyPatch::ExtensionConfig(_) => None,
    }
}

fn one_or(names_one: bool, otherwise: PatchLimit) -> PatchLimit {
    if names_one {
        limits::PATCH_OF_ONE
    } else {
        otherwise
    }
}

fn of<'a, T>(patch: &Patch<T>, limit: PatchLimit, to: Named<'a>) -> Option<Copied<'a>> {
    (patch.operation != Operation::Remove).then_some(Copied {
        limit,
        to,
        weight: patch.size.saturating_add(limits::PATCH_BYTES),
    })
}

/// The listener or chain that a patch names.
fn place<T>(patch: &Patch<T>) -> Named<'_> {
    let Some(stated) = patch.listener() else {
        return Named::default();
    };
    let name = if is_virtual(&stated.name) {
        ""
    } else {
        &*stated.name
    };
    let (mut port, mut chain) = (stated.port_number, "");
    if let Some(stated) = &stated.filter_chain {
        port = port.max(stated.destination_port);
        chain = if stated.name.is_empty() {
            &stated.sni
        } else {
            &stated.name
        };
    }
    (name, chain, port)
}

/// The object of a patch, its place there, and the side of the proxy that it is for where that is closed without it:
/// what stands in listeners may be what protects.
fn origin(patch: &AnyPatch) -> (&ObjectName, usize, Option<Context>) {
    fn stated<T>(p: &Patch<T>) -> (&ObjectName, usize, Option<Context>) {
        (&p.of, p.at, Some(p.context))
    }
    fn open<T>(p: &Patch<T>) -> (&ObjectName, usize, Option<Context>) {
        (&p.of, p.at, None)
    }
    match patch {
        AnyPatch::Listener(p) => stated(p),
        AnyPatch::ListenerFilter(p) => stated(p),
        AnyPatch::FilterChain(p) => stated(p),
        AnyPatch::NetworkFilter(p) => stated(p),
        AnyPatch::HttpFilter(p) => stated(p),
        AnyPatch::Cluster(p) => open(p),
        AnyPatch::RouteConfiguration(p) => open(p),
        AnyPatch::VirtualHost(p) => open(p),
        AnyPatch::HttpRoute(p) => open(p),
        AnyPatch::ExtensionConfig(p) => open(p),
    }
}

/// A patch that is left out.
pub(super) struct LeftOut {
    /// What is told.
    pub(super) finding: Diagnostic,
    /// The side of the proxy that is closed instead.
    pub(super) closes: Option<Context>,
}

/// Whether the patch is too large by itself.
pub(super) fn too_large(patch: &AnyPatch) -> Option<LeftOut> {
    let copied = copied(patch)?;
    let most = copied.limit.each;
    (copied.weight > most).then(|| {
        let why = format!("the value takes more than {} KiB", most >> 10);
        left_out(patch, ".patch.value", &why)
    })
}

fn left_out(patch: &AnyPatch, field: &str, why: &str) -> LeftOut {
    let (object, at, closes) = origin(patch);
    let instead = match closes {
        Some(_) => "the side of the proxy that it is for refuses everything",
        None => "what it should change stays as it is generated",
    };
    let path = format!("spec.configPatches[{at}]{field}");
    let message = format!("the patch is left out, and {instead}: {why}");
    let finding = limits::exceeded((Kind::EnvoyFilter, object), path, message);
    LeftOut {
        finding: finding.help("shorten the patches, or name what each is for"),
        closes,
    }
}

/// The patches of a proxy that are not too many or too large together, and what is left out.
#[derive(Default)]
pub(super) struct Fitting<'a> {
    pub(super) patches: Vec<&'a AnyPatch>,
    /// The first of each object.
    pub(super) findings: Vec<Diagnostic>,
    /// Sides that are closed.
    pub(super) closed: Vec<Context>,
}

impl<'a> Fitting<'a> {
    /// Judges patches in the order in which they work.
    pub(super) fn of(patches: impl Iterator<Item = &'a AnyPatch>) -> Self {
        type Group<'a> = (Discriminant<AnyPatch>, Named<'a>);
        let mut numbers: KeyedMap<Discriminant<AnyPatch>, Budget> = KeyedMap::default();
        let mut budgets: KeyedMap<Group<'a>, Budget> = KeyedMap::default();
        let mut told: KeyedSet<&ObjectName> = KeyedSet::default();
        let mut fitting = Self::default();
        for patch in patches {
            let kind = discriminant(patch);
            let number = numbers
                .entry(kind)
                .or_insert(Budget::new(limits::PATCHES_OF_KIND));
            let verdict = match (number.spend(1), copied(patch)) {
                (Err(Exceeded), _) => {
                    let most = limits::PATCHES_OF_KIND;
                    Err(format!("a proxy has more than {most} patches of the kind"))
                }
                (Ok(()), None) => Ok(()),
                (Ok(()), Some(copied)) => {
                    let most = copied.limit.together;
                    let group = budgets.entry((kind, copied.to));
                    let budget = group.or_insert(Budget::new(most));
                    budget.spend(copied.weight).map_err(|Exceeded| {
                        // Patches work in order: none of those after it either.
                        *budget = Budget::new(0);
                        let most = most >> 10;
                        format!(
                            "with those before it for the same, it takes more than {most} KiB in each proxy; those after it are left out too"
                        )
                    })
                }
            };
            let Err(why) = verdict else {
                fitting.patches.push(patch);
                continue;
            };
            let left = left_out(patch, "", &why);
            if told.insert(origin(patch).0) {
                fitting.findings.push(left.finding);
            }
            fitting.closed.extend(left.closes);
        }
        fitting.closed.sort_unstable();
        fitting.closed.dedup();
        fitting
    }
}

/// What patches add to each chain of a side of a proxy at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChainWeight {
    /// To chains of requests alone.
    pub http: usize,
    /// To all.
    pub all: usize,
}

impl ListenerPatches {
    /// What they add to each chain of a side at most.
    pub fn chain_weight(&self, context: Context) -> ChainWeight {
        let listeners = self.listeners.iter();
        let listeners = listeners.filter(|p| p.operation != Operation::Add);
        ChainWeight {
            http: most(self.http_filters.iter(), context),
            all: most(self.network_filters.iter(), context)
                .saturating_add(most(self.chains.iter(), context))
                .saturating_add(most(self.listener_filters.iter(), context))
                .saturating_add(most(listeners, context)),
        }
    }

    /// The largest patch of filters and chains: its object, and its place there.
    pub fn largest(&self) -> Option<(&ObjectName, usize)> {
        fn of<T>(p: &Patch<T>) -> (usize, &ObjectName, usize) {
            (p.size, &p.of, p.at)
        }
        let filters = self.http_filters.iter().map(of);
        let network = self.network_filters.iter().map(of);
        let all = filters.chain(network).chain(self.chains.iter().map(of));
        all.max().map(|(_, object, at)| (object, at))
    }
}

/// The patches for everything, and those for the one thing for which they are largest.
fn most<'a, T: 'a>(patches: impl Iterator<Item = &'a Patch<T>>, context: Context) -> usize {
    let mut named: KeyedMap<Named<'a>, usize> = KeyedMap::default();
    for patch in patches.filter(|p| p.is_for(context) && p.operation != Operation::Remove) {
        let weight = named.entry(place(patch)).or_default();
        *weight = weight.saturating_add(patch.size + limits::CHAIN_PATCH_BYTES);
    }
    let everything = named.remove(&Named::default()).unwrap_or_default();
    everything.saturating_add(named.into_values().max().unwrap_or_default())
}
