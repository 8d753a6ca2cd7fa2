//! What the program takes to read a Nacos with many services.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::channel::{Caller, Channel};
use super::credentials::Proof;
use super::message;
use super::names::Key;
use crate::backends::scale::{INSTANCES, Program, address, services};
use crate::backends::{Backend, eventually};

/// Who waits for a service to be something else.
type Waiting = Arc<Mutex<HashMap<Key, oneshot::Sender<Instant>>>>;

/// Registers the first instances of a service, in place of those that were registered before.
async fn register(caller: &Caller, number: usize, instances: usize) {
    let instances: Vec<_> = (0..instances)
        .map(|n| {
            json!({"ip": address(number, n), "port": 8080, "weight": 1.0, "healthy": true, "enabled": true, "ephemeral": true,
                "metadata": {"version": "v1", "protocol": "http", "zone": "cn-shanghai-g"}})
        })
        .collect();
    let said = json!({"namespace": "public", "groupName": "DEFAULT_GROUP", "serviceName": format!("svc-{number}"),
        "type": "batchRegisterInstance", "instances": instances});
    let none = Proof::none();
    eventually(async || caller.call("BatchInstanceRequest", &said, &none).await.ok()).await;
}

/// Lets the server know that a connection is alive, or it ends, and with it what it registered.
async fn beat(caller: Caller) {
    let none = Proof::none();
    while caller
        .call("HealthCheckRequest", &json!({}), &none)
        .await
        .is_ok()
    {
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
}

/// Answers the server, and tells whoever waits for a service when it is told of it.
async fn hear(mut channel: Channel, waiting: Waiting) {
    while let Ok(payload) = channel.hear().await {
        let at = Instant::now();
        let Ok(request) = message::read::<message::Request>(payload.json()) else {
            continue;
        };
        let answer = payload.kind().replace("Request", "Response");
        let id = request.request_id.as_deref().unwrap_or_default();
        let said = json!({"resultCode": 200, "success": true, "requestId": id});
        channel.say(&answer, &said).unwrap();
        if let Some((key, _)) = request.pushed()
            && let Some(one) = waiting.lock().unwrap().remove(&key)
        {
            one.send(at).unwrap();
        }
    }
}

/// A plain client that subscribes to services.
pub(crate) struct Subscriber {
    caller: Caller,
    waiting: Waiting,
}

impl Subscriber {
    pub(crate) async fn connect(grpc: &str) -> Self {
        let waiting = Waiting::default();
        let caller = connect(grpc, &waiting).await;
        Self { caller, waiting }
    }

    /// When a service is told to be something else than it is now.
    pub(crate) async fn told(&self, name: &str) -> JoinHandle<Instant> {
        let said = json!({"namespace": "public", "groupName": "DEFAULT_GROUP", "serviceName": name, "type": "",
            "subscribe": true});
        let none = Proof::none();
        let done = self
            .caller
            .call("SubscribeServiceRequest", &said, &none)
            .await;
        done.unwrap();
        let (tell, told) = oneshot::channel();
        let key = Key::read(name, &"DEFAULT_GROUP".into()).unwrap();
        self.waiting.lock().unwrap().insert(key, tell);
        tokio::spawn(async { told.await.unwrap() })
    }
}

/// Connects as a client does that stays.
async fn connect(grpc: &str, waiting: &Waiting) -> Caller {
    let channel = Channel::open(grpc).await.unwrap();
    let caller = channel.caller.clone();
    tokio::spawn(beat(caller.clone()));
    tokio::spawn(hear(channel, waiting.clone()));
    caller
}

/// 5,000 services of 20 instances.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: benches/registries runs it"]
async fn many_services_of_nacos() {
    let Some(backend) = Backend::start("nacos", 18860, &[]) else {
        return;
    };
    let grpc = format!("127.0.0.1:{}", backend.port + 1000);
    // One registers, one waits: a server does not tell a connection of what it registered itself.
    let registers = connect(&grpc, &Waiting::default()).await;
    let subscriber = Subscriber::connect(&grpc).await;
    for number in 0..services() {
        register(&registers, number, INSTANCES).await;
    }
    let registry = format!("nacos2://127.0.0.1:{}/?name=scale", backend.port);
    let program = Program::start(&registry, 18870, &[]);
    let measured = program.measure(0, async |number| {
        let plain = subscriber.told(&format!("svc-{number}")).await;
        let at = Instant::now();
        register(&registers, number, INSTANCES + 1).await;
        (at, plain)
    });
    measured.await;
}
