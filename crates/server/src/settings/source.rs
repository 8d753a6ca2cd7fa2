//! The settings as a source.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::edge::EdgeDocuments;
use model::settings::Settings;
use model::{Change, Contents, Owner};
use source_api::{Running, Sink, Source, SourceError, SourceEvent};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::compose::{Composed, Composer};
use super::config_maps::Told;
use super::source;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// How far the settings are.
#[derive(Clone)]
pub struct Settled {
    told: Told,
    settings: Arc<Settings>,
    documents: Arc<EdgeDocuments>,
    /// What a start would know before it has read any source.
    pub of_files: Arc<Settings>,
    /// Why they are not those that are meant.
    pub refused: Option<Arc<str>>,
}

impl Settled {
    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// Files and ConfigMaps of settings as a source. Every run goes on with the same composer, which has the last good versions.
pub struct SettingsSource {
    owner: Owner,
    composer: Arc<Mutex<Composer>>,
    told: watch::Receiver<Told>,
    settled: watch::Sender<Settled>,
}

impl SettingsSource {
    /// The source of what a composer reads, which has composed `first`, and of ConfigMaps as they are told.
    pub fn new(
        composer: Arc<Mutex<Composer>>,
        told: watch::Receiver<Told>,
        settled: watch::Sender<Settled>,
    ) -> Self {
        Self {
            owner: source().into(),
            composer,
            told,
            settled,
        }
    }

    /// How far the settings are when a composer has read the files.
    pub fn at_start(first: &Composed) -> watch::Sender<Settled> {
        watch::Sender::new(Settled {
            told: Told::default(),
            settings: first.settings.clone(),
            documents: first.documents.clone(),
            of_files: first.settings.clone(),
            refused: None,
        })
    }

    fn composer(&self) -> MutexGuard<'_, Composer> {
        self.composer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports the settings whenever a file or a ConfigMap changes.
    async fn watch(
        mut self: Box<Self>,
        out: Sink,
        stop: CancellationToken,
    ) -> Result<(), SourceError> {
        // Nobody has told yet what the file says that there is from the start.
        let mut untold = self.settled.borrow().documents.file.is_some();
        loop {
            let told = self.told.borrow_and_update().clone();
            let noticed = Instant::now();
            let files = self.composer().look();
            if std::mem::take(&mut untold)
                || files
                || !told.has_same_texts(&self.settled.borrow().told)
            {
                self.report(&out, told, noticed).await?;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                told = self.told.changed() => if told.is_err() { return Ok(()) },
                () = stop.cancelled() => return Ok(()),
            }
        }
    }

    async fn report(&self, out: &Sink, told: Told, noticed: Instant) -> Result<(), SourceError> {
        let (composed, of_files) = {
            let mut composer = self.composer();
            (composer.compose(&told), composer.of_files())
        };
        let Composed {
            settings,
            documents,
            found,
            refused,
        } = composed;
        out.send(SourceEvent::Findings(source(), found)).await?;
        let read = SourceEvent::Read {
            changes: vec![
                Change::Settings(settings.clone()),
                Change::EdgeDocuments(documents.clone()),
            ],
            noticed,
            took: noticed.elapsed(),
        };
        out.send(read).await?;
        self.settled.send_replace(Settled {
            told,
            settings,
            documents,
            of_files,
            refused,
        });
        Ok(())
    }
}

impl Source for SettingsSource {
    fn owner(&self) -> &Owner {
        &self.owner
    }

    fn collections(&self) -> Vec<Contents> {
        Vec::new()
    }

    fn run(self: Box<Self>, out: Sink, stop: CancellationToken) -> Running {
        Box::pin(self.watch(out, stop))
    }
}

/// Resolves when the settings are made from the newest ConfigMaps, are those that are meant, and are in force.
pub async fn settled(mut settled: watch::Receiver<Settled>, mut told: watch::Receiver<Told>) {
    loop {
        let is_settled = {
            let (settled, told) = (settled.borrow_and_update(), told.borrow_and_update());
            let in_force = told.in_force.as_ref();
            settled.refused.is_none()
                && settled.told.has_same_texts(&told)
                && match in_force {
                    Some((settings, documents)) => {
                        Arc::ptr_eq(settings, &settled.settings) && *documents == settled.documents
                    }
                    None => *settled.documents == EdgeDocuments::default(),
                }
        };
        if is_settled {
            return;
        }
        tokio::select! {
            Ok(()) = settled.changed() => {}
            Ok(()) = told.changed() => {}
            else => return,
        }
    }
}
