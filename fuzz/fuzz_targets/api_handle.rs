//! Whole requests of the Kubernetes API over a store: any query (selectors, continue tokens, options), any body of any type to
//! kinds of every sort: no panic, an answer, and the store as it was, since every write is a dry run.
#![no_main]

use std::sync::{Arc, LazyLock};

use apiserver::access::{Access, Who};
use apiserver::api::{Api, Request};
use apiserver::audit::Audit;
use apiserver::store::{Keep, Store};
use http::Method;
use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};

const PATHS: [&str; 12] = [
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/services",
    "/api/v1/namespaces",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/batch/v1/namespaces/default/cronjobs",
    "/apis/example.com/v1/namespaces/default/bikes",
    "/apis/gateway.networking.k8s.io/v1/namespaces/default/httproutes",
    "/apis/networking.istio.io/v1/namespaces/default/virtualservices",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
];

const KINDS: [&str; 8] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "text/plain",
];

/// What is there to be changed, by path.
const OBJECTS: [(&str, &str); 5] = [
    (
        PATHS[0],
        r#"{"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v"}}"#,
    ),
    (
        PATHS[1],
        r#"{"metadata": {"name": "a"}, "stringData": {"k": "v"}}"#,
    ),
    (
        PATHS[5],
        r#"{"metadata": {"name": "bikes.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "bikes", "kind": "Bike"}, "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "n": {"type": "array", "maxItems": 9, "items": {"type": "integer"}}, "s": {"type": "string", "maxLength": 9}},
            "x-kubernetes-validations": [{"rule": "!has(self.n) || self.n.all(x, x < 9)"}]}}}}}]}}"#,
    ),
    (
        PATHS[8],
        r#"{"metadata": {"name": "a"}, "spec": {"n": [1, 2]}}"#,
    ),
    (
        PATHS[10],
        r#"{"metadata": {"name": "a"}, "spec": {"hosts": ["a.com"], "http": [{"route": [{"destination": {"host": "a.com"}}]}]}}"#,
    ),
];

struct World {
    runtime: Runtime,
    api: Arc<Api>,
    _folder: tempfile::TempDir,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let runtime = Builder::new_current_thread()
        .build()
        .expect("a runtime can be made");
    let store = Store::open(folder.path(), Keep::default()).expect("an empty store opens");
    let api = Api::start(store, Access::default(), Audit::default(), &["default"]);
    let api = runtime
        .block_on(api)
        .expect("an API over an empty store starts");
    for (path, object) in OBJECTS {
        let request = Request::new(Method::POST, path, Who::local());
        let request = request.with_body("application/json", object);
        let status = runtime.block_on(api.handle(request)).status();
        assert!(status.is_success(), "{path}: {status}");
    }
    World {
        runtime,
        api,
        _folder: folder,
    }
});

fuzz_target!(|input: (u8, u8, u8, bool, &str, &str, &[u8])| {
    let (method, path, kind, named, name, query, body) = input;
    let pick = |list: &[&'static str], at: u8| list[usize::from(at) % list.len()];
    let method = match method % 5 {
        0 => Method::GET,
        1 => Method::POST,
        2 => Method::PUT,
        3 => Method::PATCH,
        _ => Method::DELETE,
    };
    let writes = if method == Method::GET {
        ""
    } else {
        "dryRun=All&fieldManager=fuzz&"
    };
    let name = match (named, name) {
        (false, _) => String::new(),
        (true, "") => "/a".to_owned(),
        (true, name) => format!("/{}", name.replace('?', "")),
    };
    let uri = format!("{}{name}?{writes}{query}", pick(&PATHS, path));
    let request =
        Request::new(method, &uri, Who::local()).with_body(pick(&KINDS, kind), body.to_vec());
    let before = WORLD.api.store().read().revision();
    let response = WORLD.runtime.block_on(WORLD.api.handle(request));
    assert!(response.status() != 500, "{uri}");
    assert_eq!(WORLD.api.store().read().revision(), before, "{uri}");
});
