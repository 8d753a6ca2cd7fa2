//! What owners hold, in whatever order they say it, restart, and go.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod model_store;
mod property;

use std::sync::Arc;

use model::change::ServiceKey;
use model::closed::Closed;
use model::kinds::kube::Pod;
use model::service::{Address, Endpoint};
use model::{
    AnyObject, Change, Collection, Contents, Hostname, Kind, ObjectKey, ObjectName, Owner, ShardKey,
};
use pilothouse_store::{ChangeSet, Input, Store};
use testkit::{World, settings};

fn store() -> Store {
    Store::new(settings("").into())
}

fn in_cluster(rank: u8, name: &str, cluster: &str) -> Owner {
    Owner {
        cluster: Some(cluster.into()),
        ..Owner::new(rank, name)
    }
}

fn entry(name: &str, host: &str) -> AnyObject {
    let yaml = format!(
        "{{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {{name: {name}, namespace: shop}}, \
         spec: {{hosts: [{host}], ports: [{{number: 80, name: http, protocol: HTTP}}], resolution: DNS}}}}"
    );
    World::objects(&yaml).remove(0)
}

/// The substitute of an entry that was rejected.
fn closed(name: &str, host: &str) -> AnyObject {
    let mut object = entry(name, host);
    if let AnyObject::ServiceEntry(entry) = &mut object {
        let (path, why) = ("spec".into(), "it is not valid".into());
        Arc::make_mut(entry).meta.closed = Some(Arc::new(Closed { path, why }));
    }
    object
}

fn pod(name: &str, ip: &str) -> AnyObject {
    let yaml = format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: shop, labels: {{app: a}}}}, \
         spec: {{}}, status: {{podIP: {ip}}}}}"
    );
    World::objects(&yaml).remove(0)
}

fn collection(owner: &Owner, of: Contents) -> Collection {
    let owner = owner.clone();
    Collection { owner, of }
}

const ENTRIES: Contents = Contents::Objects(Kind::ServiceEntry);

fn put(owner: &Owner, object: AnyObject) -> Change {
    Change::Put(owner.clone(), object)
}

fn restart(owner: &Owner, of: Contents) -> Change {
    Change::Restart(collection(owner, of))
}

fn synced(owner: &Owner, of: Contents) -> Change {
    Change::Synced(collection(owner, of))
}

#[test]
fn what_is_kept_stays_as_it_was_told() {
    let (mut store, owner) = (store(), Owner::new(1, "a"));
    let key = |name: &str| ObjectKey {
        kind: Kind::ServiceEntry,
        name: ObjectName::new("shop", name),
    };
    store.apply([
        put(&owner, entry("a", "a.com")),
        put(&owner, entry("b", "b.com")),
    ]);
    store.apply([
        restart(&owner, ENTRIES),
        Change::Keep(owner.clone(), key("a"), Vec::new()),
        Change::Keep(owner.clone(), key("c"), Vec::new()),
        synced(&owner, ENTRIES),
    ]);
    assert_eq!(host_of(&store, "a").as_deref(), Some("a.com"));
    assert_eq!(host_of(&store, "b"), None, "it was not told again");
    assert_eq!(host_of(&store, "c"), None, "it was never told");
}

#[test]
fn a_substitute_counts_until_there_is_a_valid_version() {
    let (mut store, owner) = (store(), Owner::new(1, "a"));
    let key = entry("a", "x").key();
    let keep = |substitute: Option<AnyObject>| {
        let substitutes = substitute.into_iter().collect();
        Change::Keep(owner.clone(), key.clone(), substitutes)
    };
    store.apply([keep(Some(closed("a", "first")))]);
    assert_eq!(host_of(&store, "a").as_deref(), Some("first"));
    store.apply([
        restart(&owner, ENTRIES),
        keep(Some(closed("a", "second"))),
        synced(&owner, ENTRIES),
    ]);
    assert_eq!(
        host_of(&store, "a").as_deref(),
        Some("second"),
        "it is the newest version's"
    );
    store.apply([put(&owner, entry("a", "valid"))]);
    store.apply([keep(Some(closed("a", "third")))]);
    assert_eq!(
        host_of(&store, "a").as_deref(),
        Some("valid"),
        "it is known"
    );
    store.apply([Change::Delete(owner.clone(), key.clone())]);
    store.apply([keep(Some(closed("a", "fourth")))]);
    store.apply([keep(None)]);
    assert_eq!(
        host_of(&store, "a"),
        None,
        "the newest version protects nothing"
    );
    store.apply([
        keep(Some(closed("a", "fifth"))),
        Change::Delete(owner.clone(), key.clone()),
    ]);
    assert_eq!(host_of(&store, "a"), None, "it is deleted");
}

#[test]
fn what_stands_beside_a_substitute_goes_with_it() {
    let (mut store, owner) = (store(), Owner::new(1, "a"));
    let key = entry("a", "x").key();
    let keep = |names: &[&str]| {
        let substitutes = names.iter().map(|name| closed(name, name)).collect();
        Change::Keep(owner.clone(), key.clone(), substitutes)
    };
    let hosts = |store: &Store| {
        let names = ["a", "a-2", "a-3"].into_iter();
        names
            .filter_map(|name| host_of(store, name))
            .collect::<Vec<_>>()
    };
    store.apply([keep(&["a", "a-2", "a-3"])]);
    assert_eq!(hosts(&store), ["a", "a-2", "a-3"]);
    let same = store.apply([keep(&["a", "a-2", "a-3"])]);
    assert!(same.is_empty(), "{same:?}");
    store.apply([keep(&["a", "a-2"])]);
    assert_eq!(hosts(&store), ["a", "a-2"], "one host fewer is named");
    store.apply([put(&owner, entry("a", "valid"))]);
    assert_eq!(hosts(&store), ["valid"], "it is valid");
    store.apply([keep(&["a", "a-2"])]);
    assert_eq!(hosts(&store), ["valid"], "what was valid is in force");
    store.apply([Change::Delete(owner.clone(), key.clone())]);
    store.apply([keep(&["a", "a-2"])]);
    store.apply([restart(&owner, ENTRIES), synced(&owner, ENTRIES)]);
    assert!(hosts(&store).is_empty(), "it was not told again");
    store.apply([keep(&["a", "a-2"])]);
    store.apply([Change::Delete(owner.clone(), key.clone())]);
    assert!(hosts(&store).is_empty(), "it is deleted");
}

fn host_of(store: &Store, name: &str) -> Option<String> {
    let snapshot = store.snapshot();
    let entry = snapshot
        .tables
        .service_entries
        .get(&ObjectName::new("shop", name))?;
    entry.spec.hosts.first().cloned()
}

fn names(changes: &ChangeSet) -> Vec<String> {
    let objects = changes.objects.iter();
    objects.map(|key| key.name.to_string()).collect()
}

#[test]
fn a_restart_that_says_the_same_again_changes_nothing() {
    let files = Owner::new(10, "files");
    let mut store = store();
    store.apply([
        put(&files, entry("a", "a.com")),
        put(&files, entry("b", "b.com")),
    ]);
    let again = store.apply([
        restart(&files, ENTRIES),
        put(&files, entry("b", "b.com")),
        put(&files, entry("a", "a.com")),
        synced(&files, ENTRIES),
    ]);
    assert!(again.is_empty(), "{:?}", names(&again));
}

#[test]
fn what_is_not_said_again_stays_until_the_collection_is_in_sync() {
    let files = Owner::new(10, "files");
    let mut store = store();
    store.apply([
        put(&files, entry("a", "a.com")),
        put(&files, entry("b", "b.com")),
        put(&files, pod("p", "10.0.0.1")),
    ]);
    let begun = store.apply([restart(&files, ENTRIES), put(&files, entry("b", "b.com"))]);
    assert!(begun.is_empty());
    // Another kind is in sync, or begins anew: that is nothing to this one.
    let pods = Contents::Objects(Kind::Pod);
    let other = store.apply([synced(&files, pods), restart(&files, pods)]);
    assert!(other.is_empty());
    assert_eq!(host_of(&store, "a").as_deref(), Some("a.com"));
    let done = store.apply([synced(&files, ENTRIES)]);
    assert_eq!(names(&done), ["shop/a"]);
    assert_eq!(host_of(&store, "a"), None);
    assert_eq!(host_of(&store, "b").as_deref(), Some("b.com"));
    assert_eq!(store.snapshot().tables.pods.len(), 1);
}

#[test]
fn an_owner_that_goes_takes_its_own_and_no_more() {
    let (files, api) = (Owner::new(10, "files"), Owner::new(200, "api"));
    let mut store = store();
    store.apply([
        put(&files, entry("both", "files.com")),
        put(&api, entry("both", "api.com")),
        put(&files, entry("own", "own.com")),
        put(&api, entry("other", "other.com")),
    ]);
    assert_eq!(host_of(&store, "both").as_deref(), Some("files.com"));
    assert_eq!(store.snapshot().contested.size(), 1);
    let gone = store.apply([Change::Gone(files.clone())]);
    assert_eq!(names(&gone), ["shop/both", "shop/own"]);
    assert!(gone.contested);
    assert_eq!(host_of(&store, "both").as_deref(), Some("api.com"));
    assert!(store.snapshot().contested.is_empty());
    let row = Input::Row(Kind::ServiceEntry, &ObjectName::new("shop", "other")).key();
    assert!(!gone.keys.contains(&row));
    assert!(store.apply([Change::Gone(files)]).is_empty());
}

#[test]
fn a_namespace_that_says_nothing_of_its_own_is_contested_by_nobody() {
    let (files, api) = (Owner::new(10, "files"), Owner::new(200, "api"));
    let namespace = |labels: &str| {
        let yaml = format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: infra, labels: {{{labels}}}}}}}"
        );
        World::objects(&yaml).remove(0)
    };
    let mut store = store();
    store.apply([put(&files, namespace("team: a"))]);
    for (labels, expected) in [
        ("kubernetes.io/metadata.name: infra", 0),
        ("team: a, kubernetes.io/metadata.name: infra", 0),
        ("team: b", 1),
        ("stage: test", 1),
        ("team: a", 0),
    ] {
        store.apply([put(&api, namespace(labels))]);
        assert_eq!(store.snapshot().contested.size(), expected, "{labels}");
    }
}

#[test]
fn equal_names_of_two_clusters_are_two_objects_of_workloads_and_one_of_configuration() {
    let own = Owner::new(10, "kubernetes");
    let (east, west) = (
        in_cluster(20, "kubernetes:east", "east"),
        in_cluster(20, "kubernetes:west", "west"),
    );
    let mut store = store();
    store.apply([
        put(&west, pod("p", "10.0.0.3")),
        put(&east, pod("p", "10.0.0.2")),
        put(&own, pod("p", "10.0.0.1")),
        put(&west, entry("e", "west.com")),
        put(&east, entry("e", "east.com")),
    ]);
    let snapshot = store.snapshot();
    let name = ObjectName::new("shop", "p");
    let ip = |pod: &Arc<model::Object<Pod>>| pod.status.pod_ip.to_string();
    let pods: Vec<String> = snapshot.tables.pods.namesakes(&name).map(ip).collect();
    assert_eq!(pods, ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    let of_west = snapshot
        .tables
        .pods
        .get(&name.in_cluster(Some(&"west".into())));
    assert_eq!(of_west.map(ip).as_deref(), Some("10.0.0.3"));
    assert_eq!(host_of(&store, "e").as_deref(), Some("east.com"));
    let contested: Vec<String> = snapshot.contested.keys().map(|k| k.to_string()).collect();
    assert_eq!(contested, ["ServiceEntry shop/e"]);
    let gone = store.apply([Change::Gone(east)]);
    assert_eq!(names(&gone), ["shop/e", "shop/p (cluster east)"]);
    assert_eq!(host_of(&store, "e").as_deref(), Some("west.com"));
}

#[test]
fn an_object_is_stored_in_the_cluster_of_its_owner_whatever_it_says() {
    let west = in_cluster(20, "kubernetes:west", "west");
    let mut lying = pod("p", "10.0.0.1");
    lying.set_cluster(Some(&"east".into()));
    let key = lying.key();
    let mut store = store();
    store.apply([put(&west, lying)]);
    assert_eq!(
        names(&store.apply([Change::Delete(west, key)])),
        ["shop/p (cluster west)"]
    );
    assert!(store.snapshot().tables.pods.is_empty());
}

fn endpoints(owner: &Owner, shard: &str, ips: &[&str]) -> Change {
    let endpoint = |ip: &&str| Endpoint {
        address: Address::Socket {
            hosts: Arc::from([Arc::from(*ip)]),
            port: 80,
        },
        ..Endpoint::default()
    };
    Change::Endpoints {
        owner: owner.clone(),
        service: service(),
        shard: shard_key(shard),
        list: ips.iter().map(endpoint).collect(),
    }
}

fn service() -> ServiceKey {
    ServiceKey {
        namespace: "shop".into(),
        host: Hostname::from("reviews.consul"),
    }
}

fn shard_key(cluster: &str) -> ShardKey {
    ShardKey {
        provider: "Consul".into(),
        cluster: cluster.into(),
    }
}

/// The addresses of the service; `None` where it is not known.
fn addresses(store: &Store) -> Option<Vec<String>> {
    let snapshot = store.snapshot();
    let shards = snapshot.shards.get(&service())?;
    let all = shards.endpoints().map(|e| e.address.primary().to_owned());
    Some(all.collect())
}

#[test]
fn a_service_goes_with_the_last_shard_that_tells_of_it_and_not_with_its_endpoints() {
    let (one, two) = (Owner::new(0, "one"), Owner::new(0, "two"));
    let mut store = store();
    let delete = |owner: &Owner, shard: &str| Change::DeleteEndpoints {
        owner: owner.clone(),
        service: service(),
        shard: shard_key(shard),
    };
    store.apply([endpoints(&one, "a", &[])]);
    assert_eq!(addresses(&store), None, "nothing makes no service known");
    store.apply([endpoints(&one, "a", &["10.0.0.1"])]);
    store.apply([endpoints(&two, "a", &["10.0.0.2"])]);
    assert_eq!(addresses(&store).unwrap(), ["10.0.0.1", "10.0.0.2"]);
    store.apply([endpoints(&one, "a", &[]), endpoints(&two, "a", &[])]);
    assert_eq!(addresses(&store).unwrap(), [""; 0]);
    store.apply([delete(&one, "a")]);
    assert_eq!(addresses(&store).unwrap(), [""; 0], "another knows of it");
    assert!(store.apply([delete(&one, "a")]).is_empty());
    let last = store.apply([delete(&two, "a")]);
    assert_eq!(last.keys, [Input::Shards(&service()).key()]);
    assert_eq!(addresses(&store), None);
}

#[test]
fn shards_go_with_their_owner_and_with_a_restart_that_does_not_name_them() {
    let (one, two) = (Owner::new(0, "one"), Owner::new(0, "two"));
    let mut store = store();
    store.apply([
        endpoints(&one, "a", &["10.0.0.1"]),
        endpoints(&one, "b", &["10.0.0.2"]),
        endpoints(&two, "a", &["10.0.0.3"]),
    ]);
    let again = store.apply([
        restart(&one, Contents::Endpoints),
        endpoints(&one, "b", &["10.0.0.2"]),
    ]);
    assert!(again.is_empty());
    store.apply([synced(&one, Contents::Endpoints)]);
    assert_eq!(addresses(&store).unwrap(), ["10.0.0.3", "10.0.0.2"]);
    store.apply([Change::Gone(two)]);
    assert_eq!(addresses(&store).unwrap(), ["10.0.0.2"]);
    store.apply([Change::Gone(one)]);
    assert_eq!(addresses(&store), None);
}

#[test]
fn whose_version_is_in_force_is_known() {
    let (files, api) = (Owner::new(10, "files"), Owner::new(200, "api"));
    let mut store = store();
    store.apply([put(&api, entry("a", "a.com"))]);
    let key = entry("a", "").key();
    let owner = |store: &Store| {
        let snapshot = store.snapshot();
        snapshot.tables.owner_of(&key).unwrap().to_string()
    };
    assert_eq!(owner(&store), "api");
    // The same object: whose it is differs, what it means does not.
    assert!(store.apply([put(&files, entry("a", "a.com"))]).is_empty());
    assert_eq!(owner(&store), "files");
}
