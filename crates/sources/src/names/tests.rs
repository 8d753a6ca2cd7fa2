//! Names looked up where a test says.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc::UnboundedReceiver;

use super::*;
use source_api::Delivery;

/// How often the resolver of the test was asked, and what it answers. One test uses it, so that nothing is shared.
static ASKED: AtomicUsize = AtomicUsize::new(0);
static ANSWER: Mutex<Result<Answer, String>> = Mutex::new(Err(String::new()));

struct Scripted;

impl Resolve for Scripted {
    fn look_up(&self, _: Arc<str>) -> Looking {
        ASKED.fetch_add(1, Ordering::Relaxed);
        let answer = ANSWER.lock().unwrap().clone();
        Box::pin(async move { answer })
    }
}

fn answers(addresses: &[&str], seconds: u64) {
    let addresses = addresses.iter().map(|a| a.parse().unwrap()).collect();
    *ANSWER.lock().unwrap() = Ok(Answer {
        addresses,
        life: Duration::from_secs(seconds),
    });
}

/// The next thing that is said, as text.
async fn said(deliveries: &mut UnboundedReceiver<Delivery>) -> String {
    let delivery = deliveries.recv().await.unwrap();
    match delivery.event.changes() {
        [Change::Addresses(name, found)] => format!("{name} {found:?}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_lives_as_long_as_it_says_and_survives_failures() {
    let (want, wanted) = watch::channel(Wanted::default());
    let (out, mut deliveries) = Sink::channel(Owner::new(0, "dns"), 8);
    let source = NamesSource {
        owner: Owner::new(0, "dns"),
        wanted,
        resolver: || Scripted,
    };
    let stop = CancellationToken::new();
    let running = tokio::spawn(Box::new(source).run(out, stop.clone()));
    let start = Instant::now();
    let asked = || ASKED.load(Ordering::Relaxed);

    answers(&["10.0.0.2", "10.0.0.1", "10.0.0.2"], 100);
    want.send_replace(Arc::new(BTreeSet::from(["lb".into()])));
    assert_eq!(said(&mut deliveries).await, "lb Some([10.0.0.1, 10.0.0.2])");
    assert_eq!(asked(), 1);

    // It is asked again when its life is over; the same answer is not told again.
    tokio::time::sleep(Duration::from_secs(101)).await;
    assert_eq!(asked(), 2);
    answers(&["10.0.0.3"], 1);
    assert_eq!(said(&mut deliveries).await, "lb Some([10.0.0.3])");
    assert_eq!(start.elapsed().as_secs(), 200);

    // A short life is not taken at its word, and a failure changes nothing.
    *ANSWER.lock().unwrap() = Err("down".to_owned());
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(asked(), 3);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(asked(), 4);
    assert!(deliveries.try_recv().is_err());

    // That there is no such name is an answer.
    answers(&[], 0);
    assert_eq!(said(&mut deliveries).await, "lb Some([])");

    want.send_replace(Wanted::default());
    assert_eq!(said(&mut deliveries).await, "lb None");
    stop.cancel();
    running.await.unwrap().unwrap();
}
