//! A source with many objects is added, restarts, is withdrawn, and is added again, beside another source with connected
//! proxies: how long each takes, and whether those proxies are sent anything.
//!
//! `cargo run --release -p pilothouse-server --example withdraw [-- OBJECTS]`

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use model::parse::{Validation, from_json};
use model::{AnyObject, Change, Owner};
use pilothouse_server::derive::{Derive, OriginLimits, Subscription};
use serde_json::{Value, json};
use xds::{Published, TypeUrl};

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// As many objects as the API store reports at once.
const PART: usize = 2048;
const NAMESPACES: usize = 100;
const PROXIES: usize = 50;

fn object(json: Value) -> anyhow::Result<AnyObject> {
    let parsed = from_json(json, &Arc::from(Path::new("made")), Validation::Strict);
    let found = parsed.documents.into_iter().find_map(|d| d.object);
    found.ok_or_else(|| anyhow::anyhow!("{:?}", parsed.diagnostics))
}

fn virtual_service(at: usize) -> Value {
    let namespace = format!("n{}", at % NAMESPACES);
    json!({"apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
        "metadata": {"name": format!("v{at}"), "namespace": namespace},
        "spec": {"hosts": [format!("v{at}.example.com")], "exportTo": ["."],
            "http": [{"route": [{"destination": {"host": format!("v{at}.example.com")}}]}]}})
}

fn service(at: usize) -> [Value; 2] {
    let namespace = format!("n{}", at % NAMESPACES);
    let name = format!("s{at}");
    let ip = format!("10.{}.{}.{}", 1 + at / 65_536, at / 256 % 256, at % 256);
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "annotations": {"networking.istio.io/exportTo": "."}},
        "spec": {"clusterIP": ip, "selector": {"app": name}, "ports": [{"name": "http", "port": 80}]}});
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": format!("{name}-x"), "namespace": namespace, "labels": {"kubernetes.io/service-name": name}},
        "endpoints": [{"addresses": [ip]}], "ports": [{"name": "http", "port": 80}]});
    [service, slice]
}

fn entry(at: usize) -> Value {
    json!({"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
        "metadata": {"name": format!("e{at}"), "namespace": "shop"},
        "spec": {"hosts": [format!("e{at}.example.com")], "resolution": "STATIC",
            "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}],
            "endpoints": [{"address": "10.200.0.1"}]}})
}

/// Another source's proxies, and what they have.
struct Bystanders {
    proxies: Vec<(Subscription, Arc<Published>)>,
}

impl Bystanders {
    async fn start(derive: &Derive) -> anyhow::Result<Self> {
        let mut proxies = Vec::new();
        for at in 0..PROXIES {
            let node = testkit::node(&json!({
                "id": format!("sidecar~10.100.0.{at}~p{at}.shop~shop.svc.cluster.local"),
                "metadata": {"NAMESPACE": "shop", "ISTIO_VERSION": "1.32.0", "LABELS": {"app": format!("p{at}")}},
            }));
            let one = derive.subscribe(node, PEER, None).await?;
            for ty in [
                TypeUrl::Cluster,
                TypeUrl::Endpoint,
                TypeUrl::Listener,
                TypeUrl::Route,
            ] {
                derive.want(one.proxy, ty)?;
            }
            proxies.push(one);
        }
        derive.ask(|_| ()).await?;
        let with = |mut one: Subscription| {
            let has = one.published.newest();
            (one, has)
        };
        let proxies = proxies.into_iter().map(with).collect();
        Ok(Self { proxies })
    }

    /// How many were given something since they came.
    fn disturbed(&mut self) -> usize {
        let differs = |(one, has): &mut (Subscription, Arc<Published>)| {
            !Arc::ptr_eq(&one.published.newest(), has)
        };
        self.proxies
            .iter_mut()
            .filter_map(|p| differs(p).then_some(()))
            .count()
    }
}

async fn timed(derive: &Derive, what: &str, changes: Vec<Change>) -> anyhow::Result<()> {
    let mut parts: Vec<Vec<Change>> = Vec::new();
    for change in changes {
        match parts.last_mut().filter(|part| part.len() < PART) {
            Some(part) => part.push(change),
            None => parts.push(vec![change]),
        }
    }
    let start = Instant::now();
    for part in parts {
        derive.change(part, Instant::now()).await?;
    }
    derive.ask(|_| ()).await?;
    println!(
        "  {what:<28} {:>6.0} ms",
        start.elapsed().as_secs_f64() * 1e3
    );
    Ok(())
}

async fn measure(what: &str, objects: Vec<AnyObject>) -> anyhow::Result<()> {
    let settings = Arc::new(testkit::settings(""));
    let (derive, _) = Derive::start(settings, OriginLimits::default(), |_| ())?;
    let own = Owner::new(10, "files");
    let entries: anyhow::Result<Vec<AnyObject>> = (0..1000).map(|at| object(entry(at))).collect();
    let entries = entries?.into_iter().map(|o| Change::Put(own.clone(), o));
    derive.change(entries.collect(), Instant::now()).await?;
    let mut bystanders = Bystanders::start(&derive).await?;
    println!(
        "{} {what}, beside {PROXIES} proxies of another source's 1000 services:",
        objects.len()
    );
    let other = Owner::new(20, "other");
    let put = || {
        objects
            .iter()
            .map(|o| Change::Put(other.clone(), o.clone()))
    };
    let synced = || other.collections().map(Change::Synced);
    let again = || {
        let restart = other.collections().map(Change::Restart);
        restart.chain(put()).chain(synced()).collect()
    };
    timed(&derive, "added", put().chain(synced()).collect()).await?;
    timed(&derive, "restarted, all the same", again()).await?;
    timed(&derive, "withdrawn", vec![Change::Gone(other.clone())]).await?;
    timed(&derive, "added again", put().chain(synced()).collect()).await?;
    let emptied = other.collections().map(Change::Restart).chain(synced());
    timed(&derive, "restarted, nothing left", emptied.collect()).await?;
    println!(
        "  proxies that were sent something: {}",
        bystanders.disturbed()
    );
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let count = std::env::args().nth(1).map_or(Ok(100_000), |n| n.parse())?;
    let rules: anyhow::Result<_> = (0..count).map(|at| object(virtual_service(at))).collect();
    measure("VirtualServices", rules?).await?;
    let services = (0..count / 2).flat_map(service).map(object);
    let services: anyhow::Result<_> = services.collect();
    measure("Services and EndpointSlices", services?).await
}
