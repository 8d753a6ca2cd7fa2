//! Runs schedules against one server.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ::model::Change;
use ::model::kinds::AnyObject;
use source_api::{Delivery, Running, Sink, Source};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::model::{History, State};
use super::proxy::{Mode, Proxy};
use super::schedule::{INSTANCES, SERVICES, Schedule, Step};
use super::server::{Kind, Server, address};
use crate::keeper::{Keep, Patience};
use crate::limits::Limits;
use crate::source::RegistrySource;
use crate::state;

/// How long it may take, once all is well, until what is served is what there is.
const EQUAL: Duration = Duration::from_secs(90);
/// How long a registry that answers may take to be read for the first time.
const FIRST: Duration = Duration::from_secs(30);
/// How long a source may take to stop.
const STOP: Duration = Duration::from_secs(5);

/// What a schedule came to.
pub(super) struct Outcome {
    /// What happened, where that took long.
    pub(super) log: String,
    pub(super) steps: BTreeMap<&'static str, usize>,
    /// After how long what was served was what there is, once all was well.
    pub(super) back: Duration,
    /// How long the first reading took where another registry did not answer.
    pub(super) first_beside_a_dead_one: Option<Duration>,
}

/// What is served, and what may be.
struct Watched {
    kind: Kind,
    empty: Option<Duration>,
    histories: Vec<History>,
    served: Vec<State>,
    synced: bool,
    wrong: Option<String>,
    log: String,
    start: Instant,
}

impl Watched {
    fn note(&mut self, what: &str) {
        let at = self.start.elapsed().as_millis();
        let _ = writeln!(self.log, "{at:>7} ms {what}");
    }

    fn take(&mut self, delivery: &Delivery) {
        for change in delivery.event.changes() {
            let (host, state) = match change {
                Change::Put(_, AnyObject::ServiceEntry(entry)) => {
                    let endpoints = entry.spec.endpoints.iter();
                    let version = |labels: &BTreeMap<String, String>| {
                        labels.get("v").and_then(|v| v.parse().ok())
                    };
                    let endpoints =
                        endpoints.map(|e| (e.address.to_string(), version(&e.labels).unwrap_or(0)));
                    (entry.meta.name.name.clone(), endpoints.collect())
                }
                Change::Delete(_, key) => (key.name.name.clone(), State::new()),
                Change::Synced(_) => {
                    self.synced = true;
                    continue;
                }
                _ => continue,
            };
            self.note(&format!("served: {host} {state:?}"));
            let Some(service) = (0..SERVICES).find(|s| *self.kind.host(*s) == *host) else {
                // Something that a proxy made up; it has no endpoints of ours.
                continue;
            };
            if let Err(wrong) = self.histories[service].served(&state, Instant::now(), self.empty) {
                self.wrong.get_or_insert(format!("{host}: {wrong}"));
            }
            self.served[service] = state;
        }
    }

    fn is_equal(&self) -> bool {
        let mut all = self.histories.iter().zip(&self.served);
        self.synced && all.all(|(history, served)| history.is_served_by(served, self.empty))
    }
}

/// A server with our proxies, and what it has.
pub(super) struct Lane {
    server: Server,
    proxy: Proxy,
    has: Vec<State>,
    version: u32,
}

/// A source that is read.
struct Reading {
    stop: CancellationToken,
    running: JoinHandle<Result<(), String>>,
    state: state::State,
    deliveries: Option<UnboundedReceiver<Delivery>>,
}

impl Reading {
    fn start(server: &Server, port: u16, empty: Option<Duration>) -> Self {
        let entry = server.entry(port);
        let state = state::State::default();
        let source = RegistrySource {
            making: entry.making(&"higress-system".into()),
            patience: Patience {
                empty: empty.map_or(Keep::Forever, Keep::For),
                outage: Keep::Forever,
            },
            limits: Limits::default(),
            open: entry.open(),
            state: state.clone(),
        };
        let stop = CancellationToken::new();
        let (sink, deliveries) = Sink::channel(entry.key().owner(), 64);
        let running: Running = Box::new(source).run(sink, stop.clone());
        Self {
            stop,
            running: tokio::spawn(async { running.await.map_err(|error| error.to_string()) }),
            state,
            deliveries: Some(deliveries),
        }
    }

    async fn end(self) -> Result<(), String> {
        self.stop.cancel();
        let ended = timeout(STOP, self.running).await;
        ended
            .map_err(|_| format!("it does not stop in {STOP:?}"))?
            .map_err(|e| e.to_string())?
    }
}

impl Lane {
    pub(super) async fn start(kind: Kind, number: u16) -> Self {
        let server = Server::start(kind, number).await;
        let proxy = Proxy::new(&server.proxied, server.kind.endless()).await;
        Self {
            server,
            proxy,
            has: vec![State::new(); SERVICES],
            version: 1,
        }
    }

    /// Runs the schedule of a seed; what was wrong, with all that happened.
    pub(super) async fn run(&mut self, seed: u64) -> Result<Outcome, String> {
        let schedule = Schedule::draw(self.server.kind, seed);
        let watched = Arc::new(Mutex::new(self.watched(&schedule)));
        self.begin(&schedule, &watched).await;
        let result = self.play(&schedule, &watched).await;
        let watched = watched.lock().unwrap();
        let wrong = watched.wrong.clone().map_or(Ok(()), Err);
        let told = |what: String| format!("SEED={seed}: {what}\n{schedule:?}\n{}", watched.log);
        wrong.map_err(told)?;
        result.map_err(told)
    }

    /// What may be served from the beginning: what the registry has, and what it is about to have.
    fn watched(&self, schedule: &Schedule) -> Watched {
        let blurred = self.server.kind.blurs();
        let histories = self.has.iter().cloned();
        let histories = histories.map(|state| History::new(state, blurred));
        Watched {
            kind: self.server.kind,
            empty: schedule.empty_ms.map(Duration::from_millis),
            histories: histories.collect(),
            served: vec![State::new(); SERVICES],
            synced: false,
            wrong: None,
            log: String::new(),
            start: Instant::now(),
        }
    }

    /// Makes the registry have what the schedule begins with.
    async fn begin(&mut self, schedule: &Schedule, watched: &Mutex<Watched>) {
        self.proxy.set(Mode::Pass);
        for service in 0..SERVICES {
            for instance in 0..INSTANCES {
                match schedule.first.contains(&(service, instance)) {
                    true => self.put(service, instance, watched).await,
                    false => self.remove(service, instance, watched).await,
                }
            }
        }
    }

    async fn play(
        &mut self,
        schedule: &Schedule,
        watched: &Arc<Mutex<Watched>>,
    ) -> Result<Outcome, String> {
        let empty = schedule.empty_ms.map(Duration::from_millis);
        let (dead_port, _silent) = super::server::silent().await;
        let dead = schedule
            .beside_a_dead_one
            .then(|| Reading::start(&self.server, dead_port, empty));
        let mut reading = Reading::start(&self.server, self.server.proxied[0].0, empty);
        let deliveries = reading.deliveries.take();
        let mut deliveries = deliveries.expect("it is taken once");
        let taking = tokio::spawn({
            let watched = watched.clone();
            async move {
                while let Some(delivery) = deliveries.recv().await {
                    watched.lock().unwrap().take(&delivery);
                }
            }
        });
        let first = until(watched, FIRST).await;
        let mut steps: BTreeMap<&'static str, usize> = BTreeMap::new();
        let mut played = first.clone().map(|_| Duration::ZERO);
        if first.is_ok() {
            for step in &schedule.steps {
                watched.lock().unwrap().note(&format!("{step:?}"));
                *steps.entry(name(*step)).or_default() += 1;
                self.step(*step, watched).await;
            }
            watched.lock().unwrap().note("all is well");
            played = until(watched, EQUAL).await;
            if played.is_ok() {
                // Nothing comes that makes it other again.
                sleep(Duration::from_millis(300)).await;
                played = until(watched, EQUAL).await.and(played);
            }
        }
        let shown = format!("{:?}", reading.state.get());
        let back = played.map_err(|wrong| format!("{wrong}; {shown}"))?;
        reading.end().await?;
        if let Some(dead) = dead {
            dead.end().await?;
        }
        // It ends as its sink does.
        taking.await.map_err(|error| error.to_string())?;
        let first_beside_a_dead_one = first.ok().filter(|_| schedule.beside_a_dead_one);
        let log = watched.lock().unwrap().log.clone();
        Ok(Outcome {
            log,
            steps,
            back,
            first_beside_a_dead_one,
        })
    }

    async fn step(&mut self, step: Step, watched: &Mutex<Watched>) {
        match step {
            Step::Put(service, instance) => self.put(service, instance, watched).await,
            Step::Remove(service, instance) => self.remove(service, instance, watched).await,
            Step::Weather(mode) => self.proxy.set(mode),
            Step::Reset => self.proxy.reset(),
            Step::Wait(ms) => sleep(Duration::from_millis(ms)).await,
            Step::Kill { wipe, down_ms } => self.kill(wipe, down_ms, watched).await,
            Step::Forget(ms) => {
                self.server.forget().await;
                sleep(Duration::from_millis(ms)).await;
                crate::backends::eventually(async || self.server.remember().await.then_some(()))
                    .await;
            }
        }
    }

    /// Kills the server, and registers again what it has no more, as its clients do.
    async fn kill(&mut self, wipe: bool, down_ms: u64, watched: &Mutex<Watched>) {
        self.server.kill();
        sleep(Duration::from_millis(down_ms)).await;
        let is_lost = wipe || !self.server.kind.keeps();
        let had = self.has.clone();
        if is_lost {
            self.has = vec![State::new(); SERVICES];
            for service in 0..SERVICES {
                self.note(service, watched);
            }
        }
        self.server.launch(wipe).await;
        if is_lost {
            // The last instance stays away.
            for (service, had) in had.iter().enumerate() {
                let instances = (0..INSTANCES).filter(|i| had.contains_key(&address(service, *i)));
                let instances: Vec<u64> = instances.collect();
                for instance in instances.iter().take(instances.len().max(2) - 1) {
                    sleep(Duration::from_millis(50)).await;
                    self.put(service, *instance, watched).await;
                }
            }
        }
    }

    fn note(&self, service: usize, watched: &Mutex<Watched>) {
        let mut watched = watched.lock().unwrap();
        let state = self.has[service].clone();
        watched.note(&format!(
            "the registry has: {} {state:?}",
            self.server.kind.host(service)
        ));
        watched.histories[service].becomes(state);
    }

    async fn put(&mut self, service: usize, instance: u64, watched: &Mutex<Watched>) {
        self.version += 1;
        let version = self.server.kind.version(service, self.version);
        self.has[service].insert(address(service, instance), version);
        // Before it is, for it may be served before we know that it is.
        self.note(service, watched);
        self.server.put(service, instance, version).await;
    }

    async fn remove(&mut self, service: usize, instance: u64, watched: &Mutex<Watched>) {
        if self.has[service]
            .remove(&address(service, instance))
            .is_some()
        {
            self.note(service, watched);
            self.server.take(service, instance).await;
        }
    }
}

/// Waits until what is served is what there is, and says how long that took.
async fn until(watched: &Mutex<Watched>, most: Duration) -> Result<Duration, String> {
    let start = Instant::now();
    loop {
        {
            let watched = watched.lock().unwrap();
            if let Some(wrong) = &watched.wrong {
                return Err(wrong.clone());
            }
            if watched.is_equal() {
                return Ok(start.elapsed());
            }
            if start.elapsed() > most {
                return Err(format!(
                    "stale after {most:?}: {:?} is served, {:?} is there",
                    watched.served, watched.histories
                ));
            }
        }
        sleep(Duration::from_millis(5)).await;
    }
}

fn name(step: Step) -> &'static str {
    match step {
        Step::Put(..) => "put",
        Step::Remove(..) => "remove",
        Step::Weather(mode) => mode.name(),
        Step::Reset => "reset",
        Step::Kill { wipe: true, .. } => "kill, data lost",
        Step::Kill { wipe: false, .. } => "kill, data kept",
        Step::Forget(_) => "token refused",
        Step::Wait(_) => "wait",
    }
}
