//! What of the tree is read, and which services it says there are, without sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use super::dubbo;
use super::instance::instance;
use super::wire::{Change, Found, What};
use crate::outbox::Outbox;
use crate::report::{Instance, ServiceName};

/// More services of one registry than this are not read.
const MOST_SERVICES: usize = 100_000;
/// More instances of one application than this are not read.
const MOST_INSTANCES: usize = 50_000;
/// Below a root, and no services.
const OTHERS: [&str; 3] = ["config", "mapping", "metadata"];

/// What stands below a root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Layout {
    /// `<interface>/providers/<URL>`.
    Interfaces,
    /// `<application>/<instance>`, which holds where the instance is.
    Applications,
}

/// A node that is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Node {
    /// A root, by its number.
    Root(usize),
    /// Where the instances of a service are.
    Service(usize, Arc<str>),
    /// An instance.
    Instance(usize, Arc<str>, Arc<str>),
}

/// A question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ask {
    /// Of which node.
    pub(super) node: Node,
    /// What of it.
    pub(super) what: What,
    /// Where it is.
    pub(super) path: String,
}

#[derive(Debug)]
struct Root {
    /// Without a slash at its end.
    path: String,
    layout: Layout,
    /// What hosts of its applications end in, with a dot before it.
    suffix: String,
    services: BTreeMap<Arc<str>, Service>,
}

#[derive(Default, Debug)]
struct Service {
    instances: BTreeMap<Arc<str>, Held>,
    /// How many instances are asked for.
    asked: usize,
    /// What was reported of it.
    told: BTreeSet<ServiceName>,
}

#[derive(Default, Debug)]
struct Held {
    /// How many answers are to come.
    asked: usize,
    instance: Option<Instance>,
}

/// The tree, as one connection told of it.
#[derive(Debug)]
pub(super) struct Tree {
    roots: Vec<Root>,
    /// How many answers are to come.
    asked: usize,
    /// What was last said to be there.
    whole: Option<BTreeSet<ServiceName>>,
    /// Whether what is there may be something else.
    is_changed: bool,
    /// Whether something was told since that is gone again.
    has_left: bool,
}

/// A root is not told: nothing can be said of what there is.
#[derive(PartialEq, Debug, thiserror::Error)]
#[error("the server does not tell of {0:?} (error {1})")]
pub(super) struct Untold(pub(super) String, pub(super) i32);

impl Tree {
    /// A tree with these roots.
    pub(super) fn new(roots: &[(Arc<str>, Layout)]) -> Self {
        let mut seen = BTreeSet::new();
        let root = |(path, layout): &(Arc<str>, Layout)| {
            let words = path.trim_matches('/');
            let suffix = match words.replace('/', "-") {
                dashed if dashed.is_empty() => String::new(),
                dashed => format!(".{dashed}"),
            };
            // Of two with the same hosts one is read.
            seen.insert((suffix.clone(), *layout == Layout::Interfaces))
                .then(|| Root {
                    path: match words {
                        "" => String::new(),
                        words => format!("/{words}"),
                    },
                    layout: *layout,
                    suffix,
                    services: BTreeMap::new(),
                })
        };
        Self {
            roots: roots.iter().filter_map(root).collect(),
            asked: 0,
            whole: None,
            is_changed: true,
            has_left: false,
        }
    }

    /// Whether everything was told once.
    pub(super) fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// What is asked first.
    pub(super) fn begin(&mut self) -> Vec<Ask> {
        let roots = 0..self.roots.len();
        roots
            .map(|r| self.ask(Node::Root(r), What::Children))
            .collect()
    }

    /// What is asked when a node changed. Its server tells once, and has to be asked again to tell again.
    pub(super) fn changed(&mut self, change: Change, path: &str) -> Vec<Ask> {
        let mut asks = Vec::new();
        for node in self.nodes(path) {
            match (change, &node) {
                // One that is gone may be there again, as another, before its parent is asked.
                (_, Node::Instance(root, service, name)) => {
                    let service = self.roots[*root].services.get_mut(service);
                    if let Some(service) = service
                        && let Some(held) = service.instances.get_mut(name)
                    {
                        held.asked += 1;
                        service.asked += usize::from(held.asked == 1);
                        asks.push(self.ask(node, What::Data));
                    }
                }
                // What roots and services hold is not read.
                (Change::Data, _) => {}
                (_, Node::Service(root, service)) => {
                    if self.roots[*root].services.contains_key(service) {
                        asks.push(self.ask(node, What::Children));
                    }
                }
                (_, Node::Root(_)) => asks.push(self.ask(node, What::Children)),
            }
        }
        asks
    }

    /// Takes in an answer. What it says goes out; what is to be asked next is returned.
    pub(super) fn answered(
        &mut self,
        ask: Ask,
        found: Found,
        out: &mut Outbox,
    ) -> Result<Vec<Ask>, Untold> {
        self.asked = self.asked.saturating_sub(1);
        let asks = match (ask.node, found) {
            (Node::Root(_), Found::Refused(error)) => return Err(Untold(ask.path, error)),
            (node @ Node::Root(_), Found::There) => vec![self.ask(node, What::Children)],
            (Node::Root(root), Found::Children(names)) => self.services(root, names),
            (Node::Root(root), Found::Missing | Found::Data(_)) => {
                let mut asks = self.services(root, Vec::new());
                // Told when it comes. Where it came since, the answer says so.
                if ask.what == What::Children {
                    asks.push(self.ask(Node::Root(root), What::Exists));
                }
                asks
            }
            (node @ Node::Service(..), Found::There) => vec![self.ask(node, What::Children)],
            (Node::Service(root, service), found) => {
                self.instances(root, &service, ask.what, found, out)
            }
            (Node::Instance(root, service, name), found) => {
                self.instance(root, &service, &name, found, out);
                Vec::new()
            }
        };
        self.settle(out);
        Ok(asks)
    }

    fn services(&mut self, root: usize, names: Vec<Arc<str>>) -> Vec<Ask> {
        let is_service = |name: &Arc<str>| !name.is_empty() && !OTHERS.contains(&&**name);
        let names: BTreeSet<Arc<str>> = names
            .into_iter()
            .filter(is_service)
            .take(MOST_SERVICES)
            .collect();
        let services = &mut self.roots[root].services;
        let before = services.len();
        services.retain(|name, _| names.contains(name));
        self.has_left |= services.len() < before;
        let mut new = Vec::new();
        for name in names {
            if !services.contains_key(&name) {
                services.insert(name.clone(), Service::default());
                new.push(name);
            }
        }
        let new = new.into_iter();
        new.map(|name| self.ask(Node::Service(root, name), What::Children))
            .collect()
    }

    /// Takes in which instances a service has.
    fn instances(
        &mut self,
        root: usize,
        name: &Arc<str>,
        what: What,
        found: Found,
        out: &mut Outbox,
    ) -> Vec<Ask> {
        let layout = self.roots[root].layout;
        let node = Node::Service(root, name.clone());
        let mut asks = Vec::new();
        let names = match found {
            Found::Children(names) => names,
            Found::Refused(error) => {
                let path = self.path(&node);
                tracing::warn!(path, error, "ZooKeeper does not tell of a service.");
                self.refused(root, name);
                return asks;
            }
            _ if layout == Layout::Applications => {
                // Nothing watches it now. Where it is there again, its parent's list has it as a new one.
                self.has_left |= self.roots[root].services.remove(name).is_some();
                return asks;
            }
            _ => {
                if what == What::Children {
                    asks.push(self.ask(node, What::Exists));
                }
                Vec::new()
            }
        };
        if what == What::Exists {
            return asks;
        }
        let Some(service) = self.roots[root].services.get_mut(name) else {
            return asks;
        };
        if layout == Layout::Interfaces {
            self.tell_interface(root, name, &names, out);
            return asks;
        }
        let names: BTreeSet<Arc<str>> = names.into_iter().take(MOST_INSTANCES).collect();
        service.instances.retain(|name, held| {
            let stays = names.contains(name);
            service.asked -= usize::from(!stays && held.asked > 0);
            stays
        });
        let is_new = |name: &Arc<str>| !service.instances.contains_key(name);
        let new: Vec<Arc<str>> = names.into_iter().filter(is_new).collect();
        for instance in &new {
            let held = Held {
                asked: 1,
                instance: None,
            };
            service.instances.insert(instance.clone(), held);
            service.asked += 1;
        }
        let node = |instance| Node::Instance(root, name.clone(), instance);
        let nodes: Vec<Node> = new.into_iter().map(node).collect();
        asks.extend(nodes.into_iter().map(|n| self.ask(n, What::Data)));
        self.tell_application(root, name, out);
        asks
    }

    /// Takes in what an instance is.
    fn instance(
        &mut self,
        root: usize,
        name: &Arc<str>,
        child: &Arc<str>,
        found: Found,
        out: &mut Outbox,
    ) {
        let Some(service) = self.roots[root].services.get_mut(name) else {
            return;
        };
        let Some(held) = service.instances.get_mut(child) else {
            return;
        };
        service.asked -= usize::from(held.asked == 1);
        held.asked = held.asked.saturating_sub(1);
        match found {
            Found::Data(content) => held.instance = read(name, child, &content),
            Found::Missing => {
                service.asked -= usize::from(held.asked > 0);
                service.instances.remove(child);
            }
            // What was known of it stays.
            _ => {}
        }
        self.tell_application(root, name, out);
    }

    /// Reports an application once all of its instances are known.
    fn tell_application(&mut self, root: usize, name: &Arc<str>, out: &mut Outbox) {
        let root = &mut self.roots[root];
        let host: ServiceName = format!("{name}{}.zookeeper", root.suffix).into();
        let Some(service) = root.services.get_mut(name) else {
            return;
        };
        if service.asked > 0 {
            return;
        }
        let instances = service.instances.values();
        out.service(
            host.clone(),
            instances.filter_map(|h| h.instance.clone()).collect(),
        );
        self.is_changed |= service.told.insert(host);
    }

    /// Reports the services of an interface. One that nobody provides any more is there as long as the interface is.
    fn tell_interface(
        &mut self,
        root: usize,
        name: &Arc<str>,
        nodes: &[Arc<str>],
        out: &mut Outbox,
    ) {
        let Some(service) = self.roots[root].services.get_mut(name) else {
            return;
        };
        let services = dubbo::services(name, nodes);
        for gone in service.told.iter().filter(|t| !services.contains_key(*t)) {
            out.service(gone.clone(), Vec::new());
        }
        for (host, instances) in services {
            self.is_changed |= service.told.insert(host.clone());
            out.service(host, instances);
        }
    }

    /// A service is there and not told of: an application is known by its name, and keeps what it had.
    fn refused(&mut self, root: usize, name: &Arc<str>) {
        let root = &mut self.roots[root];
        if root.layout == Layout::Applications
            && let Some(service) = root.services.get_mut(name)
        {
            let host = format!("{name}{}.zookeeper", root.suffix).into();
            self.is_changed |= service.told.insert(host);
        }
    }

    /// Says what there is, where nothing is to come and it is something else.
    fn settle(&mut self, out: &mut Outbox) {
        if self.asked > 0 || !(self.is_changed || self.has_left) {
            return;
        }
        self.is_changed = false;
        let has_left = std::mem::take(&mut self.has_left);
        let services = self.roots.iter().flat_map(|r| r.services.values());
        let names: BTreeSet<ServiceName> = services.flat_map(|s| s.told.iter().cloned()).collect();
        if has_left || self.whole.as_ref() != Some(&names) {
            self.whole = Some(names.clone());
            out.whole(names);
        }
    }

    fn ask(&mut self, node: Node, what: What) -> Ask {
        self.asked += 1;
        let path = self.path(&node);
        Ask { node, what, path }
    }

    fn path(&self, node: &Node) -> String {
        match node {
            Node::Root(root) if self.roots[*root].path.is_empty() => "/".to_owned(),
            Node::Root(root) => self.roots[*root].path.clone(),
            Node::Service(root, service) => {
                let root = &self.roots[*root];
                let below = match root.layout {
                    Layout::Interfaces => "/providers",
                    Layout::Applications => "",
                };
                format!("{}/{service}{below}", root.path)
            }
            Node::Instance(root, service, name) => {
                format!("{}/{service}/{name}", self.roots[*root].path)
            }
        }
    }

    /// The nodes of a path: one of each root that it is below.
    fn nodes(&self, path: &str) -> Vec<Node> {
        let node = |(number, root): (usize, &Root)| {
            let below = match path {
                "/" if root.path.is_empty() => "",
                path => path.strip_prefix(&*root.path)?,
            };
            if below.is_empty() {
                return Some(Node::Root(number));
            }
            let (service, rest) = match below.strip_prefix('/')?.split_once('/') {
                Some((service, rest)) => (service, Some(rest)),
                None => (below.strip_prefix('/')?, None),
            };
            match (root.layout, rest) {
                (Layout::Interfaces, Some("providers")) | (Layout::Applications, None) => {
                    Some(Node::Service(number, service.into()))
                }
                (Layout::Applications, Some(name)) => {
                    Some(Node::Instance(number, service.into(), name.into()))
                }
                (Layout::Interfaces, _) => None,
            }
        };
        self.roots.iter().enumerate().filter_map(node).collect()
    }
}

fn read(service: &str, node: &str, content: &Bytes) -> Option<Instance> {
    let read = instance(content);
    if read.is_none() {
        tracing::debug!(service, node, "A node of ZooKeeper is no instance.");
    }
    read
}

#[cfg(test)]
mod random;
#[cfg(test)]
mod tests;
