use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::kinds::AnyObject;
use source_api::Delivery;

use super::*;
use crate::fixed::{Fixed, instance};
use crate::keeper::Keep;
use crate::protocol::Protocol;
use crate::report::{Reading, RegistryError};
use crate::service::VirtualPorts;

fn source(open: Open) -> RegistrySource {
    RegistrySource {
        making: Making {
            owner: Owner::new(250, "registry:x/y"),
            kind: "x".into(),
            name: "y".into(),
            protocol: Protocol::Http,
            sni: "".into(),
            ports: VirtualPorts::default(),
            only_in: None,
        },
        patience: Patience {
            empty: Keep::For(Duration::from_secs(60)),
            outage: Keep::Forever,
        },
        limits: Limits::default(),
        open,
        state: State::default(),
    }
}

fn fixed(address: &str) -> Box<dyn Registry> {
    Box::new(Fixed {
        host: "a.x".into(),
        instances: vec![instance(address, 80)],
    })
}

/// A registry that panics.
struct Panics;

impl Registry for Panics {
    fn read(self: Box<Self>, _: Reports, _: CancellationToken) -> Reading {
        Box::pin(async { panic!("on purpose") })
    }
}

/// A registry that answers and then fails.
struct Fails;

impl Registry for Fails {
    fn read(self: Box<Self>, to: Reports, _: CancellationToken) -> Reading {
        Box::pin(async move {
            let list = vec![instance("10.0.0.9", 80)];
            let _ = to.send(Report::Service("a.x".into(), list)).await;
            Err(RegistryError("it broke".into()))
        })
    }
}

fn shown(delivery: &Delivery) -> String {
    let changes = delivery.event.changes().iter();
    let shown = changes.map(|change| match change {
        Change::Put(_, AnyObject::ServiceEntry(entry)) => {
            let addresses = entry.spec.endpoints.iter().map(|e| &*e.address);
            addresses.collect::<Vec<_>>().join(",")
        }
        Change::Synced(collection) => format!("synced {}", collection.of),
        other => format!("{other:?}"),
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_fails_is_read_again_and_says_what_differs() {
    let runs = Arc::new(AtomicUsize::new(0));
    let open: Open = Arc::new(move || match runs.fetch_add(1, Ordering::Relaxed) {
        0 => Box::new(Panics),
        1 => Box::new(Fails),
        _ => fixed("10.0.0.1"),
    });
    let source = source(open);
    let (state, stop) = (source.state.clone(), CancellationToken::new());
    let (sink, mut deliveries) = Sink::channel(source.making.owner.clone(), 8);
    let running = tokio::spawn(Box::new(source).run(sink, stop.clone()));
    let mut told = Vec::new();
    while told.len() < 2 {
        told.push(shown(&deliveries.recv().await.unwrap()));
    }
    let synced =
        "synced serviceentries.networking.istio.io synced destinationrules.networking.istio.io";
    assert_eq!(told, ["10.0.0.9".to_owned(), format!("10.0.0.1 {synced}")]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let health = state.get();
    assert_eq!((health.failures, health.connected), (2, true));
    assert_eq!(health.error.as_deref(), Some("it broke"));
    assert_eq!((health.figures.services, health.figures.instances), (1, 1));
    stop.cancel();
    assert!(running.await.unwrap().is_ok());
}

/// A registry that is told what to report.
struct Told(Arc<Mutex<Option<tokio::sync::mpsc::Receiver<Report>>>>);

impl Registry for Told {
    fn read(self: Box<Self>, to: Reports, stop: CancellationToken) -> Reading {
        let reports = self.0.lock().unwrap().take();
        Box::pin(async move {
            let mut reports = reports.ok_or_else(|| RegistryError("once only".into()))?;
            while let Some(report) = reports.recv().await {
                let _ = to.send(report).await;
            }
            stop.cancelled().await;
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_goes_when_its_time_is_over() {
    let (reports, registry) = tokio::sync::mpsc::channel(8);
    let registry = Arc::new(Mutex::new(Some(registry)));
    let source = source(Arc::new(move || Box::new(Told(registry.clone()))));
    let (sink, mut deliveries) = Sink::channel(source.making.owner.clone(), 8);
    let stop = CancellationToken::new();
    let running = tokio::spawn(Box::new(source).run(sink, stop.clone()));
    let list = |n| vec![instance("10.0.0.1", 80); n];
    for report in [
        Report::Service("a.x".into(), list(1)),
        Report::Whole(["a.x".into()].into()),
        Report::Service("a.x".into(), list(0)),
    ] {
        reports.send(report).await.unwrap();
    }
    let start = Instant::now();
    let mut last = String::new();
    while start.elapsed() < Duration::from_secs(60) {
        last = shown(&deliveries.recv().await.unwrap());
    }
    assert_eq!(
        (start.elapsed().as_secs(), &*last),
        (60, ""),
        "no endpoints"
    );
    stop.cancel();
    assert!(running.await.unwrap().is_ok());
}
