//! Sets over a place in memory.

use super::desk::{LONGEST_PAUSE, LONGEST_TRUCE, ROUNDS};
use super::*;
use crate::testing::{FakeClient, FakePlace, Faults};

const MARK: &str = "ours";

/// Objects with a mark are ours, and owners that nobody else has.
struct Marked;

impl Manner for Marked {
    fn manager(&self) -> &str {
        "ours"
    }

    fn claim(&self, owner: &Value) -> Claim {
        match owner["metadata"]["annotations"]["by"].as_str() {
            Some("ours") => Claim::Held,
            Some(_) => Claim::Theirs,
            None => Claim::Taken(annotated("by", "ours")),
        }
    }

    fn over(&self, wanted: &Value, now: &Value) -> Option<Value> {
        let marked = now["metadata"]["labels"][MARK].is_string();
        marked.then(|| wanted.clone())
    }

    fn is_left_over(&self, owner: &Value, now: &Value) -> bool {
        now["metadata"]["labels"][MARK] == owner["metadata"]["uid"]
    }
}

fn object(kind: &str, name: &str) -> ObjectRef {
    ObjectRef {
        group: "".into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: format!("{}s", kind.to_lowercase()).into(),
        namespace: "shop".into(),
        name: name.into(),
    }
}

fn service(data: i32) -> Value {
    json!({"metadata": {"labels": {MARK: "uid-1"}}, "spec": {"data": data}})
}

struct Rig {
    place: FakePlace,
    client: Arc<FakeClient>,
    want: watch::Sender<Sets>,
    touched: Touched,
    told: Arc<Mutex<Vec<String>>>,
    _stop: tokio_util::sync::DropGuard,
}

impl Rig {
    fn start() -> Self {
        let place = FakePlace::new();
        place.put("kubectl", &object("Gateway", "web"), json!({"spec": {}}));
        let client = place.client("ours", 1, Faults::default());
        let (want, wanted) = watch::channel(Sets::default());
        let (touched, told) = (Touched::default(), Arc::<Mutex<Vec<String>>>::default());
        let tell = told.clone();
        let listener: Listener = Arc::new(move |event| {
            let text = match event {
                Event::Applied(_) => "applied".to_owned(),
                Event::Foreign(_, foreign) => format!("foreign {}", foreign[0].name),
                Event::Refused(_, object, ..) => format!("refused {}", object.name),
                Event::Contended(..) => "contended".to_owned(),
                Event::Failed(_, object, error) => format!("failed {} {error}", object.name),
            };
            tell.lock().unwrap().push(text);
        });
        let as_place: Arc<dyn Place> = client.clone();
        let leading = Leading::always();
        let writer = SetWriter::new(
            &as_place,
            &leading,
            Marked,
            wanted,
            touched.clone(),
            listener,
        );
        let stop = CancellationToken::new();
        tokio::spawn(writer.run(leading, stop.clone()));
        Self {
            place,
            client,
            want,
            touched,
            told,
            _stop: stop.drop_guard(),
        }
    }

    fn want(&self, objects: &[(&str, i32)], unwanted: &[&str]) {
        let objects = objects.iter();
        let set = Set {
            uid: "uid-1".into(),
            objects: objects
                .map(|(n, v)| (object("Service", n), service(*v)))
                .collect(),
            unwanted: unwanted.iter().map(|n| object("Service", n)).collect(),
        };
        let sets = [(object("Gateway", "web"), Arc::new(set))];
        self.want.send_replace(Arc::new(sets.into()));
    }

    fn data(&self, name: &str) -> Value {
        self.place.object(&object("Service", name))["spec"]["data"].clone()
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

/// Paused clocks go on once nothing else can.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

#[tokio::test(start_paused = true)]
async fn a_set_is_applied_once_and_its_owner_claimed() {
    let rig = Rig::start();
    rig.want(&[("a", 1), ("b", 2)], &[]);
    settle().await;
    assert_eq!((rig.data("a"), rig.data("b")), (json!(1), json!(2)));
    let owner = rig.place.object(&object("Gateway", "web"));
    assert_eq!(owner["metadata"]["annotations"]["by"], "ours");
    assert_eq!(rig.told(), ["applied"]);
    let requests = rig.client.requests();
    // Nothing is asked for what is as it was, however often it is wanted.
    rig.want(&[("a", 1), ("b", 2)], &[]);
    tokio::time::sleep(Duration::from_secs(7200)).await;
    assert_eq!(rig.client.requests(), requests);
    rig.want(&[("a", 1), ("b", 3)], &[]);
    settle().await;
    assert_eq!(rig.data("b"), 3);
}

#[tokio::test(start_paused = true)]
async fn what_is_somebody_elses_stays() {
    let rig = Rig::start();
    rig.place.put(
        "kubectl",
        &object("Service", "a"),
        json!({"spec": {"data": 7}}),
    );
    rig.want(&[("a", 1), ("b", 2)], &[]);
    settle().await;
    assert_eq!((rig.data("a"), rig.data("b")), (json!(7), json!(2)));
    assert_eq!(rig.told(), ["foreign a"]);
    // So is an owner that another controller has, and one that is another object by now.
    let owner = object("Gateway", "web");
    rig.place.put("other", &owner, annotated("by", "other"));
    rig.want(&[("b", 3)], &[]);
    settle().await;
    assert_eq!(rig.data("b"), 2);
    rig.place.remove("kubectl", &owner);
    rig.place.put("kubectl", &owner, json!({}));
    rig.want(&[("b", 4)], &[]);
    settle().await;
    assert_eq!(rig.data("b"), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_over_goes() {
    let rig = Rig::start();
    rig.want(&[("a", 1), ("b", 2)], &[]);
    settle().await;
    rig.place.put(
        "kubectl",
        &object("Service", "c"),
        json!({"spec": {"data": 7}}),
    );
    rig.want(&[("a", 1)], &["b", "c", "d"]);
    settle().await;
    assert_eq!((rig.data("b"), rig.data("c")), (Value::Null, json!(7)));
}

#[tokio::test(start_paused = true)]
async fn what_others_change_is_applied_again_and_left_to_them_in_the_end() {
    let rig = Rig::start();
    rig.want(&[("a", 1)], &[]);
    settle().await;
    let object = object("Service", "a");
    let tell = |rig: &Rig| rig.touched.tell(&object, &rig.place.object(&object));
    // What is as it was applied is no news, whatever its status says.
    rig.place
        .put_status("kubelet", &object, json!({"ready": true}));
    let requests = rig.client.requests();
    tell(&rig);
    settle().await;
    assert_eq!(rig.client.requests(), requests);
    rig.told();
    for _ in 0..ROUNDS - 1 {
        rig.place.put("other", &object, service(9));
        tell(&rig);
        settle().await;
        assert_eq!(rig.data("a"), 1);
    }
    assert!(!rig.told().contains(&"contended".to_owned()));
    rig.place.put("other", &object, service(9));
    tell(&rig);
    settle().await;
    assert_eq!(rig.told(), ["applied", "contended"]);
    rig.place.put("other", &object, service(9));
    tell(&rig);
    settle().await;
    assert_eq!(rig.data("a"), 9);
    tokio::time::sleep(LONGEST_TRUCE).await;
    assert_eq!(rig.data("a"), 1);
    // Who deletes it gets it back.
    rig.place.remove("other", &object);
    rig.touched.tell(&object, &Value::Null);
    tokio::time::sleep(LONGEST_TRUCE).await;
    assert_eq!(rig.data("a"), 1);
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again() {
    let rig = Rig::start();
    rig.client.set_faults(Faults {
        lost: 1000,
        ..Faults::default()
    });
    rig.want(&[("a", 1)], &[]);
    settle().await;
    assert!(rig.told()[0].starts_with("failed web"));
    rig.client.set_faults(Faults::default());
    tokio::time::sleep(LONGEST_PAUSE).await;
    assert_eq!(rig.data("a"), 1);
}
