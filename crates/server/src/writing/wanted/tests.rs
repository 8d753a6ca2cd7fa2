use analysis::Analysis;
use incr::Engine;
use model::{Change, Owner};
use store::Store;
use testkit::{World, settings};

use super::*;

/// A snapshot of objects of a source.
fn snapshot(source: &Owner, yaml: &str) -> Arc<Snapshot> {
    let mut store = Store::new(settings("").into());
    let put = World::objects(yaml).into_iter().map(|mut object| {
        object.set_origin(Origin::Source(source.source.clone()));
        Change::Put(source.clone(), object)
    });
    store.apply(put);
    store.snapshot()
}

const WORLD: &str = "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: bad, namespace: shop, uid: u, generation: 4}
spec: {hosts: [h.com], http: [{route: [{destination: {host: nowhere}}]}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: e, namespace: shop, uid: v, generation: 2}
spec: {hosts: [a.com, a.com, '*.b.com', c.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC}
status: {addresses: [{value: 240.240.3.4, host: c.com}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: out, namespace: shop, labels: {networking.istio.io/enable-autoallocate-ip: 'false'}}
spec: {hosts: [d.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: istio-revision-tag-default, labels: {istio.io/rev: canary}}
webhooks: []
";

#[test]
fn findings_are_written_to_istios_kinds_of_the_place() {
    let source = Owner::new(1, "api");
    let snapshot = snapshot(&source, WORLD);
    let found = Engine::new().get(&*snapshot, &Analysis);
    let mut taken = Diagnostic::new(
        "PIL0513",
        Severity::Warning,
        "another namespace has the host",
    );
    taken.object = found[0].diagnostic.object.clone();
    // One for each host.
    let derived = [taken.clone(), taken];
    let of_source = |source: &SourceId| {
        let analysed = found.iter().map(|f| &f.diagnostic);
        of_analysis(&snapshot, analysed, &derived, source)
    };
    assert!(of_source(&Owner::new(1, "folder").source).is_empty());
    let all = of_source(&source.source);
    let of = |kind, name: &str| {
        let name = ObjectName::new("shop", name);
        let wanted = &all[&ObjectKey { kind, name }];
        (wanted.generation, wanted.fields[0].value.clone())
    };
    let message = json!([{
        "level": "ERROR",
        "type": {"code": "IST0101"},
        "documentationUrl": "https://istio.io/v1.32/docs/reference/config/analysis/ist0101/",
    }, {
        "level": "WARNING",
        "type": {"code": "PIL0513"},
    }]);
    assert_eq!(of(Kind::VirtualService, "bad"), (4, message));
    assert_eq!(of(Kind::ServiceEntry, "out"), (0, Value::Null));
    assert_eq!(all.size(), 3, "no other kinds");
}

#[test]
fn facts_are_those_that_istio_goes_by() {
    let source = Owner::new(1, "api");
    let snapshot = snapshot(&source, WORLD);
    let facts = facts(&snapshot, Some(&source.source)).unwrap();
    let hosts: Vec<usize> = facts.entries.iter().map(|e| e.hosts.len()).collect();
    assert_eq!(hosts, [2, 0]);
    let entry = &facts.entries[0];
    assert!(entry.writable && entry.generation == 2);
    assert_eq!(&*entry.held[0].1, "240.240.3.4");
    let documents: Vec<Status> = documents(&snapshot, Vec::new());
    let addresses = &documents[0].status["addresses"];
    assert_eq!(
        addresses[0],
        json!({"host": "a.com", "value": "240.240.0.1"})
    );
    assert_eq!(
        addresses[2],
        json!({"host": "c.com", "value": "240.240.3.4"})
    );
    assert_eq!(&*default_revision(&snapshot), "canary");
}
