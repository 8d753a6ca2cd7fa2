use std::collections::BTreeMap;
use std::sync::Arc;

use model::Owner;
use proptest::prelude::*;

use super::*;
use crate::fixed::instance;
use crate::protocol::Protocol;
use crate::service::VirtualPorts;

const EMPTY: Duration = Duration::from_secs(100);
const OUTAGE: Duration = Duration::from_secs(300);

fn keeper(patience: Patience, limits: Limits) -> Keeper {
    let making = Making {
        owner: Owner::new(250, "registry:x/y"),
        kind: "x".into(),
        name: "y".into(),
        protocol: Protocol::Http,
        sni: "".into(),
        ports: VirtualPorts::default(),
        only_in: None,
    };
    Keeper::new(making, patience, limits)
}

fn patient() -> Keeper {
    let patience = Patience {
        empty: Keep::For(EMPTY),
        outage: Keep::For(OUTAGE),
    };
    keeper(patience, Limits::default())
}

/// What proxies were told: the last octets of endpoints by service.
#[derive(Clone, PartialEq, Debug, Default)]
struct World(BTreeMap<Arc<str>, Vec<String>>);

impl World {
    fn take(&mut self, told: Vec<Told>) {
        for told in told {
            match told {
                Told::Put(AnyObject::ServiceEntry(entry)) => {
                    let endpoints = entry.spec.endpoints.iter();
                    let endpoints = endpoints.map(|e| e.address.clone()).collect();
                    let name = entry.meta.name.name.as_arc().clone();
                    assert_ne!(self.0.get(&name), Some(&endpoints), "told twice: {name}");
                    self.0.insert(name, endpoints);
                }
                Told::Delete(key) => {
                    assert!(self.0.remove(key.name.name.as_arc()).is_some(), "{key}");
                }
                Told::Put(_) | Told::Whole => {}
            }
        }
    }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn list(addresses: &[u8]) -> Vec<Instance> {
    let all = addresses.iter();
    all.map(|n| instance(&format!("10.0.0.{n}"), 80)).collect()
}

fn names(all: &[&str]) -> BTreeSet<ServiceName> {
    all.iter().map(|name| (*name).into()).collect()
}

fn feed(keeper: &mut Keeper, world: &mut World, report: Report, seconds: u64) {
    let mut told = Vec::new();
    keeper.take(Outside::new(report), at(seconds), &mut told);
    world.take(told);
}

fn pass(keeper: &mut Keeper, world: &mut World, seconds: u64) {
    let mut told = Vec::new();
    keeper.expire(at(seconds), &mut told);
    world.take(told);
}

fn of(world: &World, name: &str) -> Option<usize> {
    world.0.get(name).map(Vec::len)
}

#[test]
fn an_empty_answer_counts_after_its_time() {
    let (mut keeper, mut world) = (patient(), World::default());
    feed(
        &mut keeper,
        &mut world,
        Report::Service("a".into(), list(&[1, 2])),
        0,
    );
    feed(&mut keeper, &mut world, Report::Whole(names(&["a"])), 0);
    feed(
        &mut keeper,
        &mut world,
        Report::Service("a".into(), list(&[])),
        10,
    );
    assert_eq!(of(&world, "a"), Some(2));
    // Repeating it, and listing the service no more, does not begin anew.
    feed(&mut keeper, &mut world, Report::Whole(names(&[])), 60);
    pass(&mut keeper, &mut world, 109);
    assert_eq!((of(&world, "a"), keeper.figures().kept), (Some(2), 1));
    assert_eq!(keeper.due(), Some(at(110)));
    pass(&mut keeper, &mut world, 110);
    assert_eq!((of(&world, "a"), keeper.due()), (None, None));
    assert_eq!(keeper.figures(), Figures::default());
}

#[test]
fn what_comes_back_was_never_away() {
    let (mut keeper, mut world) = (patient(), World::default());
    feed(
        &mut keeper,
        &mut world,
        Report::Service("a".into(), list(&[1])),
        0,
    );
    feed(&mut keeper, &mut world, Report::Whole(names(&["a"])), 0);
    feed(&mut keeper, &mut world, Report::Whole(names(&[])), 10);
    feed(
        &mut keeper,
        &mut world,
        Report::Service("a".into(), list(&[1])),
        20,
    );
    feed(&mut keeper, &mut world, Report::Whole(names(&["a"])), 20);
    pass(&mut keeper, &mut world, 1_000);
    assert_eq!((of(&world, "a"), keeper.due()), (Some(1), None));
}

#[test]
fn an_outage_counts_after_its_time_for_what_was_not_told_since() {
    let (mut keeper, mut world) = (patient(), World::default());
    for name in ["a", "b"] {
        feed(
            &mut keeper,
            &mut world,
            Report::Service(name.into(), list(&[1])),
            0,
        );
    }
    feed(
        &mut keeper,
        &mut world,
        Report::Whole(names(&["a", "b"])),
        0,
    );
    feed(&mut keeper, &mut world, Report::Lost("gone".into()), 10);
    feed(
        &mut keeper,
        &mut world,
        Report::Service("a".into(), list(&[1])),
        20,
    );
    feed(
        &mut keeper,
        &mut world,
        Report::Lost("gone again".into()),
        30,
    );
    pass(&mut keeper, &mut world, 309);
    assert_eq!((of(&world, "a"), of(&world, "b")), (Some(1), Some(1)));
    pass(&mut keeper, &mut world, 310);
    assert_eq!((of(&world, "a"), of(&world, "b")), (Some(1), Some(0)));
    feed(
        &mut keeper,
        &mut world,
        Report::Service("b".into(), list(&[1])),
        400,
    );
    assert_eq!(of(&world, "b"), Some(1));
}

#[test]
fn without_patience_what_is_said_counts_at_once() {
    let patience = Patience {
        empty: Keep::For(Duration::ZERO),
        outage: Keep::Forever,
    };
    let (mut keeper, mut world) = (keeper(patience, Limits::default()), World::default());
    feed(
        &mut keeper,
        &mut world,
        Report::Service("a".into(), list(&[1])),
        0,
    );
    feed(
        &mut keeper,
        &mut world,
        Report::Service("a".into(), list(&[])),
        0,
    );
    assert_eq!(of(&world, "a"), Some(0));
    feed(&mut keeper, &mut world, Report::Lost("gone".into()), 1);
    feed(&mut keeper, &mut world, Report::Whole(names(&[])), 2);
    assert_eq!(of(&world, "a"), None);
}

#[test]
fn limits_leave_out_what_comes_last() {
    let limits = Limits {
        services: 2,
        ..Limits::default()
    };
    let patience = Patience {
        empty: Keep::Forever,
        outage: Keep::Forever,
    };
    let (mut keeper, mut world) = (keeper(patience, limits), World::default());
    for name in ["a", "b|c", "b", "c", "a b", "x/y", "*"] {
        feed(
            &mut keeper,
            &mut world,
            Report::Service(name.into(), list(&[1])),
            0,
        );
    }
    assert_eq!(world.0.keys().map(|k| &**k).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(
        keeper.figures().left_out,
        2,
        "their names have a limit, too"
    );
}

/// A step of a schedule; services are `a` to `d`.
#[derive(Clone, Debug)]
enum Step {
    /// The registry lists this.
    List(u8, Vec<u8>),
    /// A connection ends; some of the services are told again before the next one ends as well, if that is how it goes.
    Lost(u8),
    /// The registry is back, with or without its data.
    Back(bool),
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_u8, prop::collection::vec(1..6_u8, 0..4)).prop_map(|(s, l)| Step::List(s, l)),
        1 => (0..16_u8).prop_map(Step::Lost),
        1 => any::<bool>().prop_map(Step::Back),
        2 => (0..200_u16).prop_map(Step::Wait),
    ]
}

fn name(service: u8) -> ServiceName {
    char::from(b'a' + service).to_string().into()
}

/// A registry and what is held of it.
struct Play {
    keeper: Keeper,
    world: World,
    now: u64,
    connected: bool,
    /// What the registry has.
    has: BTreeMap<u8, Vec<u8>>,
    /// Since when a service has had no instance, as far as was told; and the first loss that nothing whole followed.
    empty: BTreeMap<u8, u64>,
    lost: Option<u64>,
}

impl Play {
    fn feed(&mut self, report: Report) {
        feed(&mut self.keeper, &mut self.world, report, self.now);
    }

    fn tell(&mut self, service: u8) {
        let list_of = self.has.get(&service).cloned().unwrap_or_default();
        if list_of.is_empty() {
            self.empty.entry(service).or_insert(self.now);
        } else {
            self.empty.remove(&service);
        }
        self.feed(Report::Service(name(service), list(&list_of)));
    }

    fn tell_all(&mut self) {
        for service in self.has.keys().copied().collect::<Vec<_>>() {
            self.tell(service);
        }
        for service in 0..4 {
            if !self.has.contains_key(&service) {
                self.empty.entry(service).or_insert(self.now);
            }
        }
        let all = self.has.keys().map(|service| name(*service)).collect();
        self.feed(Report::Whole(all));
        self.lost = None;
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::List(service, addresses) => {
                self.has.insert(service, addresses);
                if self.connected {
                    self.tell_all();
                }
            }
            Step::Lost(some) => {
                self.lost.get_or_insert(self.now);
                self.feed(Report::Lost("gone".into()));
                self.connected = false;
                for service in 0..4 {
                    if some & 1 << service != 0 && self.has.contains_key(&service) {
                        self.tell(service);
                    }
                }
            }
            Step::Back(with_data) => {
                if !with_data {
                    self.has.clear();
                }
                self.connected = true;
                self.tell_all();
            }
            Step::Wait(seconds) => {
                let end = self.now + u64::from(seconds);
                while let Some(due) = self.keeper.due().filter(|due| *due <= at(end)) {
                    self.now = self.now.max(due.as_secs());
                    pass(&mut self.keeper, &mut self.world, self.now);
                }
                self.now = end;
            }
        }
    }

    /// No endpoint is taken away before its time.
    fn check(&self, before: &World) {
        for service in 0..4 {
            let (before, now) = (of(before, &name(service)), of(&self.world, &name(service)));
            let had = before.unwrap_or(0) > 0;
            if had && now.unwrap_or(0) == 0 {
                let long_empty = self.empty.get(&service);
                let long_empty = long_empty.is_some_and(|since| at(self.now - since) >= EMPTY);
                let long_lost = self
                    .lost
                    .is_some_and(|since| at(self.now - since) >= OUTAGE);
                assert!(long_empty || long_lost, "{service} at {}", self.now);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nothing_flickers_and_nothing_stale_stays(steps in prop::collection::vec(step(), 1..60)) {
        let mut play = Play {
            keeper: patient(),
            world: World::default(),
            now: 0,
            connected: true,
            has: BTreeMap::new(),
            empty: BTreeMap::new(),
            lost: None,
        };
        for step in steps {
            let before = play.world.clone();
            play.step(step);
            play.check(&before);
        }
        play.step(Step::Back(true));
        play.step(Step::Wait(400));
        // What there is is what a keeper has that has known nothing else.
        let mut plain = (patient(), World::default());
        for (service, addresses) in play.has.iter().rev() {
            feed(&mut plain.0, &mut plain.1, Report::Service(name(*service), list(addresses)), 0);
        }
        let with_any = |world: &World| {
            let services = world.0.clone().into_iter();
            services.filter(|(_, list)| !list.is_empty()).collect::<BTreeMap<_, _>>()
        };
        prop_assert_eq!(with_any(&play.world), with_any(&plain.1));
        // Services without instances are remembered only while the registry lists them.
        for known in play.world.0.keys() {
            prop_assert!(play.has.keys().any(|service| name(*service) == *known), "{known}");
        }
        // Nothing is left of what was.
        let figures = play.keeper.figures();
        prop_assert_eq!(figures.services, play.world.0.len());
        prop_assert_eq!(figures.instances, play.world.0.values().map(Vec::len).sum::<usize>());
        prop_assert_eq!((figures.kept, play.keeper.due()), (0, None));
        let bytes: usize = play.keeper.services.values().map(|held| size(&held.made)).sum();
        prop_assert_eq!(figures.bytes, bytes);
    }
}
