//! The objects of one kind, from the first list on.

mod failure;

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kube::core::ApiResource;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use model::{Contents, Diagnostic, Kind, ObjectKey, Owner, Severity};
use source_api::backoff::Backoff;
use source_api::{Closed, Sink, SourceError, SourceEvent};

use super::definitions::{Definitions, Reader, Served, Watch};
use super::findings::{Back, Findings};
use super::part::{News, Part, Read, Reading};
use super::share::Share;
use super::{Options, Pace, resources, select};
use crate::item::Item;
use failure::{Meaning, chain, status};

/// How long a kind is left alone that is not served although it is defined: it will be in a moment.
const SOON: Backoff = Backoff {
    first: Duration::from_millis(50),
    longest: Duration::from_secs(5),
};

/// How often kinds are looked for that no definition tells of.
const LOOK: Duration = Duration::from_secs(10);

/// How long definitions are waited for.
const DEFINITIONS: Duration = Duration::from_secs(2);

/// So often a kind must be refused before it is taken for one without objects: an API server that is starting refuses
/// much for a moment.
const REFUSALS: u32 = 3;

/// The same for a kind that is defined.
const REFUSALS_OF_DEFINED: u32 = 8;

/// Codes of what is wrong with a cluster.
pub mod code {
    /// A kind whose objects cannot be read.
    pub const UNREAD: &str = "PIL0030";
    /// A cluster whose API does not answer.
    pub const UNREACHABLE: &str = "PIL0031";
    /// Kinds of which a cluster has no definition.
    pub const ABSENT: &str = "PIL0032";
}

/// What the watches of a cluster have in common.
pub(super) struct Shared {
    pub(super) owner: Owner,
    pub(super) client: Client,
    pub(super) options: Options,
    pub(super) sink: Sink,
    pub(super) findings: Findings,
    pub(super) definitions: Definitions,
}

/// A kind that is listed and watched, in one namespace or all.
pub(super) struct Followed {
    reading: Reading,
    namespace: Option<Arc<str>>,
    share: Option<Share>,
    pace: Pace,
    back: Back,
    client: Client,
    sink: Sink,
    findings: Findings,
    definitions: Definitions,
    /// The definitions that are told, where this follows them.
    defined: Reader,
    /// What is wrong with objects.
    found: BTreeMap<ObjectKey, Vec<Diagnostic>>,
    /// Whether all objects have been told once, in this run or before.
    synced: bool,
    /// Whether it was told that there are none, because the kind is not served or may not be read.
    absent: bool,
    /// Failures since the API last answered as it should.
    failures: u32,
}

/// How a list is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Way {
    streamed: bool,
    fields: Option<&'static str>,
}

impl Followed {
    pub(super) fn new(
        kind: Kind,
        namespace: Option<Arc<str>>,
        share: Option<Share>,
        shared: &Shared,
    ) -> Self {
        let options = &shared.options;
        Self {
            reading: Reading {
                kind,
                version: kind.versions()[0],
                owner: shared.owner.clone(),
                validation: options.validation,
                revision: options.revision.clone(),
            },
            namespace,
            share,
            pace: options.pace,
            back: shared.findings.back(),
            client: shared.client.clone(),
            sink: shared.sink.clone(),
            findings: shared.findings.clone(),
            definitions: shared.definitions.clone(),
            defined: Reader::default(),
            found: BTreeMap::new(),
            synced: !options.first,
            absent: false,
            failures: 0,
        }
    }

    fn kind(&self) -> Kind {
        self.reading.kind
    }

    /// Tells what there is and what changes, in whichever version is served.
    pub(super) async fn run(mut self) -> Result<(), SourceError> {
        let mut definitions = self.definitions.watch(self.kind());
        let mut now = definitions.served();
        loop {
            let before = now;
            now = definitions.served();
            if matches!(now, Served::In(_)) && before != now {
                self.failures = 0;
            }
            let was_defined = matches!(before, Served::In(_));
            let versions = match &now {
                // Its objects are gone with it.
                Served::Undefined if was_defined => Vec::new(),
                Served::In(versions) => versions.clone(),
                _ => self.kind().versions().to_vec(),
            };
            if versions.is_empty() {
                self.tell_nothing().await?;
                definitions.differs(&now).await;
                continue;
            }
            let followed = self.follow_any(&versions, &mut definitions, &mut now);
            if followed.await? {
                // No version is served.
                self.failures += 1;
                self.refused(&mut definitions, &now).await?;
            }
        }
    }

    /// Follows the first version that is served. Returns once none is, with true, or definitions say something else.
    async fn follow_any(
        &mut self,
        versions: &[&'static str],
        definitions: &mut Watch,
        now: &mut Served,
    ) -> Result<bool, Closed> {
        for version in versions {
            self.reading.version = version;
            tokio::select! {
                followed = self.follow() => followed?,
                () = unserved(definitions, version, now) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Waits after no version was served, and tells that there are no objects where that is sure.
    async fn refused(&mut self, definitions: &mut Watch, now: &Served) -> Result<(), Closed> {
        if self.kind() == Kind::CustomResourceDefinition {
            self.definitions.unreadable();
        }
        let refusals = self.failures;
        let (is_sure, wait) = match now {
            // An API server that is starting serves some kinds late.
            _ if resources::is_built_in(self.kind()) => (refusals >= REFUSALS, None),
            Served::In(_) => {
                let wait = SOON.wait(&self.kind(), refusals - 1);
                (refusals >= REFUSALS_OF_DEFINED, Some(wait))
            }
            Served::Undefined => (true, Some(LOOK)),
            Served::Pending => (refusals >= REFUSALS, Some(DEFINITIONS)),
            Served::Unreadable => (refusals >= REFUSALS, Some(LOOK)),
        };
        if is_sure && (!self.synced || self.is_gone().await) {
            self.tell_nothing().await?;
        }
        let backoff = self.pace.backoff.wait(&self.kind(), refusals - 1);
        let wait = wait.map_or(backoff, |wait| match is_sure {
            true => wait,
            false => wait.min(backoff),
        });
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = definitions.differs(now) => {}
        }
        Ok(())
    }

    /// Whether the API says itself that it does not serve a kind any more. A single answer may come from a proxy in front of
    /// it, and objects must not go because of that.
    async fn is_gone(&self) -> bool {
        let kind = self.kind();
        if kind.group().is_empty() {
            return false;
        }
        let Ok(all) = self.client.list_api_groups().await else {
            return false;
        };
        let Some(group) = all.groups.iter().find(|g| g.name == kind.group()) else {
            return !all.groups.is_empty();
        };
        let read = |version: &&str| kind.versions().contains(version);
        for version in group.versions.iter().map(|v| &*v.version).filter(read) {
            let version = format!("{}/{version}", kind.group());
            match self.client.list_api_group_resources(&version).await {
                Ok(listed) if listed.resources.iter().all(|r| r.name != kind.plural()) => {}
                _ => return false,
            }
        }
        true
    }

    /// Tells what there is in a version until that is not served.
    async fn follow(&mut self) -> Result<(), Closed> {
        let mut way = Way::of(self.kind());
        loop {
            match self.watch(way).await? {
                Meaning::NotServed => return Ok(()),
                Meaning::Ask(plainer) => way = plainer,
                _ => self.wait().await,
            }
        }
    }

    /// Tells what there is, asked for in one way, until there is no use in going on with that.
    async fn watch(&mut self, way: Way) -> Result<Meaning, Closed> {
        let mut events = pin!(watcher(self.api(), way.config()));
        let mut listing = true;
        loop {
            let mut part = match listing && way.streamed {
                true => {
                    let next =
                        tokio::time::timeout(self.pace.stream_patience, Part::next(&mut events));
                    match next.await {
                        Ok(part) => part,
                        Err(_) => return Ok(way.plainer().map_or(Meaning::Trouble, Meaning::Ask)),
                    }
                }
                false => Part::next(&mut events).await,
            };
            let failure = part.failure.take();
            if !part.is_empty() {
                listing = self.tell(part, listing).await?;
            }
            let Some(failure) = failure else { continue };
            let meaning = Meaning::of(&failure, way, listing);
            match meaning {
                Meaning::NotServed | Meaning::Ask(_) => return Ok(meaning),
                Meaning::Gone => {
                    self.failures += 1;
                    return Ok(meaning);
                }
                Meaning::Forbidden | Meaning::Trouble => {
                    self.failures += 1;
                    self.tell_trouble(&failure).await?;
                    if meaning == Meaning::Forbidden && self.failures >= REFUSALS {
                        self.tell_forbidden().await?;
                    }
                    self.wait().await;
                }
            }
        }
    }

    fn api(&self) -> Api<Item> {
        let Reading { kind, version, .. } = self.reading;
        let resource = ApiResource {
            group: kind.group().to_owned(),
            version: version.to_owned(),
            api_version: self.reading.api_version(),
            kind: kind.name().to_owned(),
            plural: kind.plural().to_owned(),
        };
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// Tells what came. Says whether a list is under way after it.
    async fn tell(&mut self, part: Part, mut listing: bool) -> Result<bool, Closed> {
        let noticed = part.noticed();
        let Read {
            mut changes,
            news,
            definitions,
            took,
        } = part.read(&self.reading).await;
        let mut differ = false;
        for news in news {
            match news {
                News::Restarted => {
                    listing = true;
                    self.found.clear();
                }
                News::Object(key, found) => {
                    let known = match found.is_empty() {
                        true => self.found.remove(&key),
                        false => self.found.insert(key.clone(), found),
                    };
                    differ |= known.as_ref() != self.found.get(&key);
                }
                News::Synced => (listing, differ) = (false, true),
            }
        }
        if let Some(share) = &mut self.share {
            changes = share.of_changes(changes);
        }
        let told = SourceEvent::Read {
            changes,
            noticed,
            took,
        };
        self.sink.send(told).await?;
        if self.kind() == Kind::CustomResourceDefinition {
            for change in definitions {
                self.defined.take(change);
            }
            if !listing {
                self.definitions.publish(&self.defined);
            }
        }
        if !listing {
            self.synced = true;
            if std::mem::take(&mut self.absent) {
                self.findings.set_absent(self.kind(), false).await?;
            }
            differ |= std::mem::take(&mut self.failures) > 0;
            self.findings.set_unreachable(None).await?;
            if differ {
                self.tell_findings(None).await?;
            }
        }
        Ok(listing)
    }

    /// Tells that there are no objects.
    async fn tell_nothing(&mut self) -> Result<(), Closed> {
        if std::mem::replace(&mut self.absent, true) {
            return Ok(());
        }
        self.synced = true;
        self.found.clear();
        let mut nothing = vec![self.reading.restart(), self.reading.synced()];
        if let Some(share) = &mut self.share {
            nothing = share.of_changes(nothing);
        }
        self.sink.send(SourceEvent::Changes(nothing)).await?;
        if !resources::is_built_in(self.kind()) {
            self.findings.set_absent(self.kind(), true).await?;
        }
        self.tell_findings(None).await
    }

    /// What may not be read holds up nothing. What was read before it was forbidden stays in force.
    async fn tell_forbidden(&mut self) -> Result<(), Closed> {
        if self.kind() == Kind::CustomResourceDefinition {
            self.definitions.unreadable();
        }
        // Nobody who may not even read services is meant to serve a mesh: the role is yet to come.
        if self.synced || self.kind() == Kind::Service {
            return Ok(());
        }
        (self.synced, self.absent) = (true, true);
        let mut nothing = vec![self.reading.synced()];
        if let Some(share) = &mut self.share {
            nothing = share.of_changes(nothing);
        }
        self.sink.send(SourceEvent::Changes(nothing)).await
    }

    async fn tell_findings(&self, trouble: Option<Diagnostic>) -> Result<(), Closed> {
        let of_objects = self.found.values().flatten().cloned();
        let all = trouble.into_iter().chain(of_objects).collect();
        self.findings
            .set(self.kind(), self.namespace.clone(), all)
            .await
    }

    async fn tell_trouble(&self, failure: &watcher::Error) -> Result<(), Closed> {
        match status(failure) {
            None => {
                let message = format!("the Kubernetes API does not answer: {}", chain(failure));
                let trouble = Diagnostic::new(code::UNREACHABLE, Severity::Error, message);
                self.findings.set_unreachable(Some(trouble)).await
            }
            Some(status) => {
                let of = Contents::Objects(self.kind());
                let place = match &self.namespace {
                    Some(namespace) => format!(" in namespace {namespace}"),
                    None => String::new(),
                };
                let message = format!("{of}{place} cannot be read: {}", status.message);
                let trouble = Diagnostic::new(code::UNREAD, Severity::Warning, message);
                self.tell_findings(Some(trouble)).await
            }
        }
    }

    async fn wait(&mut self) {
        let backoff = self.pace.backoff;
        let wait = backoff.wait(&self.kind(), self.failures.saturating_sub(1));
        let shortest = wait.min(backoff.first);
        tokio::time::sleep(shortest).await;
        // What the API has answered for another kind, it may answer for this one.
        tokio::select! {
            () = tokio::time::sleep(wait - shortest) => {}
            () = self.back.wait() => {}
        }
    }
}

/// Waits until definitions say that a version is not served, though they said so, or nothing, before. `now` is what they say.
async fn unserved(definitions: &mut Watch, version: &str, now: &mut Served) {
    loop {
        definitions.differs(now).await;
        let next = definitions.served();
        match &next {
            Served::In(versions) if !versions.contains(&version) => return,
            Served::Undefined if matches!(now, Served::In(_)) => return,
            _ => *now = next,
        }
    }
}

impl Way {
    /// The way that costs both sides least.
    fn of(kind: Kind) -> Self {
        Self {
            streamed: true,
            fields: select::fields(kind),
        }
    }

    /// A way that more API servers know, if there is one.
    fn plainer(self) -> Option<Self> {
        match (self.streamed, self.fields) {
            (true, _) => Some(Self {
                streamed: false,
                ..self
            }),
            (false, Some(_)) => Some(Self {
                fields: None,
                ..self
            }),
            (false, None) => None,
        }
    }

    fn config(self) -> watcher::Config {
        let config = watcher::Config::default();
        let config = match self.streamed {
            true => config.streaming_lists(),
            false => config,
        };
        match self.fields {
            Some(fields) => config.fields(fields),
            None => config,
        }
    }
}
