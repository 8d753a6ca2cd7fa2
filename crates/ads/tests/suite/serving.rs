//! A server on loopback, and what it reports.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pilothouse_ads::Event;
use pilothouse_ads::server::{self, Door, Incident, Options, Server, Session, Subscriber};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

pub(crate) const DELTA: &str =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
pub(crate) const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

/// What a server has reported so far.
#[derive(Default)]
pub(crate) struct Incidents(Mutex<Vec<Incident>>);

impl Incidents {
    pub(crate) fn add(&self, incident: Incident) {
        self.0.lock().unwrap().push(incident);
    }

    pub(crate) fn all(&self) -> Vec<Incident> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, incident: &Incident) -> usize {
        self.all().iter().filter(|i| *i == incident).count()
    }

    /// Waits until it was reported so often.
    pub(crate) async fn sees(&self, incident: &Incident, times: usize) {
        let start = Instant::now();
        while self.count(incident) < times {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{:?}",
                self.all()
            );
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A session that passes over what it is told.
pub(crate) struct Deaf;

impl Session for Deaf {
    fn on_event(&mut self, _: &Event) {}
}

/// Listens at a port that the system chooses.
pub(crate) fn listen() -> (TcpListener, SocketAddr) {
    let listener = server::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Serves at a door, until the token is cancelled.
pub(crate) fn serve(
    subscriber: Arc<dyn Subscriber>,
    options: Options,
    door: Door,
) -> (CancellationToken, JoinHandle<()>) {
    serve_by(Server::new(subscriber, options).unwrap(), door)
}

/// Has this server serve at a door, until the token is cancelled.
pub(crate) fn serve_by(server: Server, door: Door) -> (CancellationToken, JoinHandle<()>) {
    let stop = CancellationToken::new();
    let doors = futures::stream::iter([door]);
    let task = tokio::spawn(server::serve(doors, Arc::new(server), stop.clone()));
    (stop, task)
}
