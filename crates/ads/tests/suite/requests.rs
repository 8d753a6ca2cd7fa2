//! Whatever a client sends, a stream does not panic.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;

use pilothouse_ads::{Action, Fanout, Protocol, Request, Stream};
use proptest::prelude::*;
use prost::Message;
use proto_envoy::envoy::config::core::v3::Node;
use proto_envoy::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use proto_envoy::google::rpc::Status;
use xds::{ByType, Published, Resource, ResourceSet, TypeUrl};

fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just("*".to_owned()), "[a-e]", "[a-e]", ".{0,6}"]
}

fn names() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(name(), 0..5)
}

fn type_url() -> impl Strategy<Value = String> {
    prop_oneof![
        9 => (0..TypeUrl::ALL.len()).prop_map(|i| TypeUrl::ALL[i].as_str().to_owned()),
        1 => ".{0,20}",
    ]
}

fn nonce() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        (0u64..6).prop_map(|n| format!("{n:016x}")),
        ".{0,17}"
    ]
}

fn refusal() -> impl Strategy<Value = Option<Status>> {
    prop::option::weighted(
        0.3,
        ("[a-e ]{0,9}").prop_map(|message| Status {
            code: 3,
            message,
            details: vec![],
        }),
    )
}

fn delta() -> impl Strategy<Value = Request> {
    (
        type_url(),
        names(),
        names(),
        nonce(),
        refusal(),
        prop::collection::btree_map(name(), nonce(), 0..4),
    )
        .prop_map(
            |(
                type_url,
                subscribe,
                unsubscribe,
                response_nonce,
                error_detail,
                initial_resource_versions,
            )| {
                DeltaDiscoveryRequest {
                    node: Some(Node {
                        id: "n".into(),
                        ..Default::default()
                    }),
                    type_url,
                    resource_names_subscribe: subscribe,
                    resource_names_unsubscribe: unsubscribe,
                    response_nonce,
                    error_detail,
                    initial_resource_versions,
                    ..Default::default()
                }
                .into()
            },
        )
}

fn sotw() -> impl Strategy<Value = Request> {
    (type_url(), names(), nonce(), nonce(), refusal()).prop_map(
        |(type_url, resource_names, version_info, response_nonce, error_detail)| {
            DiscoveryRequest {
                node: Some(Node {
                    id: "n".into(),
                    ..Default::default()
                }),
                type_url,
                resource_names,
                version_info,
                response_nonce,
                error_detail,
                ..Default::default()
            }
            .into()
        },
    )
}

fn published(seed: u64) -> Arc<Published> {
    let mut published = Published::new(seed);
    for (at, ty) in TypeUrl::ALL.into_iter().enumerate() {
        let alive = (0..5u64).filter(|i| seed >> (i + at as u64) & 1 == 1);
        let resource = |i: u64| {
            let name = char::from(b'a' + i as u8).to_string();
            Arc::new(Resource::from_bytes(
                name,
                vec![(seed >> i) as u8 & 3].into(),
            ))
        };
        published.set(ty, ResourceSet::new(alive.map(resource)));
    }
    Arc::new(published)
}

fn run(protocol: Protocol, requests: Vec<(Request, Option<u64>)>) {
    let mut stream = Stream::new(protocol, Fanout::new());
    stream.on_published(published(0b1011));
    let mut in_flight: ByType<Option<u64>> = ByType::default();
    for (request, change) in requests {
        let answers = TypeUrl::parse(&request.type_url).map(|ty| (ty, request.nonce.clone()));
        let mut out = stream.on_request(request);
        if let Some((ty, nonce)) = answers
            && in_flight[ty].is_some_and(|n| format!("{n:016x}") == nonce)
        {
            in_flight[ty] = None;
        }
        out.extend(
            change
                .map(|seed| stream.on_published(published(seed)))
                .unwrap_or_default(),
        );
        if stream.waits() {
            out.extend(stream.on_patience_lost());
        }
        for out in out {
            if let Action::Send(response) = out {
                let slot = &mut in_flight[response.content.ty];
                assert_eq!(*slot, None, "two responses of one type in flight");
                *slot = Some(response.nonce);
                assert!(!response.content.body().is_empty());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_are_refused_or_read(data in prop::collection::vec(any::<u8>(), 0..300)) {
        for protocol in [Protocol::Delta, Protocol::Sotw] {
            let request = match protocol {
                Protocol::Delta => DeltaDiscoveryRequest::decode(&data[..]).map(Request::from),
                Protocol::Sotw => DiscoveryRequest::decode(&data[..]).map(Request::from),
            };
            if let Ok(request) = request {
                run(protocol, vec![(request, None)]);
            }
        }
    }

    #[test]
    fn arbitrary_delta_requests_keep_one_response_in_flight(
        requests in prop::collection::vec((delta(), prop::option::of(0u64..4096)), 0..40),
    ) {
        run(Protocol::Delta, requests);
    }

    #[test]
    fn arbitrary_state_of_the_world_requests_keep_one_response_in_flight(
        requests in prop::collection::vec((sotw(), prop::option::of(0u64..4096)), 0..40),
    ) {
        run(Protocol::Sotw, requests);
    }
}
