//! What a client may say of what it is sent.

use pilothouse_ads::Limits;
use pilothouse_ads::server::Options;
use proto_envoy::envoy::service::discovery::v3::DeltaDiscoveryRequest;

use crate::serving::CDS;
use crate::socket::{Call, revision, start};

#[tokio::test]
async fn a_client_may_name_all_that_it_is_sent_whatever_the_limits_are() {
    let running = start(Options {
        max_request_bytes: 1000,
        max_partial_bytes: 1 << 20,
        limits: Limits {
            names_per_type: 100,
            bytes_per_stream: 1000,
            ..Limits::default()
        },
        ..Options::default()
    });
    let names: Vec<String> = (0..500).map(|n| format!("{n:060}")).collect();
    let resources: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 80)).collect();
    running.world.published.send(revision(2, &resources));
    let mut call = Call::delta(running.address, "n").await;
    let response = call.response().await;
    assert_eq!(response.resources.len(), 500);
    let subscribe = |names: Vec<String>| DeltaDiscoveryRequest {
        type_url: CDS.into(),
        response_nonce: response.nonce.clone(),
        resource_names_subscribe: names,
        ..Default::default()
    };
    call.ask(&subscribe(names));
    assert_eq!(call.response().await.resources.len(), 500);
    // What nobody has sent it counts: 40,000 bytes can name 2,500.
    call.ask(&subscribe((0..2_501).map(|n| format!("n{n}")).collect()));
    assert_eq!(call.status().await, 8);
}
