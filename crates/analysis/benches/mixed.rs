//! Ten thousand objects of many kinds: read, judged by the rules of their kinds, and analysed together.
//!
//! `cargo bench -p pilothouse-analysis --bench mixed` prints the time of each step and the most memory that was used.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use incr::Engine;
use model::parse::Validation;
use model::settings::{Features, Settings};
use model::{Change, Owner};
use pilothouse_analysis::Analysis;
use store::{Snapshot, Store};

/// Objects made for each application.
const EACH: usize = 10;
const APPLICATIONS: usize = 1000;
const NAMESPACES: usize = 50;

fn manifests() -> String {
    let mut yaml = String::new();
    for n in 0..NAMESPACES {
        let _ = writeln!(
            yaml,
            "---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: team-{n}, labels: {{istio-injection: enabled}}}}"
        );
    }
    for i in 0..APPLICATIONS {
        let (ns, next) = (
            format!("team-{}", i % NAMESPACES),
            (i + NAMESPACES) % APPLICATIONS,
        );
        let meta = |name: &str| format!("metadata: {{name: {name}, namespace: {ns}}}");
        let app = format!("app-{i}");
        let _ = write!(
            yaml,
            "---\napiVersion: v1\nkind: Service\n{}\nspec:\n  selector: {{app: {app}}}\n  ports:\n  - {{name: http, port: 80, targetPort: 8080}}\n",
            meta(&app)
        );
        for pod in 1..=2 {
            let _ = write!(
                yaml,
                "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: {app}-{pod}\n  namespace: {ns}\n  labels: {{app: {app}, version: v{pod}}}\nspec:\n  containers:\n  - {{name: main, image: main}}\n  - {{name: istio-proxy, image: proxy}}\n"
            );
        }
        let _ = write!(
            yaml,
            "---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\n{}\nspec:\n  host: {app}\n  trafficPolicy: {{tls: {{mode: ISTIO_MUTUAL}}}}\n  subsets:\n  - {{name: v1, labels: {{version: v1}}}}\n  - {{name: v2, labels: {{version: v2}}}}\n",
            meta(&app)
        );
        let _ = write!(
            yaml,
            "---\napiVersion: networking.istio.io/v1\nkind: VirtualService\n{}\nspec:\n  hosts: [{app}, {app}.example.com]\n  gateways: [mesh, gateway-{i}]\n  http:\n  - match:\n    - uri: {{prefix: /a}}\n      headers: {{x-user: {{exact: tester}}}}\n    route:\n    - destination: {{host: {app}, subset: v2}}\n    timeout: 3s\n  - route:\n    - destination: {{host: app-{next}, port: {{number: 80}}}}\n      weight: 90\n    - destination: {{host: gone-{i}}}\n      weight: 10\n",
            meta(&app)
        );
        let _ = write!(
            yaml,
            "---\napiVersion: networking.istio.io/v1\nkind: Gateway\n{}\nspec:\n  selector: {{app: {app}}}\n  servers:\n  - port: {{number: 80, name: http, protocol: HTTP}}\n    hosts: ['{app}.example.com']\n",
            meta(&format!("gateway-{i}"))
        );
        let _ = write!(
            yaml,
            "---\napiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\n{}\nspec:\n  selector: {{matchLabels: {{app: {app}}}}}\n  rules:\n  - from:\n    - source: {{namespaces: [{ns}], principals: [cluster.local/ns/{ns}/sa/{app}]}}\n    to:\n    - operation: {{methods: [GET], paths: [/a/*]}}\n",
            meta(&app)
        );
        let _ = write!(
            yaml,
            "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\n{}\nspec:\n  hosts: [{app}.outside.example.com]\n  ports:\n  - {{number: 443, name: https, protocol: TLS}}\n  resolution: DNS\n  location: MESH_EXTERNAL\n",
            meta(&app)
        );
        let _ = write!(
            yaml,
            "---\napiVersion: telemetry.istio.io/v1\nkind: Telemetry\n{}\nspec:\n  selector: {{matchLabels: {{app: {app}}}}}\n  accessLogging:\n  - providers: [{{name: envoy}}]\n",
            meta(&app)
        );
        let _ = write!(
            yaml,
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n{}\nspec:\n  parentRefs: [{{name: public, namespace: edge}}]\n  hostnames: [{app}.example.com]\n  rules:\n  - backendRefs: [{{name: {app}, port: 80}}]\n",
            meta(&app)
        );
    }
    yaml
}

fn settings() -> Settings {
    Settings {
        mesh: Arc::new(model::mesh::default_mesh_config()),
        networks: Arc::default(),
        features: Arc::new(Features::default()),
        domain: "cluster.local".into(),
        cluster: "Kubernetes".into(),
        system_namespace: "istio-system".into(),
        access_reviews: Default::default(),
        unguessable: Default::default(),
    }
}

/// The most memory the process had, in kB.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    peak.map_or_else(|| "unknown".to_owned(), |p| p.trim().to_owned())
}

fn main() {
    let yaml = manifests();
    let before = peak();
    let start = Instant::now();
    let parsed = validate::parse(&yaml, &Path::new("mixed.yaml").into(), Validation::Strict);
    let read = start.elapsed();
    let objects = parsed.documents.len();
    assert!(
        objects >= EACH * APPLICATIONS,
        "{objects}: {:?}",
        parsed.diagnostics.first()
    );
    let source = Owner::new(0, "bench");
    let mut store = Store::new(settings().into());
    let changed = store.apply(
        parsed
            .objects()
            .map(|o| Change::Put(source.clone(), o.clone())),
    );
    let stored = start.elapsed();
    let mut engine: Engine<Snapshot> = Engine::new();
    engine.commit(changed.keys);
    let found = engine.get(&store.snapshot(), &Analysis).len();
    let all = start.elapsed();
    println!(
        "{objects} objects, {} bytes of YAML: read and judged in {read:?}, stored in {:?}, analysed in {:?}, together {all:?}",
        yaml.len(),
        stored - read,
        all - stored
    );
    println!(
        "{} findings of reading, {found} of analysis",
        parsed.diagnostics.len()
    );
    println!("memory at most {}, of which {before} before", peak());
}
