//! One change to a thousand streams of one view: the state machine alone, and the encoding.

use std::sync::Arc;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use pilothouse_ads::{Action, Fanout, Protocol, Stream};
use proto_envoy::envoy::config::core::v3::Node;
use proto_envoy::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use xds::{Published, Resource, ResourceSet, TypeUrl};

const STREAMS: usize = 1000;
const SERVICES: usize = 1000;

fn main() {
    divan::main();
}

fn set(size: usize, changed: u8) -> ResourceSet {
    ResourceSet::new((0..SERVICES).map(|i| {
        let body = vec![if i == 500 { changed } else { 0 }; size];
        Arc::new(Resource::from_bytes(
            format!("outbound|80||service-{i:04}.shop.svc.cluster.local"),
            body.into(),
        ))
    }))
}

fn published(revision: u64, clusters: &ResourceSet, endpoints: &ResourceSet) -> Arc<Published> {
    let mut published = Published::new(revision);
    published.set(TypeUrl::Cluster, clusters.clone());
    published.set(TypeUrl::Endpoint, endpoints.clone());
    Arc::new(published)
}

/// Takes every response, as a quick client does.
fn acknowledge(stream: &mut Stream, protocol: Protocol, names: &[String], mut out: Vec<Action>) {
    while let Some(next) = out.pop() {
        if let Action::Send(response) = next {
            let type_url = response.content.ty.as_str().to_owned();
            let response_nonce = format!("{:016x}", response.nonce);
            out.extend(match protocol {
                Protocol::Delta => stream.on_request(DeltaDiscoveryRequest {
                    type_url,
                    response_nonce,
                    ..Default::default()
                }),
                Protocol::Sotw => {
                    let named = response.content.ty == TypeUrl::Endpoint;
                    let resource_names = if named { names.to_vec() } else { vec![] };
                    stream.on_request(DiscoveryRequest {
                        type_url,
                        response_nonce,
                        resource_names,
                        ..Default::default()
                    })
                }
            });
        }
    }
}

fn names() -> Vec<String> {
    set(1, 0).iter().map(|r| r.name.to_string()).collect()
}

fn connect(
    protocol: Protocol,
    fanout: &Arc<Fanout>,
    published: &Arc<Published>,
    names: &[String],
) -> Stream {
    let mut stream = Stream::new(protocol, Arc::clone(fanout));
    stream.on_published(Arc::clone(published));
    let node = || {
        Some(Node {
            id: "n".into(),
            ..Default::default()
        })
    };
    let url = |ty: TypeUrl| ty.as_str().to_owned();
    let (clusters, endpoints) = match protocol {
        Protocol::Delta => (
            stream.on_request(DeltaDiscoveryRequest {
                node: node(),
                type_url: url(TypeUrl::Cluster),
                ..Default::default()
            }),
            stream.on_request(DeltaDiscoveryRequest {
                type_url: url(TypeUrl::Endpoint),
                resource_names_subscribe: names.to_vec(),
                ..Default::default()
            }),
        ),
        Protocol::Sotw => (
            stream.on_request(DiscoveryRequest {
                node: node(),
                type_url: url(TypeUrl::Cluster),
                ..Default::default()
            }),
            stream.on_request(DiscoveryRequest {
                type_url: url(TypeUrl::Endpoint),
                resource_names: names.to_vec(),
                ..Default::default()
            }),
        ),
    };
    acknowledge(&mut stream, protocol, names, clusters);
    acknowledge(&mut stream, protocol, names, endpoints);
    stream
}

/// One assignment of 1,000 changes: each of 1,000 streams makes its response (the answers are not counted).
#[divan::bench(args = [Protocol::Delta, Protocol::Sotw], sample_count = 20)]
fn endpoint_change_to_1000_streams(bencher: Bencher<'_, '_>, protocol: Protocol) {
    let (fanout, names) = (Fanout::new(), names());
    let clusters = set(300, 0);
    let versions = [
        published(1, &clusters, &set(300, 1)),
        published(2, &clusters, &set(300, 2)),
    ];
    let mut streams: Vec<_> = (0..STREAMS)
        .map(|_| connect(protocol, &fanout, &versions[0], &names))
        .collect();
    let mut pending: Vec<Vec<Action>> = vec![vec![]; STREAMS];
    let mut turn = 0;
    bencher.counter(ItemsCount::new(STREAMS)).bench_local(|| {
        turn += 1;
        for (stream, pending) in streams.iter_mut().zip(&mut pending) {
            let taken = std::mem::take(pending);
            acknowledge(stream, protocol, &names, taken);
            *pending = black_box(stream.on_published(Arc::clone(&versions[turn % 2])));
        }
    });
}

/// An unrelated revision reaches 1,000 streams: nothing is to be sent.
#[divan::bench(sample_count = 20)]
fn unrelated_change_to_1000_streams(bencher: Bencher<'_, '_>) {
    let (fanout, names) = (Fanout::new(), names());
    let (clusters, endpoints) = (set(300, 0), set(300, 1));
    let versions = [
        published(1, &clusters, &endpoints),
        published(2, &clusters, &endpoints),
    ];
    let mut streams: Vec<_> = (0..STREAMS)
        .map(|_| connect(Protocol::Delta, &fanout, &versions[0], &names))
        .collect();
    let mut turn = 0;
    bencher.counter(ItemsCount::new(STREAMS)).bench_local(|| {
        turn += 1;
        for stream in &mut streams {
            assert!(
                stream
                    .on_published(Arc::clone(&versions[turn % 2]))
                    .is_empty()
            );
        }
    });
}

/// A stream connects to 1,000 clusters and assignments.
#[divan::bench(args = [Protocol::Delta, Protocol::Sotw], sample_count = 20)]
fn first_configuration(bencher: Bencher<'_, '_>, protocol: Protocol) {
    let (fanout, names) = (Fanout::new(), names());
    let published = published(1, &set(300, 0), &set(300, 1));
    bencher.bench_local(|| black_box(connect(protocol, &fanout, &published, &names)));
}

/// Encoding of 1,000 resources of 300 bytes.
#[divan::bench(sample_count = 20)]
fn encode_1000_resources(bencher: Bencher<'_, '_>) {
    let set = set(300, 0);
    bencher.bench_local(|| {
        let items = set
            .iter()
            .map(|r| pilothouse_ads::Item {
                version: r.version,
                resource: Arc::clone(r),
            })
            .collect();
        let content =
            pilothouse_ads::Content::new(TypeUrl::Cluster, Protocol::Delta, items, vec![], 1);
        black_box(content.body())
    });
}
