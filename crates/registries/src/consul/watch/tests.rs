use tokio::sync::mpsc;

use super::*;
use crate::consul::Options;
use crate::fixed::instance;
use crate::http::Server;

#[tokio::test]
async fn an_answer_to_a_query_that_was_given_up_is_not_told() {
    let consul = Consul::new(&Options {
        server: Server {
            tls: false,
            host: "127.0.0.1".into(),
            port: 1,
        },
        tag: "".into(),
        datacenter: "dc1".into(),
        namespace: "".into(),
        token: None,
    });
    let (to, mut reports) = mpsc::channel(8);
    let mut watch = Watch::new(consul, "dc1".into(), to);
    let query = |watch: &Watch| watch.services["a"].query.as_ref().unwrap().id();
    watch.names(vec!["a".into()]);
    let former = query(&watch);
    watch.names(Vec::new());
    watch.names(vec!["a".into()]);
    let answered = |address| Answered::Service("a".into(), vec![instance(address, 80)]);
    let now = Instant::now();
    watch
        .take(former, 7, now, answered("10.0.0.1"))
        .await
        .unwrap();
    assert!(reports.try_recv().is_err());
    let asked = query(&watch);
    watch
        .take(asked, 9, now, answered("10.0.0.2"))
        .await
        .unwrap();
    let told = vec![instance("10.0.0.2", 80)];
    let told = Report::Service("a.dc1.consul".into(), told);
    assert_eq!(reports.try_recv().unwrap(), told);
}

fn watch(services: usize) -> Watch {
    let server = Server {
        tls: false,
        host: "127.0.0.1".into(),
        port: 1,
    };
    let none: Arc<str> = "".into();
    let consul = Consul::new(&Options {
        server,
        tag: none.clone(),
        datacenter: none.clone(),
        namespace: none,
        token: None,
    });
    let (to, _) = tokio::sync::mpsc::channel(1);
    let mut watch = Watch::new(consul, "dc1".into(), to);
    watch.names((0..services).map(|n| format!("s{n:03}").into()).collect());
    for watched in watch.services.values_mut() {
        (watched.told, watched.index, watched.query) = (true, 1, None);
    }
    watch
}

fn waits(watch: &Watch) -> Vec<&str> {
    let waiting = watch.services.iter().filter(|(_, w)| w.query.is_some());
    waiting.map(|(name, _)| &**name).collect()
}

#[tokio::test]
async fn of_many_services_those_that_changed_last_have_a_query_each() {
    let mut watch = watch(SINGLE + 50);
    for n in 0..HOT + 2 {
        let name: Arc<str> = format!("s{n:03}").into();
        watch.changed(&name, 2);
        watch.service(name, 2, None);
    }
    // An answer that says nothing new makes no service one that changed.
    watch.changed(&"s199".into(), 1);
    watch.service("s199".into(), 1, None);
    let waiting = waits(&watch);
    assert_eq!(waiting.len(), HOT);
    assert_eq!((waiting[0], waiting[HOT - 1]), ("s002", "s121"));
}

#[tokio::test]
async fn of_few_services_each_has_one() {
    let mut watch = watch(SINGLE);
    for name in watch.services.keys().cloned().collect::<Vec<_>>() {
        watch.changed(&name, 1);
        watch.service(name, 1, None);
    }
    assert_eq!(waits(&watch).len(), SINGLE);
}

/// When all are asked for, in seconds from now.
fn sweep(watch: &Watch) -> Option<u64> {
    let due = watch.sweep?.duration_since(Instant::now());
    Some(due.as_secs_f64().round() as u64)
}

#[tokio::test]
async fn what_a_summary_does_not_show_is_asked_for_once_and_not_while_nothing_changes() {
    let mut watch = watch(SINGLE + 50);
    let rows = |passing: u64| {
        let row = |n| format!(r#"{{"Name": "s{n:03}", "ChecksPassing": {passing}}}"#);
        let all: Vec<String> = (0..SINGLE + 50).map(row).collect();
        Some(decode::summary(format!("[{}]", all.join(",")).as_bytes(), "").unwrap())
    };
    let busy = Some(BUSY_SWEEP.as_secs());
    let quiet = Some(SWEEP.as_secs());
    let mut late = Watch::new(watch.consul.clone(), "dc1".into(), watch.to.clone());
    late.names(watch.services.keys().cloned().collect());
    assert_eq!(waits(&late).len(), 0, "the first one is waited for");
    late.summary(rows(1));
    assert_eq!((waits(&late).len(), sweep(&late)), (SINGLE + 50, None));

    watch.summary(rows(1));
    assert_eq!(sweep(&watch), quiet, "changes before the first one");
    watch.ask_for_all();
    watch.summary(None);
    assert_eq!(sweep(&watch), None, "nothing is another");
    watch.summary(rows(1));
    assert_eq!(sweep(&watch), quiet, "something that does not show");
    watch.ask_for_all();
    watch.summary(rows(2));
    watch.summary(rows(3));
    assert_eq!(sweep(&watch), busy, "changes go on");
    watch.summary(None);
    assert_eq!(sweep(&watch), quiet, "they are over");
}
