//! Objects over a place in memory.

use serde_json::json;

use super::*;
use crate::testing::{FakeClient, FakePlace, Faults};

/// An entry of a ConfigMap.
#[derive(Clone, PartialEq, Debug)]
struct Entry(&'static str);

impl Wish for Entry {
    fn over(&self, now: Option<&Value>) -> Option<Value> {
        let mut next = now.cloned().unwrap_or_else(|| json!({"data": {}}));
        if next["data"]["ours"] == self.0 {
            return None;
        }
        next["data"]["ours"] = self.0.into();
        Some(next)
    }
}

fn object(name: &str) -> ObjectRef {
    ObjectRef {
        group: "".into(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
        plural: "configmaps".into(),
        namespace: "shop".into(),
        name: name.into(),
    }
}

fn wanted(all: &[(&str, &'static str, bool)]) -> Wanted<Entry> {
    let all = all.iter().map(|(name, value, exists)| {
        let unmet = Unmet {
            wish: Entry(value),
            exists: *exists,
        };
        (object(name), Arc::new(unmet))
    });
    Arc::new(all.collect())
}

struct Rig {
    place: FakePlace,
    client: Arc<FakeClient>,
    want: watch::Sender<Wanted<Entry>>,
    told: Arc<std::sync::Mutex<Vec<String>>>,
    stop: CancellationToken,
}

impl Rig {
    fn start() -> Self {
        let place = FakePlace::new();
        let client = place.client("ours", 1, Faults::default());
        let (want, told_of) = watch::channel(Wanted::default());
        let told: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
        let tell = told.clone();
        let listener: Listener = Arc::new(move |event| {
            tell.lock().unwrap().push(match event {
                Event::Written(object) => format!("written {}", object.name),
                Event::Refused(object, ..) => format!("refused {}", object.name),
                Event::Contended(object, truce) => {
                    format!("contended {} {}", object.name, truce.as_secs())
                }
                Event::Failed(object, error) => format!("failed {} {error}", object.name),
            });
        });
        let as_place: Arc<dyn Place> = client.clone();
        let leading = Leading::always();
        let writer = ObjectWriter::new(&as_place, &leading, told_of, listener);
        let stop = CancellationToken::new();
        tokio::spawn(writer.run(leading, stop.clone()));
        Self {
            place,
            client,
            want,
            told,
            stop,
        }
    }

    async fn pass(&self, seconds: u64) -> Vec<String> {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        std::mem::take(&mut *self.told.lock().unwrap())
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_made_and_the_rest_is_kept() {
    let rig = Rig::start();
    rig.place
        .put("them", &object("b"), json!({"data": {"theirs": "x"}}));
    // That there is none may be old news.
    rig.want.send_replace(wanted(&[
        ("a", "1", false),
        ("b", "1", false),
        ("c", "1", true),
    ]));
    let mut told = rig.pass(1).await;
    told.sort();
    assert_eq!(told, ["written a", "written b", "written c"]);
    assert_eq!(rig.place.object(&object("a"))["data"], json!({"ours": "1"}));
    let b = json!({"ours": "1", "theirs": "x"});
    assert_eq!(rig.place.object(&object("b"))["data"], b);
}

#[tokio::test(start_paused = true)]
async fn what_is_as_it_should_be_is_not_written_and_seldom_read() {
    let rig = Rig::start();
    rig.place
        .put("them", &object("a"), json!({"data": {"ours": "1"}}));
    rig.want.send_replace(wanted(&[("a", "1", true)]));
    assert_eq!(rig.pass(250).await, [""; 0]);
    assert_eq!(rig.client.requests(), 1);
    rig.pass(100).await;
    assert_eq!(rig.client.requests(), 2);
    // Something else is no reason to wait.
    rig.want.send_replace(wanted(&[("a", "2", true)]));
    assert_eq!(rig.pass(1).await, ["written a"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_changed_back_is_let_be_for_longer_and_longer() {
    let rig = Rig::start();
    rig.want.send_replace(wanted(&[("a", "1", false)]));
    let mut contended = 0;
    for _ in 0..600 {
        for told in rig.pass(6).await {
            contended += usize::from(told.starts_with("contended"));
            // Who knows what is wanted hears of the write, and of its end.
            rig.want.send_replace(Wanted::default());
            rig.pass(1).await;
            let theirs = json!({"data": {"ours": "theirs"}});
            rig.place.put("them", &object("a"), theirs);
            rig.want.send_replace(wanted(&[("a", "1", true)]));
        }
    }
    let written = rig.place.written();
    let ours = written.iter().filter(|w| &*w.by == "ours").count();
    // In an hour and ten minutes: three at once, then after 20 s, 40 s, ...
    assert!((8..=14).contains(&ours), "{ours}");
    assert!(contended >= 5, "{contended}");
}

#[tokio::test(start_paused = true)]
async fn many_objects_are_written_at_a_bounded_rate() {
    let rig = Rig::start();
    let names: Vec<String> = (0..600).map(|at| format!("a{at:03}")).collect();
    let all: Vec<(&str, &'static str, bool)> = names
        .iter()
        .map(|name| (name.as_str(), "1", false))
        .collect();
    rig.want.send_replace(wanted(&all));
    let first = rig.pass(1).await.len();
    assert!((100..=160).contains(&first), "{first}");
    let rest = rig.pass(10).await.len();
    assert_eq!(first + rest, 600);
}
