//! What becomes of reports, the same for all registries: which services there are, and how long what a registry is silent
//! about stays. A pure state machine: the time is passed in, and nothing is sent from here.
//!
//! A service stays as it was while its registry does not answer, and while the registry lists no instance of it that could
//! get a request, each for a stated time. So neither a registry that restarts, nor one that has lost its data, takes
//! endpoints away that still work.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use model::kinds::AnyObject;
use model::outside::Outside;
use model::{Kind, ObjectKey};

use crate::limits::Limits;
use crate::report::{Instance, Report, ServiceName};
use crate::service::{Made, Making};

/// How long something that may be over stays as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// Until something else is said.
    Forever,
    /// So long; zero is not at all.
    For(Duration),
}

impl Keep {
    pub(crate) fn end(self, since: Duration) -> Option<Duration> {
        match self {
            Self::Forever => None,
            Self::For(time) => Some(since.saturating_add(time)),
        }
    }
}

/// How long services stay as they were.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Of which the registry lists no instance that could get a request, or that it does not list any more.
    pub empty: Keep,
    /// Of a registry that does not answer.
    pub outage: Keep,
}

/// What is to be told.
#[derive(Clone, Debug)]
pub enum Told {
    /// There is this object, new or changed.
    Put(AnyObject),
    /// It is gone.
    Delete(ObjectKey),
    /// All that the registry has was told, for the first time.
    Whole,
}

/// Figures of a keeper.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// Services that there are.
    pub services: usize,
    /// Their instances that get requests.
    pub instances: usize,
    /// Services that are kept although the registry lists no instance of them.
    pub kept: usize,
    /// Services that are left out, for their names or because there are too many.
    pub left_out: usize,
    /// Bytes of the services, about.
    pub bytes: usize,
}

/// Why a service is kept as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    /// The registry lists no instance of it that could get a request.
    Empty,
    /// The registry does not list it.
    Vanished,
}

/// A service.
struct Held {
    made: Made,
    bytes: usize,
    /// When it was reported last.
    reported: Duration,
    kept: Option<(Why, Duration)>,
}

/// The services of one registry.
pub struct Keeper {
    making: Making,
    patience: Patience,
    limits: Limits,
    services: BTreeMap<ServiceName, Held>,
    /// Services that are kept, by when they are so no longer.
    ends: BTreeSet<(Duration, ServiceName)>,
    left_out: BTreeSet<ServiceName>,
    bytes: usize,
    instances: usize,
    /// Since when the registry does not answer, until that has taken effect.
    lost: Option<Duration>,
    was_whole: bool,
}

impl Keeper {
    /// A keeper that knows nothing yet.
    pub fn new(making: Making, patience: Patience, limits: Limits) -> Self {
        Self {
            making,
            patience,
            limits,
            services: BTreeMap::new(),
            ends: BTreeSet::new(),
            left_out: BTreeSet::new(),
            bytes: 0,
            instances: 0,
            lost: None,
            was_whole: false,
        }
    }

    /// Takes a report in.
    pub fn take(&mut self, report: Outside<Report>, now: Duration, told: &mut Vec<Told>) {
        match report.into_inner() {
            Report::Service(name, instances) => self.service(name, &instances, now, told),
            Report::Whole(names) => self.whole(&names, now, told),
            Report::Lost(_) => _ = self.lost.get_or_insert(now),
        }
    }

    /// When [`Keeper::expire`] has something to do.
    pub fn due(&self) -> Option<Duration> {
        let outage = self.lost.and_then(|since| self.patience.outage.end(since));
        let first = self.ends.first().map(|(end, _)| *end);
        outage.into_iter().chain(first).min()
    }

    /// Lets go of what was kept long enough.
    pub fn expire(&mut self, now: Duration, told: &mut Vec<Told>) {
        while let Some((end, name)) = self.ends.first().cloned()
            && end <= now
        {
            self.ends.remove(&(end, name.clone()));
            self.let_go(&name, told);
        }
        let outage = self.lost.and_then(|since| self.patience.outage.end(since));
        if outage.is_some_and(|end| end <= now)
            && let Some(since) = self.lost.take()
        {
            let old = self
                .services
                .iter()
                .filter(|(_, held)| held.reported <= since);
            for name in old.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
                self.empty(&name, told);
            }
        }
    }

    /// Figures.
    pub fn figures(&self) -> Figures {
        Figures {
            services: self.services.len(),
            instances: self.instances,
            kept: self.services.values().filter(|h| h.kept.is_some()).count(),
            left_out: self.left_out.len(),
            bytes: self.bytes,
        }
    }

    /// Whether everything has been reported once.
    pub fn was_whole(&self) -> bool {
        self.was_whole
    }

    fn service(
        &mut self,
        name: ServiceName,
        instances: &[Instance],
        now: Duration,
        told: &mut Vec<Told>,
    ) {
        let made = match self.is_name(&name) {
            true => self.making.make(&name, instances, &self.limits),
            false => {
                self.leave_out(name);
                return;
            }
        };
        let has_any = made
            .as_ref()
            .is_some_and(|m| !m.entry.spec.endpoints.is_empty());
        if let Some(held) = self.services.get_mut(&name) {
            held.reported = now;
            if !has_any && !held.made.entry.spec.endpoints.is_empty() {
                self.keep(&name, Why::Empty, now, told);
                return;
            }
            self.end_keeping(&name);
        }
        // Without any instance it is not known what the service is; what was known stays.
        if let Some(made) = made {
            self.put(name, made, now, told);
        }
    }

    fn whole(&mut self, names: &BTreeSet<ServiceName>, now: Duration, told: &mut Vec<Told>) {
        self.lost = None;
        self.left_out.retain(|name| names.contains(name));
        let missing = self.services.keys().filter(|name| !names.contains(*name));
        for name in missing.cloned().collect::<Vec<_>>() {
            self.keep(&name, Why::Vanished, now, told);
        }
        if !self.was_whole {
            self.was_whole = true;
            told.push(Told::Whole);
        }
    }

    /// Keeps a service as it was, for its time.
    fn keep(&mut self, name: &ServiceName, why: Why, now: Duration, told: &mut Vec<Told>) {
        let Some(held) = self.services.get_mut(name) else {
            return;
        };
        // It has been long in coming, whichever of both it is by now.
        let since = held.kept.map_or(now, |(_, since)| since);
        held.kept = Some((why, since));
        let has_any = !held.made.entry.spec.endpoints.is_empty();
        let end = self.patience.empty.end(since);
        match end {
            Some(end) if has_any && end > now => _ = self.ends.insert((end, name.clone())),
            None if has_any => {}
            _ => {
                self.end_keeping_of(name, since);
                self.let_go(name, told);
            }
        }
    }

    fn end_keeping(&mut self, name: &ServiceName) {
        if let Some(held) = self.services.get_mut(name)
            && let Some((_, since)) = held.kept.take()
        {
            self.end_keeping_of(name, since);
        }
    }

    fn end_keeping_of(&mut self, name: &ServiceName, since: Duration) {
        if let Some(end) = self.patience.empty.end(since) {
            self.ends.remove(&(end, name.clone()));
        }
    }

    /// A service that was kept long enough: it has no instances, or is gone.
    fn let_go(&mut self, name: &ServiceName, told: &mut Vec<Told>) {
        let kept = self
            .services
            .get_mut(name)
            .and_then(|held| held.kept.take());
        match kept {
            Some((Why::Vanished, _)) => self.delete(name, told),
            Some((Why::Empty, _)) => self.empty(name, told),
            None => {}
        }
    }

    fn put(&mut self, name: ServiceName, made: Made, now: Duration, told: &mut Vec<Told>) {
        let bytes = size(&made);
        let before = self.services.get(&name);
        let (is_new, freed) = (before.is_none(), before.map_or(0, |held| held.bytes));
        let is_over = self.bytes - freed + bytes > self.limits.bytes;
        if is_over || is_new && self.services.len() >= self.limits.services {
            self.leave_out(name);
            return;
        }
        self.left_out.remove(&name);
        if before.is_some_and(|held| held.made.means_the_same(&made)) {
            return;
        }
        told.push(Told::Put(AnyObject::ServiceEntry(made.entry.clone())));
        let rule_before = before.and_then(|held| held.made.rule.clone());
        match (&made.rule, rule_before) {
            (Some(rule), Some(before)) if rule.means_the_same(&before) => {}
            (Some(rule), _) => told.push(Told::Put(AnyObject::DestinationRule(rule.clone()))),
            (None, Some(_)) => told.push(Told::Delete(Making::key(&name, Kind::DestinationRule))),
            (None, None) => {}
        }
        let removed = before.map_or(0, |held| held.made.entry.spec.endpoints.len());
        self.instances = self.instances - removed + made.entry.spec.endpoints.len();
        self.bytes = self.bytes - freed + bytes;
        let held = Held {
            made,
            bytes,
            reported: now,
            kept: None,
        };
        self.services.insert(name, held);
    }

    fn empty(&mut self, name: &ServiceName, told: &mut Vec<Told>) {
        let Some(held) = self.services.get(name) else {
            return;
        };
        if !held.made.entry.spec.endpoints.is_empty() {
            let (made, reported) = (held.made.emptied(), held.reported);
            self.end_keeping(name);
            self.put(name.clone(), made, reported, told);
        }
    }

    fn delete(&mut self, name: &ServiceName, told: &mut Vec<Told>) {
        let Some(held) = self.services.remove(name) else {
            return;
        };
        self.bytes -= held.bytes;
        self.instances -= held.made.entry.spec.endpoints.len();
        told.push(Told::Delete(Making::key(name, Kind::ServiceEntry)));
        if held.made.rule.is_some() {
            told.push(Told::Delete(Making::key(name, Kind::DestinationRule)));
        }
    }

    fn leave_out(&mut self, name: ServiceName) {
        // Their names cost memory, too.
        if self.left_out.len() < self.limits.services && name.len() <= self.limits.host_bytes {
            self.left_out.insert(name);
        }
    }

    /// Whether a host can be told apart in names of clusters, hosts and namespaces.
    fn is_name(&self, name: &str) -> bool {
        let is_word = |c: char| !c.is_whitespace() && !c.is_control() && !"*/|,;".contains(c);
        !name.is_empty() && name.len() <= self.limits.host_bytes && name.chars().all(is_word)
    }
}

/// About what a service takes at most, as if no endpoints shared labels.
fn size(made: &Made) -> usize {
    /// A list, its maps and their allocations.
    const ENDPOINT: usize = 512;
    /// A pair of texts in a map.
    const PAIR: usize = 64;
    let pairs = |labels: &BTreeMap<String, String>| -> usize {
        let pairs = labels.iter().map(|(k, v)| k.len() + v.len() + PAIR);
        pairs.sum()
    };
    let endpoints = made.entry.spec.endpoints.iter();
    let endpoints = endpoints.map(|e| e.address.len() + pairs(&e.labels) + ENDPOINT);
    1024 + made.entry.meta.name.name.len() + endpoints.sum::<usize>()
}

#[cfg(test)]
mod tests;
