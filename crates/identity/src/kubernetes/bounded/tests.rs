use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use super::*;

/// Takes every token but `bad`, and says nothing to `never`.
#[derive(Default)]
struct Server {
    asked: AtomicUsize,
    /// Whether it answers only when it is told to.
    slow: bool,
    go: Notify,
}

impl Reviewer for Server {
    fn review<'a>(&'a self, token: &'a str, _: &'a [String], _: IpAddr) -> BoxFuture<'a, Answer> {
        async move {
            self.asked.fetch_add(1, Ordering::SeqCst);
            if self.slow {
                self.go.notified().await;
            }
            match token {
                "bad" => Err(ReviewError::Rejected("bad".into())),
                "never" => std::future::pending().await,
                "panic" => panic!("a reviewer that fails"),
                "later" => Err(ReviewError::Unavailable("later".into())),
                user => Ok(Reviewed {
                    user: user.to_owned(),
                    ..Reviewed::default()
                }),
            }
        }
        .boxed()
    }
}

fn bounded(server: &Arc<Server>, limits: ReviewLimits) -> Bounded {
    Bounded::new(server.clone(), limits, Handle::current())
}

async fn ask(bounded: &Bounded, token: &str, host: u8) -> Answer {
    let from = Ipv4Addr::new(10, 0, 0, host).into();
    bounded.review(token, &["istio-ca".to_owned()], from).await
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_remembered_for_a_while() {
    let server = Arc::new(Server::default());
    let bounded = bounded(&server, ReviewLimits::default());
    for _ in 0..3 {
        assert_eq!(ask(&bounded, "ann", 1).await.unwrap().user, "ann");
        assert!(ask(&bounded, "bad", 1).await.is_err());
    }
    assert_eq!(server.asked.load(Ordering::SeqCst), 2);
    tokio::time::advance(Duration::from_secs(11)).await;
    ask(&bounded, "ann", 1).await.unwrap();
    assert_eq!(server.asked.load(Ordering::SeqCst), 3);
    // An API server that has no time is asked again.
    for _ in 0..2 {
        assert!(matches!(
            ask(&bounded, "later", 1).await,
            Err(ReviewError::Unavailable(_))
        ));
    }
    assert_eq!(server.asked.load(Ordering::SeqCst), 5);
    let memory = lock(&bounded.memory);
    assert!(memory.asked.is_empty() && memory.by_peer.is_empty());
    assert_eq!((memory.answers.len(), memory.order.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn who_asks_the_same_waits_for_the_same_answer() {
    let server = Arc::new(Server {
        slow: true,
        ..Server::default()
    });
    let bounded = bounded(&server, ReviewLimits::default());
    let asking = (0..10).map(|host| ask(&bounded, "ann", host));
    let all = futures::future::join_all(asking);
    let (answers, ()) = tokio::join!(all, async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.go.notify_one();
    });
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(server.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever() {
    let server = Arc::new(Server::default());
    let bounded = bounded(&server, ReviewLimits::default());
    for token in ["never", "panic"] {
        let begun = Instant::now();
        let answer = ask(&bounded, token, 1).await;
        assert!(
            matches!(answer, Err(ReviewError::Unavailable(_))),
            "{token}"
        );
        assert!(begun.elapsed() <= Duration::from_secs(10), "{token}");
    }
    let memory = lock(&bounded.memory);
    assert!(memory.asked.is_empty() && memory.by_peer.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_waits_is_bounded_for_each_and_for_all() {
    let server = Arc::new(Server::default());
    let limits = ReviewLimits {
        at_once: 1,
        waiting: 5,
        waiting_each: 3,
        ..ReviewLimits::default()
    };
    let bounded = bounded(&server, limits);
    // Dropped by those who asked, they wait all the same.
    for token in ["never", "a", "b"] {
        drop(bounded.review(token, &[], Ipv4Addr::LOCALHOST.into()));
    }
    let full = |answer: Answer| {
        assert_eq!(
            answer,
            Err(ReviewError::Unavailable(
                "too many tokens wait to be reviewed".into()
            ))
        );
    };
    let from = Ipv4Addr::LOCALHOST.into();
    full(bounded.review("c", &[], from).await);
    for token in ["d", "e"] {
        drop(bounded.review(token, &[], Ipv4Addr::new(10, 0, 0, 2).into()));
    }
    full(ask(&bounded, "f", 3).await);
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(ask(&bounded, "f", 3).await.unwrap().user, "f");
    let memory = lock(&bounded.memory);
    assert!(memory.asked.is_empty() && memory.by_peer.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_is_bounded() {
    let server = Arc::new(Server::default());
    let limits = ReviewLimits {
        remembered: 3,
        ..ReviewLimits::default()
    };
    let bounded = bounded(&server, limits);
    for user in 0..10 {
        ask(&bounded, &user.to_string(), 1).await.unwrap();
    }
    assert_eq!(lock(&bounded.memory).answers.len(), 3);
}
