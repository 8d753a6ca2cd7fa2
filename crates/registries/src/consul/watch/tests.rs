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
