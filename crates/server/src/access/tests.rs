//! When is asked, and what is said of the answers.

use std::sync::{Mutex, PoisonError};

use model::node::Identity;

use super::*;

fn key(cluster: Option<&str>, account: &str) -> AccessKey {
    AccessKey {
        cluster: cluster.map(Into::into),
        identity: Identity::of_test_token(&format!("sa:shop:{account}")).unwrap(),
    }
}

fn asking(keys: &[AccessKey]) -> (Asking, Arc<Mutex<Vec<&'static str>>>) {
    let counted: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let count = counted.clone();
    let mut asking = Asking {
        apis: Apis::new("home".into()),
        told: Arc::new(move |result| {
            let mut counted = count.lock().unwrap_or_else(PoisonError::into_inner);
            counted.push(result);
        }),
        entries: BTreeMap::new(),
        busy: BTreeMap::new(),
        under_way: FuturesUnordered::new(),
    };
    assert!(
        asking
            .want(&Arc::new(keys.iter().cloned().collect()))
            .is_empty()
    );
    (asking, counted)
}

/// What is said of an answer.
fn said(change: Option<Change>) -> Option<Access> {
    match change? {
        Change::Access(_, Some(access)) => Some(Access::clone(&access)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_answer_stays_in_force_while_there_is_no_other() {
    let edge = key(None, "edge");
    let (mut asking, counted) = asking(std::slice::from_ref(&edge));
    let start = Instant::now();
    let mut take = |answer: Result<bool, &str>, seconds: u64| {
        let now = start + Duration::from_secs(seconds);
        let change = asking.take(edge.clone(), answer.map_err(str::to_owned), now);
        (said(change), asking.entries[&edge].due - now)
    };
    let unknown = Some(Access::Unknown("down".into()));
    assert_eq!(take(Err("down"), 0), (unknown, AGAIN));
    assert_eq!(take(Err("down"), 5), (None, AGAIN), "nothing new");
    assert_eq!(take(Ok(true), 10), (Some(Access::Allowed), ALLOWED));
    assert_eq!(take(Ok(true), 310), (None, ALLOWED));
    assert_eq!(take(Err("down"), 610), (None, AGAIN), "still allowed");
    assert_eq!(take(Ok(false), 615), (Some(Access::Denied), DENIED));
    assert_eq!(take(Err("down"), 675), (None, AGAIN), "still denied");
    let counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
    let failed = counted.iter().filter(|result| **result == "failed").count();
    assert_eq!((counted.len(), failed), (7, 4));
}

#[tokio::test]
async fn one_cluster_takes_no_room_from_another() {
    let many = (0..20).map(|at| key(Some("slow"), &format!("a{at:02}")));
    let all: Vec<AccessKey> = many.chain([key(None, "edge")]).collect();
    let (mut asking, _) = asking(&all);
    asking.begin(Instant::now());
    let asked = |asking: &Asking, cluster: Option<&str>| {
        let all = asking.entries.iter();
        let all = all.filter(|(key, entry)| key.cluster.as_deref() == cluster && entry.asked);
        all.count()
    };
    assert_eq!(asked(&asking, Some("slow")), AT_ONCE);
    assert_eq!(asked(&asking, None), 1);
    // Nobody wants it any more; its answer makes room all the same.
    asking.want(&Arc::default());
    let change = asking.take(all[0].clone(), Ok(true), Instant::now());
    assert_eq!(said(change), None);
    assert_eq!(asking.busy[&Some("slow".into())], AT_ONCE - 1);
}

#[tokio::test]
async fn a_cluster_without_an_api_is_a_no_that_says_why() {
    let (wanted, told) = watch::channel(ReviewsWanted::default());
    let owner = Owner::new(0, "access");
    let (out, mut said_all) = Sink::channel(owner.clone(), 8);
    let source = AccessSource {
        owner,
        wanted: told,
        apis: Apis::new("home".into()),
        told: Arc::new(|_| ()),
    };
    let stop = CancellationToken::new();
    let running = tokio::spawn(Box::new(source).run(out, stop.clone()));
    let edge = key(Some("west"), "edge");
    wanted.send_replace(Arc::new([edge.clone()].into()));
    let mut next = async || match said_all.recv().await.unwrap().event {
        SourceEvent::Changes(changes) => changes,
        other => panic!("{other:?}"),
    };
    let first = next().await.remove(0);
    let why = "the cluster has no API that could be asked";
    assert_eq!(said(Some(first)), Some(Access::Unknown(why.into())));
    wanted.send_replace(Arc::default());
    let gone = next().await;
    assert!(
        matches!(&gone[..], [Change::Access(key, None)] if *key == edge),
        "{gone:?}"
    );
    stop.cancel();
    running.await.unwrap().unwrap();
}
