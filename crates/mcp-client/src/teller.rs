//! Tells the store what follows from responses, and its author what is wrong with them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use model::{Change, Contents, Diagnostic, Kind, Origin, Severity};
use source_api::{Closed, Refusal, Sink, SourceEvent, Standing};

use crate::book::{Book, Step};
use crate::gate::{Gate, names};
use crate::mesh;
use crate::source::Options;
use crate::tell::{Told, code};
use crate::topic::Topic;

/// So many findings are told of one control plane.
const MOST_FINDINGS: usize = 1000;

/// Tells of one run.
pub(crate) struct Teller<'a> {
    options: Arc<Options>,
    out: &'a Sink,
    /// By topic and name.
    of_objects: BTreeMap<(Topic, Arc<str>), Vec<Diagnostic>>,
    /// What was wrong with the last response of each topic.
    of_responses: BTreeMap<Topic, Diagnostic>,
    /// The same for the status of the source.
    refusals: BTreeMap<Topic, Refusal>,
    /// What the status of the source says so far.
    standing: Standing,
    /// The kinds without which nothing is told, as the status of the source has them.
    awaited: Vec<Kind>,
    /// That nothing is in force, once that has lasted.
    withheld: Option<Diagnostic>,
    is_news: bool,
}

impl<'a> Teller<'a> {
    pub(crate) fn new(options: Arc<Options>, out: &'a Sink) -> Self {
        Self {
            options,
            out,
            of_objects: BTreeMap::new(),
            of_responses: BTreeMap::new(),
            refusals: BTreeMap::new(),
            standing: Standing::default(),
            awaited: Vec::new(),
            withheld: None,
            // What was found before this run counts no more.
            is_news: true,
        }
    }

    /// Notes what of a response cannot be read or taken; nothing where all was.
    pub(crate) fn note_faults(&mut self, topic: Topic, faults: &[String]) {
        let found = (!faults.is_empty()).then(|| {
            let (type_url, why) = (topic.type_url(), faults.join("; "));
            let why = format!("a response about {type_url} was refused: {why}");
            self.finding(code::UNREADABLE, &why)
        });
        let before = match found {
            Some(found) => self.of_responses.insert(topic, found),
            None => self.of_responses.remove(&topic),
        };
        self.is_news |= before.is_some() || !faults.is_empty();
        match faults {
            [] => _ = self.refusals.remove(&topic),
            [first, others @ ..] => {
                let more = match others.len() {
                    0 => String::new(),
                    count => format!("; {count} more"),
                };
                let refusal = self.refusals.entry(topic).or_insert_with(|| Refusal {
                    of: topic.type_url(),
                    why: String::new(),
                    since: SystemTime::now(),
                });
                refusal.why = format!("{first}{more}");
            }
        }
    }

    /// Tells how far what is in force is what the control plane says: what of it the stream has not answered, and what it
    /// answered that was refused.
    pub(crate) async fn stand(&mut self, gate: &Gate, book: &Book) -> Result<(), Closed> {
        let is_in_force = gate.awaited(book).is_empty();
        let unanswered = book
            .unanswered()
            .filter(|n| is_in_force && book.is_known(*n));
        let kept = unanswered.filter_map(|n| self.options.topics[n].contents());
        let standing = Standing {
            kept: kept.collect(),
            refused: self.refusals.values().cloned().collect(),
        };
        if standing == self.standing {
            return Ok(());
        }
        self.standing = standing.clone();
        self.out.send(SourceEvent::Stands(standing)).await
    }

    /// Tells what follows about a topic as far as the gate lets it pass, and the rest of the book when that opens the gate.
    pub(crate) async fn pass(
        &mut self,
        gate: &mut Gate,
        book: &mut Book,
        topic: usize,
        steps: Vec<Step>,
        noticed: Instant,
    ) -> Result<(), Closed> {
        let told = gate.pass(topic, steps, book);
        let awaited = gate.awaited(book);
        if self.withheld.is_some() && awaited != self.awaited {
            self.withheld = self.withholds(&awaited);
            self.is_news = true;
        }
        self.tell(told, noticed).await?;
        if awaited.is_empty() {
            gate.open();
        }
        if awaited == self.awaited {
            return Ok(());
        }
        let contents = awaited.iter().map(|kind| Contents::Objects(*kind));
        let waits = SourceEvent::Waits(contents.collect());
        self.awaited = awaited;
        self.out.send(waits).await
    }

    /// Warns that the gate is closed, if it is.
    pub(crate) async fn warn_of(&mut self, gate: &Gate, book: &Book) -> Result<(), Closed> {
        let awaited = gate.awaited(book);
        if awaited.is_empty() {
            return Ok(());
        }
        let types = names(&awaited);
        tracing::warn!(source = %self.options.reader.owner, types, "Nothing that a control plane says is in force before it answers about these types, which protect.");
        self.withheld = self.withholds(&awaited);
        self.is_news = true;
        self.tell_findings().await
    }

    /// That nothing is in force without these kinds; nothing where there are none.
    fn withholds(&self, awaited: &[Kind]) -> Option<Diagnostic> {
        if awaited.is_empty() {
            return None;
        }
        let types = names(awaited);
        let why = format!(
            "nothing that it says is in force before it answers about {types}, which protect and were neither answered nor read from the cache"
        );
        Some(self.finding(code::SOURCE, &why))
    }

    /// Tells all of this at once.
    async fn tell(
        &mut self,
        told: Vec<(usize, Vec<Step>)>,
        noticed: Instant,
    ) -> Result<(), Closed> {
        let took = Instant::now();
        let mut changes = Vec::new();
        for (n, steps) in told {
            let topic = self.options.topics[n];
            match topic {
                Topic::Objects(kind) => changes.extend(self.objects(kind, steps).await),
                Topic::MeshConfig => self.mesh_config(steps),
            }
        }
        if !changes.is_empty() {
            let read = SourceEvent::Read {
                changes,
                noticed,
                took: took.elapsed(),
            };
            self.out.send(read).await?;
        }
        self.tell_findings().await
    }

    async fn objects(&mut self, kind: Kind, steps: Vec<Step>) -> Vec<Change> {
        if steps.is_empty() {
            return Vec::new();
        }
        let reader = self.options.reader.clone();
        let read = tokio::task::spawn_blocking(move || reader.changes(kind, steps));
        let told = match read.await {
            Ok(told) => told,
            // As if it had panicked here.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Vec::new(),
            },
        };
        let mut changes = Vec::with_capacity(told.len());
        for Told {
            name,
            change,
            found,
        } in told
        {
            changes.push(change);
            let Some(name) = name else { continue };
            let key = (Topic::Objects(kind), name);
            let before = match found.is_empty() {
                true => self.of_objects.remove(&key),
                false => {
                    self.is_news = true;
                    self.of_objects.insert(key, found)
                }
            };
            self.is_news |= before.is_some();
        }
        changes
    }

    /// Hands the mesh configuration on; one that cannot be read leaves the last one in force.
    fn mesh_config(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Put(entry) => match mesh::text(&entry) {
                    Ok(text) => (self.options.on_mesh)(Some(text.into())),
                    Err(fault) => {
                        self.note_faults(Topic::MeshConfig, &[format!("MeshConfig {fault}")]);
                    }
                },
                Step::Delete(_) => (self.options.on_mesh)(None),
                Step::Whole => {}
            }
        }
    }

    async fn tell_findings(&mut self) -> Result<(), Closed> {
        if !std::mem::take(&mut self.is_news) {
            return Ok(());
        }
        let found = self.withheld.iter().chain(self.of_responses.values());
        let found = found.chain(self.of_objects.values().flatten());
        let found = found.take(MOST_FINDINGS).cloned().collect();
        let source = self.options.reader.owner.source.clone();
        self.out.send(SourceEvent::Findings(source, found)).await
    }

    fn finding(&self, code: &'static str, why: &str) -> Diagnostic {
        let mut found = Diagnostic::new(code, Severity::Error, why);
        found.origin = Some(Origin::Source(self.options.reader.owner.source.clone()));
        found
    }
}
