//! One entry: what is known of it, and what is to be done next. Decided anew from what is known each time, so that it does
//! not matter in which order things happened, or which of them was missed.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use writeback::Part;

use crate::claim::{Claim, Wish};
use crate::object::{self, Report, Seen};
use crate::refusal::Refusal;
use crate::wall::Wall;
use crate::{ConnectionId, Now, Options, View};

/// How long a workload that is gone may take to come back before that it is gone is written.
pub(crate) const SETTLES: Duration = Duration::from_secs(1);

/// Writes of one entry that follow each other within this time are spread out.
const CALM: Duration = Duration::from_secs(10);
const FIRST_PACE: Duration = Duration::from_millis(100);
const SLOWEST_PACE: Duration = Duration::from_secs(5);

/// How long until what failed is tried again.
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// How long until what the API refused is tried again.
const REFUSED_RETRY: Duration = Duration::from_secs(60);

/// The object, as far as is known.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Known {
    /// It has to be looked at.
    Unknown,
    /// There is none.
    Absent,
    /// As it was read or written last.
    Object(Value),
}

/// What a write is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// To know what is there.
    Look,
    /// A workload came.
    Register,
    /// A workload came, and has an entry.
    Connect,
    /// A workload is gone.
    Disconnect,
    /// A workload did not come back.
    CleanUp,
    /// Its health was reported.
    Health,
    /// Nobody reports its health any more.
    Unhealth,
}

/// Something to ask of the place.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// Read the object.
    Read,
    /// Make it.
    Create(Value),
    /// Replace a part of it.
    Replace(Part, Value),
    /// Delete it, in this version.
    Delete(Option<String>),
}

/// What is to be done about an entry.
#[derive(PartialEq, Debug)]
pub(crate) enum Next {
    Write(Purpose, Op),
    /// Nothing before that time.
    Wait(Duration),
    /// Nothing until something happens.
    Rest,
    /// What was claimed cannot be had.
    Refuse(Refusal),
    /// The entry is of no concern any more.
    Forget,
}

/// The connection of a workload whose replica is gone, as its entry tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Orphaned {
    pub(crate) controller: Option<Arc<str>>,
    pub(crate) connected: Option<Wall>,
    pub(crate) disconnected: Option<Wall>,
}

impl Orphaned {
    pub(crate) fn of(seen: &Seen) -> Self {
        Self {
            controller: seen.controller.clone(),
            connected: seen.connected,
            disconnected: seen.disconnected,
        }
    }
}

/// Why an entry is looked after.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Cause {
    /// A workload is or was connected here.
    Claimed(Arc<Claim>),
    /// Its replica is gone.
    Orphaned(Orphaned),
}

/// One entry.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) cause: Cause,
    pub(crate) connections: BTreeSet<ConnectionId>,
    /// Those whose streams wait to be served.
    pub(crate) waiting: BTreeSet<ConnectionId>,
    /// When the newest connection came.
    connected: Wall,
    /// When the last connection left.
    gone: Option<(Duration, Wall)>,
    object: Known,
    /// Whether there was an object since the newest connection came: one that is deleted meanwhile stays so.
    had: bool,
    /// What was reported last.
    report: Option<Report>,
    pub(crate) writing: bool,
    /// Whether something was seen of it while it was written.
    pub(crate) missed: bool,
    /// Why the claim was refused last.
    refusal: Option<Refusal>,
    failures: u32,
    not_before: Duration,
    pace: Duration,
    wrote: Option<Duration>,
    /// When it is to be looked at again.
    pub(crate) due: Option<Duration>,
}

impl Entry {
    pub(crate) fn new(cause: Cause, object: Known) -> Self {
        Self {
            cause,
            connections: BTreeSet::new(),
            waiting: BTreeSet::new(),
            connected: Wall::default(),
            gone: None,
            object,
            had: false,
            report: None,
            writing: false,
            missed: false,
            refusal: None,
            failures: 0,
            not_before: Duration::ZERO,
            pace: Duration::ZERO,
            wrote: None,
            due: None,
        }
    }

    pub(crate) fn connect(&mut self, id: ConnectionId, claim: Arc<Claim>, now: Now) {
        if matches!(self.cause, Cause::Orphaned(_)) {
            self.object = Known::Unknown;
        }
        self.cause = Cause::Claimed(claim);
        self.connections.insert(id);
        self.connected = now.wall.max(self.connected.next());
        self.gone = None;
        self.had = false;
    }

    /// The network of the workload that it was claimed for.
    pub(crate) fn peer(&self) -> Option<IpAddr> {
        match &self.cause {
            Cause::Claimed(claim) => Some(claim.peer),
            Cause::Orphaned(_) => None,
        }
    }

    /// Whether it is made of a group, and not written by somebody; of one whose replica is gone, as far as that matters.
    pub(crate) fn is_registered(&self) -> bool {
        match &self.cause {
            Cause::Claimed(claim) => claim.group().is_some(),
            Cause::Orphaned(_) => true,
        }
    }

    /// Notes why the claim is refused; whether that was known.
    pub(crate) fn refuse(&mut self, refusal: &Refusal) -> bool {
        let before = self.refusal.replace(refusal.clone());
        before.as_ref() == Some(refusal)
    }

    /// Why the API refused it, while that is not asked again.
    pub(crate) fn stands_refused(&self, now: Now) -> Option<&Refusal> {
        let refusal = self.refusal.as_ref()?;
        let stands = matches!(refusal, Refusal::Write(_)) && now.since < self.not_before;
        stands.then_some(refusal)
    }

    /// Whether anybody is left.
    pub(crate) fn disconnect(&mut self, id: ConnectionId, now: Now) -> bool {
        self.waiting.remove(&id);
        let was = self.connections.remove(&id);
        if was && self.connections.is_empty() {
            self.gone = Some((now.since, now.wall.max(self.connected.next())));
            self.report = None;
        }
        !self.connections.is_empty()
    }

    pub(crate) fn report(&mut self, report: Report) {
        self.report = Some(report);
    }

    /// The group of the entry came, or came anew.
    pub(crate) fn group_came(&mut self) {
        self.had = false;
        self.not_before = Duration::ZERO;
    }

    /// Somebody else wrote or deleted the object, as it seems.
    pub(crate) fn seen(&mut self, seen: Option<&Seen>) {
        let same = match (&self.object, seen) {
            (Known::Unknown, _) | (Known::Absent, None) => true,
            (Known::Object(object), Some(seen)) => Seen::of_json(object).same_connection(seen),
            (Known::Absent, Some(_)) | (Known::Object(_), None) => false,
        };
        if !same {
            self.object = Known::Unknown;
        }
    }

    /// What a write came to.
    pub(crate) fn wrote(&mut self, purpose: Purpose, object: Known, now: Now) {
        self.writing = false;
        self.failures = 0;
        if purpose != Purpose::Look {
            self.refusal = None;
        }
        self.had |= matches!(object, Known::Object(_));
        self.object = object;
        if purpose == Purpose::Look {
            return;
        }
        let calm = self.wrote.is_none_or(|at| now.since - at >= CALM);
        self.pace = match calm {
            true => Duration::ZERO,
            false => (self.pace * 2).clamp(FIRST_PACE, SLOWEST_PACE),
        };
        self.wrote = Some(now.since);
        self.not_before = now.since + self.pace;
    }

    /// What is there is not what was thought.
    pub(crate) fn mistaken(&mut self, now: Now) {
        self.writing = false;
        self.object = Known::Unknown;
        // The first time at once; somebody who writes all the time is not raced.
        if self.failures > 0 {
            self.not_before = now.since + self.backoff();
        }
        self.failures += 1;
    }

    /// The API was not there. What was asked may have been done.
    pub(crate) fn failed(&mut self, now: Now) {
        self.writing = false;
        self.object = Known::Unknown;
        self.not_before = now.since + self.backoff();
        self.failures += 1;
    }

    /// The API says no.
    pub(crate) fn refused(&mut self, now: Now) {
        self.writing = false;
        self.object = Known::Unknown;
        self.not_before = now.since + REFUSED_RETRY;
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    fn backoff(&self) -> Duration {
        let doubled = FIRST_RETRY * 2_u32.pow(self.failures.min(10));
        let limited = doubled.min(LONGEST_RETRY);
        // Entries that failed together are not tried again together.
        let spread = (self.connected.0 % 256) as u32;
        limited + limited / 512 * spread
    }

    /// What is to be done.
    pub(crate) fn next(&self, view: &dyn View, options: &Options, now: Now) -> Next {
        if self.writing {
            return Next::Rest;
        }
        if now.since < self.not_before {
            return Next::Wait(self.not_before);
        }
        match &self.cause {
            Cause::Orphaned(as_it_was) => self.orphaned(as_it_was),
            Cause::Claimed(claim) => match self.gone {
                None => self.connected(claim, view, options),
                Some((since, at)) => self.gone(claim, since, at, options, now),
            },
        }
    }

    fn connected(&self, claim: &Claim, view: &dyn View, options: &Options) -> Next {
        let checked = options.validate_identity;
        let object = match &self.object {
            Known::Unknown => return Next::Write(Purpose::Look, Op::Read),
            Known::Absent if self.had || !view.is_complete() => return Next::Rest,
            Known::Absent => {
                let Some(name) = claim.group() else {
                    return Next::Refuse(Refusal::UnknownEntry);
                };
                let Some(group) = view.group(&name) else {
                    return Next::Rest;
                };
                if let Err(refusal) = claim.may_join(&group.object, checked) {
                    return Next::Refuse(refusal);
                }
                let made = object::made_of(&group, claim, &options.instance, self.connected);
                return Next::Write(Purpose::Register, Op::Create(made));
            }
            Known::Object(object) => object,
        };
        let seen = Seen::of_json(object);
        if let Some(why) = seen.is_taken(claim) {
            return Next::Refuse(Refusal::Taken(claim.entry.to_string().into(), why));
        }
        if claim.wish == Wish::LookAfter && !seen.probed {
            return Next::Rest;
        }
        if let Err(refusal) = claim.may_have(&seen.service_account, checked) {
            return Next::Refuse(refusal);
        }
        let ours = seen.controller.as_deref() == Some(&*options.instance);
        let is_connected = seen.connected.is_some() && seen.disconnected.is_none();
        if !(ours && is_connected) {
            // It has come to another replica since it came here.
            if is_connected && seen.connected > Some(self.connected) {
                return Next::Rest;
            }
            let last = seen.connected.max(seen.disconnected).unwrap_or_default();
            let at = self.connected.max(last.next());
            let object = object::connected(object, &options.instance, at);
            return Next::Write(Purpose::Connect, Op::Replace(Part::Object, object));
        }
        match &self.report {
            Some(report) if options.health && !report.is_told_by(&seen) => {
                let object = object::with_health(object, Some(report));
                Next::Write(Purpose::Health, Op::Replace(Part::Status, object))
            }
            _ => Next::Rest,
        }
    }

    fn gone(&self, claim: &Claim, since: Duration, at: Wall, options: &Options, now: Now) -> Next {
        let settled = since + SETTLES.min(options.grace / 2);
        let object = match &self.object {
            Known::Absent => return Next::Forget,
            _ if now.since < settled => return Next::Wait(settled),
            Known::Unknown => return Next::Write(Purpose::Look, Op::Read),
            Known::Object(object) => object,
        };
        let seen = Seen::of_json(object);
        let ours = seen.controller.as_deref() == Some(&*options.instance);
        if !ours || seen.is_taken(claim).is_some() || seen.connected > Some(at) {
            return Next::Forget;
        }
        if seen.disconnected.is_none() {
            let object = object::disconnected(object, at);
            return Next::Write(Purpose::Disconnect, Op::Replace(Part::Object, object));
        }
        let until = since + options.grace;
        if now.since < until {
            return Next::Wait(until);
        }
        clean_up(object, &seen)
    }

    fn orphaned(&self, as_it_was: &Orphaned) -> Next {
        let object = match &self.object {
            Known::Absent => return Next::Forget,
            Known::Unknown => return Next::Write(Purpose::Look, Op::Read),
            Known::Object(object) => object,
        };
        let seen = Seen::of_json(object);
        if Orphaned::of(&seen) != *as_it_was {
            return Next::Forget;
        }
        clean_up(object, &seen)
    }
}

/// An entry that was registered goes; one that was written stays, and nobody knows how its workload is.
fn clean_up(object: &Value, seen: &Seen) -> Next {
    if seen.group.is_some() {
        let version = object::version(object).map(str::to_owned);
        return Next::Write(Purpose::CleanUp, Op::Delete(version));
    }
    match seen.health {
        Some(_) => {
            let object = object::with_health(object, None);
            Next::Write(Purpose::Unhealth, Op::Replace(Part::Status, object))
        }
        None => Next::Forget,
    }
}
