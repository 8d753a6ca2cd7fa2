//! The objects of one kind, from the first list on.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use kube::core::ApiResource;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};
use model::{Contents, Diagnostic, Kind, ObjectKey, Owner, Severity};
use sources::backoff::Backoff;
use sources::{Closed, Sink, SourceError, SourceEvent};

use super::Options;
use super::findings::Findings;
use super::part::{News, Part, Reading};
use crate::item::Item;

/// How long the API is left alone after it failed.
const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(250),
    longest: Duration::from_secs(30),
};

/// How long an API may take to send anything of a list that it is asked to stream. One that does not know what that is
/// would never say that the list is complete.
const STREAM_PATIENCE: Duration = Duration::from_secs(5);

/// So often a kind must be refused before it is taken for one without objects: an API server that is starting refuses
/// much for a moment.
const REFUSALS: u32 = 3;

/// Codes of what is wrong with a cluster.
pub mod code {
    /// A kind whose objects cannot be read.
    pub const UNREAD: &str = "PIL0030";
    /// A cluster whose API does not answer.
    pub const UNREACHABLE: &str = "PIL0031";
}

/// A kind that is listed and watched.
pub(super) struct Followed {
    reading: Reading,
    client: Client,
    sink: Sink,
    findings: Findings,
    /// What is wrong with objects.
    found: BTreeMap<ObjectKey, Vec<Diagnostic>>,
    /// Whether all objects have been told once.
    synced: bool,
    /// Whether it was told that there are none, because the kind is not served or may not be read.
    absent: bool,
    /// Failures since the API last answered as it should.
    failures: u32,
}

/// What a failure means.
enum Meaning {
    /// The version is not served.
    NotServed,
    /// The API does not stream lists.
    NotStreamed,
    /// What is asked for has been forgotten: everything has to be told anew.
    Gone,
    /// The kind may not be read.
    Forbidden,
    /// It may work soon.
    Trouble,
}

/// How a list is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Streamed,
    Paged,
}

impl Followed {
    pub(super) fn new(
        kind: Kind,
        owner: Owner,
        client: Client,
        options: Options,
        sink: Sink,
        findings: Findings,
    ) -> Self {
        Self {
            reading: Reading {
                kind,
                version: kind.versions()[0],
                owner,
                validation: options.validation,
            },
            client,
            sink,
            findings,
            found: BTreeMap::new(),
            synced: false,
            absent: false,
            failures: 0,
        }
    }

    /// Tells what there is and what changes, in whichever version is served.
    pub(super) async fn run(mut self) -> Result<(), SourceError> {
        loop {
            for version in self.reading.kind.versions() {
                self.reading.version = version;
                self.follow().await?;
            }
            // No version is served.
            self.failures += 1;
            if self.failures >= REFUSALS {
                self.tell_nothing().await?;
            }
            self.wait().await;
        }
    }

    /// Tells what there is in a version until that is not served.
    async fn follow(&mut self) -> Result<(), Closed> {
        let mut way = Way::Streamed;
        loop {
            let mut events = pin!(watcher(self.api(), way.config()));
            let mut listing = true;
            loop {
                let next = Part::next(&mut events);
                let part = match (listing, way) {
                    (true, Way::Streamed) => {
                        match tokio::time::timeout(STREAM_PATIENCE, next).await {
                            Ok(part) => part,
                            Err(_) => {
                                way = Way::Paged;
                                break;
                            }
                        }
                    }
                    _ => next.await,
                };
                let mut part = part;
                let failure = part.failure.take();
                if !part.is_empty() {
                    listing = self.tell(part, listing).await?;
                }
                let Some(failure) = failure else { continue };
                match meaning(&failure, way, listing) {
                    Meaning::NotServed => return Ok(()),
                    Meaning::NotStreamed => {
                        way = Way::Paged;
                        break;
                    }
                    Meaning::Gone => {
                        self.failures += 1;
                        self.wait().await;
                        break;
                    }
                    Meaning::Forbidden => {
                        self.failures += 1;
                        self.tell_trouble(&failure).await?;
                        if !self.synced && self.failures >= REFUSALS {
                            self.tell_nothing().await?;
                        }
                        self.wait().await;
                    }
                    Meaning::Trouble => {
                        self.failures += 1;
                        self.tell_trouble(&failure).await?;
                        self.wait().await;
                    }
                }
            }
        }
    }

    fn api(&self) -> Api<Item> {
        let Reading { kind, version, .. } = self.reading;
        let resource = ApiResource {
            group: kind.group().to_owned(),
            version: version.to_owned(),
            api_version: match kind.group() {
                "" => version.to_owned(),
                group => format!("{group}/{version}"),
            },
            kind: kind.name().to_owned(),
            plural: kind.plural().to_owned(),
        };
        Api::all_with(self.client.clone(), &resource)
    }

    /// Tells what came. Says whether a list is under way after it.
    async fn tell(&mut self, part: Part, mut listing: bool) -> Result<bool, Closed> {
        let noticed = part.noticed();
        let read = part.read(&self.reading).await;
        let mut differ = false;
        for news in read.news {
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
        let told = SourceEvent::Read {
            changes: read.changes,
            noticed,
            took: read.took,
        };
        self.sink.send(told).await?;
        if !listing {
            (self.synced, self.absent) = (true, false);
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
        let nothing = vec![self.reading.restart(), self.reading.synced()];
        self.sink.send(SourceEvent::Changes(nothing)).await
    }

    async fn tell_findings(&self, trouble: Option<Diagnostic>) -> Result<(), Closed> {
        let of_objects = self.found.values().flatten().cloned();
        let all = trouble.into_iter().chain(of_objects).collect();
        self.findings.set(self.reading.kind, all).await
    }

    async fn tell_trouble(&self, failure: &watcher::Error) -> Result<(), Closed> {
        match status(failure) {
            None => {
                let message = format!("the Kubernetes API does not answer: {}", chain(failure));
                let trouble = Diagnostic::new(code::UNREACHABLE, Severity::Error, message);
                self.findings.set_unreachable(Some(trouble)).await
            }
            Some(status) => {
                let of = Contents::Objects(self.reading.kind);
                let message = format!("{of} cannot be read: {}", status.message);
                let trouble = Diagnostic::new(code::UNREAD, Severity::Warning, message);
                self.tell_findings(Some(trouble)).await
            }
        }
    }

    async fn wait(&self) {
        let wait = BACKOFF.wait(&self.reading.kind, self.failures.saturating_sub(1));
        tokio::time::sleep(wait).await;
    }
}

impl Way {
    fn config(self) -> watcher::Config {
        let config = watcher::Config::default();
        match self {
            Way::Streamed => config.streaming_lists(),
            Way::Paged => config,
        }
    }
}

/// What the API has said, if it was the API that failed.
fn status(failure: &watcher::Error) -> Option<&kube::core::Status> {
    use watcher::Error;
    match failure {
        Error::InitialListFailed(kube::Error::Api(status))
        | Error::WatchStartFailed(kube::Error::Api(status))
        | Error::WatchFailed(kube::Error::Api(status))
        | Error::WatchError(status) => Some(status),
        _ => None,
    }
}

fn meaning(failure: &watcher::Error, way: Way, listing: bool) -> Meaning {
    let streaming = listing && way == Way::Streamed;
    match status(failure).map(|status| status.code) {
        Some(404 | 405) => Meaning::NotServed,
        Some(400 | 422) if streaming => Meaning::NotStreamed,
        Some(410) => Meaning::Gone,
        Some(401 | 403) => Meaning::Forbidden,
        _ => Meaning::Trouble,
    }
}

/// An error with what it comes from.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}
