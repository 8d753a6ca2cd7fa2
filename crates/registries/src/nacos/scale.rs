//! What the program takes to read a Nacos with many services.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::channel::{Caller, Channel};
use super::credentials::Proof;
use super::message;
use super::names::Key;
use crate::backends::scale::{INSTANCES, Program, address, services};
use crate::backends::{Backend, eventually};

/// Who waits for a service to be something else.
type Waiting = Arc<Mutex<HashMap<Key, oneshot::Sender<Instant>>>>;

/// What is said of a service.
fn service(kind: &str, service: usize) -> Value {
    json!({"namespace": "public", "groupName": "DEFAULT_GROUP", "serviceName": format!("svc-{service}"), "type": kind})
}

/// Registers the first instances of a service, in place of those that were registered before.
async fn register(caller: &Caller, number: usize, instances: usize) {
    let instances: Vec<_> = (0..instances)
        .map(|n| {
            json!({"ip": address(number, n), "port": 8080, "weight": 1.0, "healthy": true, "enabled": true, "ephemeral": true,
                "metadata": {"version": "v1", "protocol": "http", "zone": "cn-shanghai-g"}})
        })
        .collect();
    let mut said = service("batchRegisterInstance", number);
    said["instances"] = instances.into();
    let none = Proof::none();
    eventually(async || caller.call("BatchInstanceRequest", &said, &none).await.ok()).await;
}

/// Subscribes to a service.
async fn subscribe(caller: &Caller, number: usize) {
    let mut said = service("", number);
    said["subscribe"] = true.into();
    let none = Proof::none();
    let done = caller.call("SubscribeServiceRequest", &said, &none).await;
    done.unwrap();
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

/// 5,000 services of 20 instances.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures: benches/registries runs it"]
async fn many_services_of_nacos() {
    let Some(backend) = Backend::start("nacos", 18860, &[]) else {
        return;
    };
    let grpc = format!("127.0.0.1:{}", backend.port + 1000);
    let mut callers = Vec::new();
    let waiting = Waiting::default();
    // One registers, one waits: a server does not tell a connection of what it registered itself.
    for _ in 0..2 {
        let channel = Channel::open(&grpc).await.unwrap();
        callers.push(channel.caller.clone());
        tokio::spawn(beat(channel.caller.clone()));
        tokio::spawn(hear(channel, waiting.clone()));
    }
    for number in 0..services() {
        register(&callers[0], number, INSTANCES).await;
    }
    let registry = format!("nacos2://127.0.0.1:{}/?name=scale", backend.port);
    let program = Program::start(&registry, 18870, &[]);
    let measured = program.measure(0, async |number| {
        subscribe(&callers[1], number).await;
        let (tell, told) = oneshot::channel();
        let key = Key::read(&format!("svc-{number}"), &"DEFAULT_GROUP".into()).unwrap();
        waiting.lock().unwrap().insert(key, tell);
        let plain = tokio::spawn(async { told.await.unwrap() });
        let at = Instant::now();
        register(&callers[0], number, INSTANCES + 1).await;
        (at, plain)
    });
    measured.await;
}
