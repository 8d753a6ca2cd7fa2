//! What proxies get, in the smallest parts that are somebody's own: a virtual host, a filter chain, a name of a table; and
//! in what two states differ.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::host::subset_of;
use model::node::{Node, Role};
use prost::Message;
use proto_envoy::envoy::config::core::v3::address::Address;
use proto_envoy::envoy::config::listener::v3::Listener;
use proto_envoy::envoy::config::route::v3::RouteConfiguration;
use serde_json::Value;
use testkit::decode;
use xds::{Resource, ResourceSet, TypeUrl};

/// Which part of what a proxy gets.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    pub(crate) proxy: String,
    pub(crate) role: Role,
    pub(crate) ty: TypeUrl,
    pub(crate) resource: String,
    pub(crate) of: Of,
}

/// What a part is of its resource.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Of {
    /// All of it, or what is not in another part.
    Rest,
    /// By its name, or at a gateway what it is for one domain.
    VirtualHost(String),
    FilterChain(String),
    Name(String),
}

/// A part.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Part {
    bytes: Vec<u8>,
    message: &'static str,
    /// What traffic it takes: domains, server names, or an address with its port.
    pub(crate) takes: Vec<String>,
}

impl Part {
    fn of<M: Message + prost::Name>(message: &M, takes: Vec<String>) -> Self {
        Self {
            bytes: message.encode_to_vec(),
            message: M::NAME,
            takes,
        }
    }

    /// As JSON.
    pub(crate) fn json(&self) -> Value {
        let package = match self.message {
            "VirtualHost" | "RouteConfiguration" => "envoy.config.route.v3",
            "FilterChain" | "Listener" => "envoy.config.listener.v3",
            _ => return serde_json::from_slice(&self.bytes).unwrap(),
        };
        decode(&format!("{package}.{}", self.message), &self.bytes)
    }
}

/// All parts of what proxies get.
pub(crate) type Parts = BTreeMap<Place, Part>;

/// The parts of what a proxy gets of a type.
pub(crate) fn parts(node: (&str, &Node), ty: TypeUrl, set: &ResourceSet, into: &mut Parts) {
    let (
        proxy,
        Node {
            role, namespace, ..
        },
    ) = node;
    for resource in set {
        let mut add = |of: Of, part: Part| {
            let place = Place {
                proxy: proxy.to_owned(),
                role: *role,
                ty,
                resource: resource.name.to_string(),
                of,
            };
            // Chains may go by one name: none of them hides another.
            let mut place = place;
            while let Some(other) = into.get(&place) {
                if *other == part {
                    return;
                }
                let Of::FilterChain(name) = &mut place.of else {
                    panic!("two parts are {place:?}");
                };
                name.push('\'');
            }
            into.insert(place, part);
        };
        match ty {
            TypeUrl::Listener => listener(resource, &mut add),
            TypeUrl::Route => routes(resource, *role, &mut add),
            TypeUrl::NameTable => names(resource, namespace, &mut add),
            ty => {
                let bytes = decode(ty.as_str(), &resource.body).to_string().into_bytes();
                let part = Part {
                    bytes,
                    message: "",
                    takes: Vec::new(),
                };
                add(Of::Rest, part);
            }
        }
    }
}

fn listener(resource: &Arc<Resource>, add: &mut impl FnMut(Of, Part)) {
    let mut listener = Listener::decode(&*resource.body).unwrap();
    for chain in std::mem::take(&mut listener.filter_chains) {
        let matched = chain.filter_chain_match.clone().unwrap_or_default();
        let mut takes = matched.server_names.clone();
        let ranges = matched.prefix_ranges.iter();
        takes.extend(ranges.map(|range| range.address_prefix.clone()));
        let name = format!("{} {:?}", chain.name, matched);
        add(Of::FilterChain(name), Part::of(&chain, takes));
    }
    if let Some(chain) = listener.default_filter_chain.take() {
        add(
            Of::FilterChain("default".to_owned()),
            Part::of(&chain, Vec::new()),
        );
    }
    let addresses = listener.address.iter().chain(
        listener
            .additional_addresses
            .iter()
            .filter_map(|a| a.address.as_ref()),
    );
    let takes = addresses.filter_map(|address| match address.address.as_ref()? {
        Address::SocketAddress(socket) => Some(socket.address.clone()),
        _ => None,
    });
    let takes = takes.collect();
    add(Of::Rest, Part::of(&listener, takes));
}

fn routes(resource: &Arc<Resource>, role: Role, add: &mut impl FnMut(Of, Part)) {
    let mut routes = RouteConfiguration::decode(&*resource.body).unwrap();
    for mut host in std::mem::take(&mut routes.virtual_hosts) {
        let takes = std::mem::take(&mut host.domains);
        if role == Role::Sidecar {
            host.domains.clone_from(&takes);
            add(Of::VirtualHost(host.name.clone()), Part::of(&host, takes));
            continue;
        }
        // Hosts of a gateway with equal routes share a virtual host, which has the name of one of them.
        host.name.clear();
        for domain in takes {
            host.domains = vec![domain.clone()];
            let part = Part::of(&host, vec![domain.clone()]);
            add(Of::VirtualHost(domain), part);
        }
    }
    add(Of::Rest, Part::of(&routes, Vec::new()));
}

fn names(resource: &Arc<Resource>, home: &str, add: &mut impl FnMut(Of, Part)) {
    let table = decode(TypeUrl::NameTable.as_str(), &resource.body);
    for (name, entry) in table["table"].as_object().into_iter().flatten() {
        let bytes = entry.to_string().into_bytes();
        let mut takes = vec![name.clone()];
        // What the agent answers for short.
        if let (Some(short), Some(namespace)) =
            (entry["shortname"].as_str(), entry["namespace"].as_str())
        {
            let longer = format!("{short}.{namespace}");
            takes.extend((namespace == home).then(|| short.to_owned()));
            takes.extend([format!("{longer}.svc"), longer]);
        }
        let part = Part {
            bytes,
            message: "",
            takes,
        };
        add(Of::Name(name.clone()), part);
    }
}

/// How a part of the one who is there already is not as before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    Changed,
    Lost,
    /// It is new, and takes traffic that another part took, or that was let in by no part.
    Narrower,
}

/// What differs between two states.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub(crate) place: Place,
    pub(crate) how: How,
    /// What it was, and what it is.
    pub(crate) parts: [Option<Part>; 2],
}

impl Difference {
    /// What is alike in those of one effect.
    pub(crate) fn group(&self) -> String {
        let of = match &self.place.of {
            Of::Rest => "rest",
            Of::VirtualHost(_) => "virtual host",
            Of::FilterChain(_) => "filter chain",
            Of::Name(_) => "name",
        };
        format!(
            "{:?} {of} of {:?} at {:?}",
            self.how, self.place.ty, self.place.role
        )
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [was, is] = self
            .parts
            .each_ref()
            .map(|part| part.as_ref().map(Part::json));
        writeln!(f, "{:?} {:?}", self.how, self.place)?;
        match (was, is) {
            (Some(was), Some(is)) => {
                let found = testkit::differences(&was, &is);
                found
                    .iter()
                    .try_for_each(|line| writeln!(f, "  {line:.300}"))
            }
            (was, is) => write!(f, "  {:.600}", was.or(is).unwrap_or_default().to_string()),
        }
    }
}

/// What differs for those who were there before: what is added beside them does not. `addresses` are theirs.
pub(crate) fn differences(before: &Parts, after: &Parts, addresses: &[String]) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut add = |place: &Place, how, parts: [Option<&Part>; 2]| {
        let parts = parts.map(|part| part.cloned());
        found.push(Difference {
            place: place.clone(),
            how,
            parts,
        });
    };
    for (place, part) in before {
        match after.get(place) {
            None => add(
                place,
                How::Lost,
                [Some(part), in_place_of(before, place, part, after)],
            ),
            Some(now) if now != part => add(place, How::Changed, [Some(part), Some(now)]),
            Some(_) => {}
        }
    }
    for (place, part) in after {
        if !before.contains_key(place) && is_narrower(before, place, part, addresses) {
            add(place, How::Narrower, [None, Some(part)]);
        }
    }
    found
}

/// The part that is new and takes what one that is gone took.
fn in_place_of<'a>(
    before: &Parts,
    place: &Place,
    part: &Part,
    after: &'a Parts,
) -> Option<&'a Part> {
    let mut beside = after.iter().filter(|(other, _)| {
        other.proxy == place.proxy && other.ty == place.ty && other.resource == place.resource
    });
    let found = beside.find(|(other, now)| {
        let takes_it = part.takes.iter().all(|taken| now.takes.contains(taken));
        !part.takes.is_empty() && takes_it && !before.contains_key(other)
    });
    found.map(|(_, now)| now)
}

/// Whether a part that is new takes what others took.
fn is_narrower(before: &Parts, place: &Place, part: &Part, addresses: &[String]) -> bool {
    let beside = before.iter().filter(|(other, _)| {
        other.proxy == place.proxy && other.ty == place.ty && other.resource == place.resource
    });
    let taken: Vec<&String> = beside.flat_map(|(_, part)| &part.takes).collect();
    let below = |name: &String| {
        taken.iter().any(|other| match place.ty {
            // Nobody may have a domain that another one has.
            TypeUrl::Route | TypeUrl::NameTable if name == *other => true,
            _ => other.starts_with("*.") && subset_of(host_of(name), host_of(other)),
        })
    };
    match (place.ty, &place.of) {
        (TypeUrl::Listener, Of::FilterChain(_)) if place.resource == "virtualInbound" => true,
        (TypeUrl::Listener, _) if part.takes.iter().any(|taken| addresses.contains(taken)) => true,
        (TypeUrl::Listener | TypeUrl::Route | TypeUrl::NameTable, _) => {
            part.takes.iter().any(below)
        }
        _ => false,
    }
}

fn host_of(domain: &str) -> &str {
    match domain.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host,
        _ => domain,
    }
}
