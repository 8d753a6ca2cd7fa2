//! Random schedules of what a peer and the way to it can do: killed, cut off, slow, silent for a type, garbage, the same again,
//! an older state again, and restarts of this side. A model knows what may be in force.

use super::*;

const TOPICS: usize = 3;
const NAMES: usize = 6;
const SCHEDULES: u64 = 500;
const STEPS: usize = 120;

/// Numbers that look random, equal for equal seeds.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }
}

fn name(n: usize) -> Arc<str> {
    format!("shop/{n}").into()
}

fn entry(name: &Arc<str>, revision: u64, versioned: bool) -> Entry {
    let version = if versioned {
        revision.to_string()
    } else {
        String::new()
    };
    Entry {
        name: name.clone(),
        version: version.as_str().into(),
        wire_version: version.as_str().into(),
        digest: u128::from(revision),
        is_readable: true,
        body: Bytes::from(vec![0; 10]),
    }
}

fn unreadable(name: &Arc<str>) -> Entry {
    Entry {
        digest: u128::MAX,
        is_readable: false,
        ..entry(name, 0, false)
    }
}

/// The objects of a topic: the revision in which each was written.
type Objects = BTreeMap<Arc<str>, u64>;

/// Whoever is told: as the store, which forgets at the end of a list what the list does not have.
#[derive(Clone, Default)]
struct Told {
    objects: Objects,
    /// What a list that begins anew has not told again yet.
    untold: Option<BTreeSet<Arc<str>>>,
    is_whole: bool,
}

/// What is known of a topic outside of the book.
#[derive(Clone, Default)]
struct Known {
    /// What the peer has.
    truth: Objects,
    /// Up to which revision the book has heard the truth.
    heard: u64,
    /// When each object was written or deleted last.
    touched: Objects,
    /// Newest revision of each object that was in force.
    newest: Objects,
    told: Told,
    cache: Option<Vec<Entry>>,
    /// Responses of this stream, the oldest first.
    sent: Vec<Said>,
    is_silent: bool,
    /// By when the peer says the truth again.
    truth_due: Option<Duration>,
}

struct World {
    dice: Dice,
    book: Book,
    known: Vec<Known>,
    revision: u64,
    now: Duration,
    is_open: bool,
    versioned: bool,
    delta: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let (versioned, delta) = (dice.roll(2) == 0, dice.roll(4) == 0);
        Self {
            dice,
            book: Book::new(TOPICS, Limits::default()),
            known: vec![Known::default(); TOPICS],
            revision: 0,
            now: Duration::ZERO,
            is_open: false,
            versioned,
            delta,
        }
    }

    fn edit(&mut self, topic: usize) {
        self.revision += 1;
        let name = name(self.dice.roll(NAMES));
        let known = &mut self.known[topic];
        if self.dice.roll(3) == 0 {
            known.truth.remove(&name);
        } else {
            known.truth.insert(name.clone(), self.revision);
        }
        known.touched.insert(name, self.revision);
    }

    /// The state that the peer has now.
    fn state(&self, topic: usize) -> Said {
        let truth = self.known[topic].truth.iter();
        let entries = truth.map(|(name, revision)| entry(name, *revision, self.versioned));
        Said {
            stamp: format!("{}", self.revision).into(),
            is_whole: true,
            entries: entries.collect(),
            ..Said::default()
        }
    }

    /// The same as an incremental response to whoever has what the book has.
    fn difference(&self, topic: usize) -> Said {
        let whole = self.state(topic);
        let has: BTreeMap<&Arc<str>, &Entry> =
            self.book.entries(topic).map(|e| (&e.name, e)).collect();
        let truth = &self.known[topic].truth;
        let removed = has.keys().filter(|name| !truth.contains_key(**name));
        let differs = |e: &Entry| has.get(&e.name).is_none_or(|had| had.digest != e.digest);
        Said {
            is_whole: false,
            removed: removed.map(|name| (*name).clone()).collect(),
            entries: whole
                .entries
                .iter()
                .filter(|e| differs(e))
                .cloned()
                .collect(),
            ..whole
        }
    }

    fn say(&mut self, topic: usize) {
        if !self.is_open || self.known[topic].is_silent {
            return;
        }
        let said = match self.delta {
            true => self.difference(topic),
            false => self.state(topic),
        };
        self.known[topic].heard = self.revision;
        self.known[topic].truth_due = None;
        self.known[topic].sent.push(said.clone());
        self.hear(topic, said);
    }

    /// The truth, with a resource that cannot be read in it.
    fn say_garbage(&mut self, topic: usize) {
        if !self.is_open || self.known[topic].is_silent || self.delta {
            return;
        }
        let mut said = self.state(topic);
        // What it should be is not said. What is gone is heard with the next response.
        match (self.dice.roll(2), said.entries.is_empty()) {
            (0, false) => {
                let at = self.dice.roll(said.entries.len());
                said.entries[at] = unreadable(&said.entries[at].name.clone());
            }
            (_, is_empty) => {
                if !is_empty {
                    said.entries.remove(0);
                }
                said.nameless = 1;
            }
        }
        self.hear(topic, said);
    }

    /// A state that was said before on this stream.
    fn say_older(&mut self, topic: usize) {
        if !self.is_open || self.known[topic].is_silent || self.delta {
            return;
        }
        let sent = &self.known[topic].sent;
        if sent.is_empty() {
            return;
        }
        let said = sent[self.dice.roll(sent.len())].clone();
        self.known[topic]
            .truth_due
            .get_or_insert(self.now + Duration::from_secs(20));
        self.hear(topic, said);
    }

    fn hear(&mut self, topic: usize, said: Said) {
        let outcome = self.book.take(topic, said, self.now);
        self.act(topic, outcome);
    }

    fn act(&mut self, topic: usize, outcome: Outcome) {
        assert_eq!(outcome.refused, None);
        if outcome.is_changed {
            let entries = self.book.entries(topic).cloned().collect();
            self.known[topic].cache = Some(entries);
        }
        self.tell(topic, outcome.steps);
    }

    fn tell(&mut self, topic: usize, steps: Vec<Step>) {
        let Known {
            told,
            touched,
            newest,
            ..
        } = &mut self.known[topic];
        for step in steps {
            match step {
                Step::Put(entry) => {
                    if let Some(untold) = &mut told.untold {
                        untold.remove(&entry.name);
                    }
                    if !entry.is_readable {
                        // What was there stays; where nothing was, something closed stands there.
                        told.objects.entry(entry.name).or_insert(0);
                        continue;
                    }
                    let revision = entry.digest as u64;
                    let newest = newest.entry(entry.name.clone()).or_default();
                    assert!(*newest <= revision, "{} goes back", entry.name);
                    *newest = revision;
                    told.objects.insert(entry.name, revision);
                }
                Step::Delete(name) => {
                    let had = told.objects.remove(&name).unwrap_or_default();
                    assert!(touched[&name] > had, "{name} is lost");
                }
                Step::Whole => {
                    for name in told.untold.take().into_iter().flatten() {
                        let had = told.objects.remove(&name).unwrap_or_default();
                        assert!(touched[&name] > had, "{name} is lost at the end of a list");
                    }
                    told.is_whole = true;
                }
            }
        }
    }

    fn open(&mut self) {
        self.book.open();
        self.is_open = true;
        for known in &mut self.known {
            known.sent.clear();
            known.truth_due = None;
        }
        for topic in 0..TOPICS {
            self.say(topic);
        }
    }

    fn lose(&mut self) {
        self.is_open = false;
        for known in &mut self.known {
            known.truth_due = None;
        }
    }

    /// The source is started again: who is told waits for everything once more.
    fn run_again(&mut self) {
        self.lose();
        self.book.begin();
        for known in &mut self.known {
            known.told.untold = Some(known.told.objects.keys().cloned().collect());
        }
    }

    /// The process is killed and started again while the peer is away.
    fn restart(&mut self) {
        self.lose();
        self.book = Book::new(TOPICS, Limits::default());
        for topic in 0..TOPICS {
            let before = std::mem::take(&mut self.known[topic].told);
            let Some(cache) = self.known[topic].cache.clone() else {
                continue;
            };
            self.book.restore(topic, cache);
            let steps = self.book.tell(topic);
            self.tell(topic, steps);
            let told = &self.known[topic].told;
            let same = |objects: &Objects| -> Vec<Arc<str>> { objects.keys().cloned().collect() };
            if before.untold.is_none() {
                assert_eq!(
                    same(&told.objects),
                    same(&before.objects),
                    "across a restart"
                );
            }
        }
    }

    fn wait(&mut self) {
        self.now += Duration::from_secs(self.dice.roll(10) as u64);
        for topic in 0..TOPICS {
            if self.known[topic]
                .truth_due
                .is_some_and(|due| due <= self.now)
            {
                self.say(topic);
            }
        }
        let now = self.now;
        let believed = match self.is_open {
            true => self.book.expire(now),
            false => Vec::new(),
        };
        for (topic, outcome) in believed {
            self.act(topic, outcome);
        }
    }

    fn step(&mut self) {
        let topic = self.dice.roll(TOPICS);
        match self.dice.roll(16) {
            0..=4 => self.edit(topic),
            5 | 6 => self.say(topic),
            7 => {
                self.say(topic);
                if let Some(said) = self.known[topic].sent.last().cloned()
                    && self.is_open
                    && !self.known[topic].is_silent
                    && !self.delta
                {
                    self.hear(topic, said);
                }
            }
            8 => self.say_garbage(topic),
            9 => self.say_older(topic),
            10 => self.lose(),
            11 => self.run_again(),
            12 if self.dice.roll(3) == 0 => self.restart(),
            13 => {
                let is_silent = self.dice.roll(3) == 0;
                if is_silent && self.known[topic].truth_due.is_some() {
                    self.say(topic);
                }
                self.known[topic].is_silent = is_silent;
            }
            14 => self.wait(),
            _ if !self.is_open => self.open(),
            _ => self.wait(),
        }
        self.check();
    }

    /// What the peer has, had when it was last heard, and did not touch since, is in force; what it had not, is not.
    fn check(&self) {
        for known in &self.known {
            let told = &known.told;
            if !told.is_whole || told.untold.is_some() {
                continue;
            }
            for (name, touched) in &known.touched {
                if *touched > known.heard {
                    continue;
                }
                let (is, has) = (
                    told.objects.contains_key(name),
                    known.truth.contains_key(name),
                );
                assert_eq!(is, has, "{name}, in force and at the peer");
            }
        }
    }

    fn converge(&mut self) {
        for known in &mut self.known {
            known.is_silent = false;
        }
        self.open();
        for topic in 0..TOPICS {
            let known = &self.known[topic];
            assert_eq!(known.told.objects, known.truth, "topic {topic}");
            assert!(known.told.is_whole && known.told.untold.is_none());
        }
    }
}

#[test]
fn whatever_happens_on_the_way_what_is_in_force_is_what_the_peer_has() {
    for seed in 0..SCHEDULES {
        let ran = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            world.open();
            for _ in 0..STEPS {
                world.step();
            }
            world.converge();
        });
        assert!(ran.is_ok(), "seed {seed}");
    }
}

fn whole(stamp: &str, entries: Vec<Entry>) -> Said {
    Said {
        stamp: stamp.into(),
        is_whole: true,
        entries,
        ..Said::default()
    }
}

fn names(book: &Book) -> Vec<String> {
    book.entries(0).map(|e| e.name.to_string()).collect()
}

#[test]
fn an_older_state_that_nobody_contradicts_is_believed_in_the_end() {
    let second = Duration::from_secs;
    let mut book = Book::new(1, Limits::default());
    let (a, b) = (name(0), name(1));
    book.take(
        0,
        whole("9", vec![entry(&a, 7, true), entry(&b, 8, true)]),
        second(0),
    );
    book.open();
    let restored = whole("1", vec![entry(&a, 3, true)]);
    assert!(book.take(0, restored.clone(), second(10)).is_doubted);
    assert_eq!(names(&book).len(), 2);
    assert_eq!(book.due(), Some(second(40)));
    assert!(book.expire(second(39)).is_empty());
    let believed = book.expire(second(40)).remove(0).1;
    assert_eq!(believed.steps.len(), 2, "{believed:?}");
    assert_eq!(names(&book), ["shop/0"]);
    // Streams may be shorter than doubts last.
    let mut book = Book::new(1, Limits::default());
    book.take(0, whole("9", vec![entry(&a, 7, true)]), second(0));
    for now in [10, 20, 30] {
        book.open();
        assert!(book.take(0, restored.clone(), second(now)).is_doubted);
    }
    book.open();
    assert!(!book.take(0, restored, second(40)).is_doubted);
}

#[test]
fn what_goes_beyond_a_limit_is_refused_and_nothing_is_lost() {
    let limits = Limits {
        resources: 2,
        bytes: 25,
        ..Limits::default()
    };
    let mut book = Book::new(2, limits);
    let some =
        |n: u64| -> Vec<Entry> { (0..n).map(|i| entry(&name(i as usize), 1, true)).collect() };
    assert_eq!(
        book.take(0, whole("1", some(2)), Duration::ZERO).refused,
        None
    );
    let many = book.take(0, whole("2", some(3)), Duration::ZERO);
    assert!(many.refused.is_some_and(|why| why.contains("at most 2")));
    let large = book.take(1, whole("1", some(1)), Duration::ZERO);
    assert!(large.refused.is_some_and(|why| why.contains("at most 25")));
    let part = Said {
        is_whole: false,
        ..whole("3", vec![entry(&name(5), 2, true)])
    };
    assert!(book.take(0, part, Duration::ZERO).refused.is_some());
    assert_eq!(names(&book), ["shop/0", "shop/1"]);
}

#[test]
fn a_resource_without_a_name_keeps_all_that_the_list_does_not_have() {
    let mut book = Book::new(1, Limits::default());
    book.take(
        0,
        whole("1", vec![entry(&name(0), 1, true)]),
        Duration::ZERO,
    );
    let garbage = Said {
        nameless: 1,
        ..whole("2", Vec::new())
    };
    assert!(book.take(0, garbage, Duration::ZERO).steps.is_empty());
    let empty = book.take(0, whole("3", Vec::new()), Duration::ZERO);
    assert_eq!(empty.steps, [Step::Delete(name(0))]);
}
