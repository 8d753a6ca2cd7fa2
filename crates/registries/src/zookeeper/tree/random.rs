//! Whatever happens to a server's nodes, and however slowly it is told: in the end what is reported is what is there.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::report::Report;

/// A server with watches, as ZooKeeper has them: each tells once, and nothing overtakes anything.
#[derive(Default)]
struct Server {
    nodes: BTreeMap<String, String>,
    watched_below: BTreeSet<String>,
    watched: BTreeSet<String>,
    inbox: VecDeque<Ask>,
    outbox: VecDeque<Said>,
}

enum Said {
    Changed(Change, String),
    Answer(Ask, Found),
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl Server {
    fn below(&self, path: &str) -> Vec<Arc<str>> {
        let is_child = |n: &&String| parent(n) == path && !n.is_empty();
        let names = self.nodes.keys().filter(is_child);
        names
            .map(|n| n.rsplit('/').next().unwrap().into())
            .collect()
    }

    /// Makes a node, gives it another content, or removes it, where that can be.
    fn change(&mut self, path: &str, content: Option<String>) {
        let is_there = self.nodes.contains_key(path);
        let change = match &content {
            Some(_) if is_there => Change::Data,
            Some(_) if parent(path).is_empty() || self.nodes.contains_key(parent(path)) => {
                Change::Created
            }
            None if is_there && self.below(path).is_empty() => Change::Deleted,
            _ => return,
        };
        match content {
            Some(content) => _ = self.nodes.insert(path.to_owned(), content),
            None => _ = self.nodes.remove(path),
        }
        let is_watched = self.watched.remove(path);
        let is_left = change == Change::Deleted && self.watched_below.remove(path);
        if is_watched || is_left {
            self.outbox
                .push_back(Said::Changed(change, path.to_owned()));
        }
        if change != Change::Data && self.watched_below.remove(parent(path)) {
            let above = parent(path).to_owned();
            self.outbox
                .push_back(Said::Changed(Change::Children, above));
        }
    }

    /// Answers the oldest question.
    fn answer(&mut self) {
        let Some(ask) = self.inbox.pop_front() else {
            return;
        };
        let node = self.nodes.get(&ask.path);
        let found = match (ask.what, node) {
            (What::Exists, None) => Found::Missing,
            (What::Exists, Some(_)) => Found::There,
            (_, None) => Found::Missing,
            (What::Data, Some(content)) => Found::Data(content.clone().into()),
            (What::Children, Some(_)) => Found::Children(self.below(&ask.path)),
        };
        match (ask.what, node.is_some()) {
            (What::Children, true) => _ = self.watched_below.insert(ask.path.clone()),
            (What::Data, true) | (What::Exists, _) => _ = self.watched.insert(ask.path.clone()),
            _ => {}
        }
        self.outbox.push_back(Said::Answer(ask, found));
    }
}

/// One that reads it, and what it was told.
struct Reader {
    tree: Tree,
    told: BTreeMap<ServiceName, Vec<String>>,
    is_whole: bool,
}

impl Reader {
    fn hear(&mut self, server: &mut Server) {
        let mut out = Outbox::default();
        let asks = match server.outbox.pop_front() {
            None => return,
            Some(Said::Changed(change, path)) => self.tree.changed(change, &path),
            Some(Said::Answer(ask, found)) => self.tree.answered(ask, found, &mut out).unwrap(),
        };
        server.inbox.extend(asks);
        for report in std::iter::from_fn(|| out.pop()) {
            match report {
                Report::Service(name, instances) => {
                    let addresses = instances.iter().map(|i| i.address.to_string());
                    self.told.insert(name, addresses.collect());
                }
                Report::Whole(names) => {
                    assert!(names.iter().all(|n| self.told.contains_key(n)), "{names:?}");
                    self.told.retain(|name, _| names.contains(name));
                    self.is_whole = true;
                }
                Report::Lost(why) => panic!("{why}"),
            }
        }
    }
}

const PATHS: [&str; 12] = [
    "/services",
    "/services/a",
    "/services/a/x",
    "/services/a/y",
    "/services/b",
    "/services/b/x",
    "/dubbo",
    "/dubbo/i",
    "/dubbo/i/providers",
    "/dubbo/i/providers/dubbo%3A%2F%2F1%3A1%2Fi%3Fversion%3D1",
    "/dubbo/i/providers/dubbo%3A%2F%2F2%3A1%2Fi%3Fversion%3D1",
    "/dubbo/i/providers/dubbo%3A%2F%2F3%3A1%2Fi%3Fversion%3D2",
];

#[derive(Clone, Debug)]
enum Step {
    Put(usize, u8),
    Remove(usize),
    Answer,
    Hear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..PATHS.len(), any::<u8>()).prop_map(|(path, n)| Step::Put(path, n)),
        2 => (0..PATHS.len()).prop_map(Step::Remove),
        4 => Just(Step::Answer),
        4 => Just(Step::Hear),
    ];
    proptest::collection::vec(step, 0..150)
}

/// What is there: each service, with the addresses of its instances.
fn truth(server: &Server) -> BTreeMap<ServiceName, Vec<String>> {
    let mut truth: BTreeMap<ServiceName, Vec<String>> = BTreeMap::new();
    for name in server.below("/services") {
        let path = format!("/services/{name}");
        let contents = server.nodes.iter().filter(|(n, _)| parent(n) == path);
        let addresses = contents.filter_map(|(_, c)| instance(c.as_bytes()));
        let addresses = addresses.map(|i| i.address.to_string()).collect();
        truth.insert(format!("{name}.services.zookeeper").into(), addresses);
    }
    for (name, instances) in dubbo::services("i", &server.below("/dubbo/i/providers")) {
        let addresses = instances.iter().map(|i| i.address.to_string());
        truth.insert(name, addresses.collect());
    }
    truth
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn in_the_end_what_is_reported_is_what_is_there(steps in steps()) {
        let roots = [("/services".into(), Layout::Applications), ("/dubbo".into(), Layout::Interfaces)];
        let mut server = Server::default();
        let mut reader = Reader { tree: Tree::new(&roots), told: BTreeMap::new(), is_whole: false };
        server.inbox.extend(reader.tree.begin());
        for step in steps {
            match step {
                Step::Put(path, n) => {
                    let content = match n % 8 {
                        0 => "no instance".to_owned(),
                        _ => format!(r#"{{"address":"10.0.0.{n}","port":1}}"#),
                    };
                    server.change(PATHS[path], Some(content));
                }
                Step::Remove(path) => server.change(PATHS[path], None),
                Step::Answer => server.answer(),
                Step::Hear => reader.hear(&mut server),
            }
        }
        while !server.inbox.is_empty() || !server.outbox.is_empty() {
            server.answer();
            reader.hear(&mut server);
        }
        prop_assert!(reader.is_whole);
        prop_assert_eq!(reader.tree.asked, 0);
        let truth = truth(&server);
        // What nobody provides any more is there, and empty, as long as its interface is.
        reader.told.retain(|name, addresses| {
            truth.contains_key(name) || !addresses.is_empty() || !name.starts_with("providers:")
        });
        prop_assert_eq!(reader.told, truth);
    }
}
