//! Requests that Istio's own tests send through what they generate go the same way through what is generated here:
//! skipped where there are no recordings.

use std::collections::BTreeMap;

use pilothouse_simulate::{Call, End, Entry, Part, Protocol, Refusal, Resources, Tls, Walk, walk};
use serde_json::Value;
use testkit::{IstioTest, Score};
use xds::TypeUrl;

/// What the proxies of a test have; several where it changed its inputs.
fn resources(test: &IstioTest) -> Vec<Resources> {
    let listeners = test.outputs.iter().filter(|o| o.ty == TypeUrl::Listener);
    let of_output = |output| {
        let (world, node) = test.world_of(output);
        let view = world.view(&node);
        let mut resources = Resources::default();
        let types = [TypeUrl::Listener, TypeUrl::Route, TypeUrl::Cluster];
        for ty in types.into_iter().chain([TypeUrl::Endpoint]) {
            for resource in world.set(&view, ty).iter() {
                let added = resources.add(ty.as_str(), &resource.body);
                added.unwrap_or_else(|e| panic!("{}: {e}", test.name));
            }
        }
        resources
    };
    listeners.map(of_output).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// A recorded call, with what Istio's simulation adds to it.
fn call(recorded: &Value) -> Call {
    let protocol = match text(recorded, "protocol") {
        "http" => Protocol::Http1,
        "http2" => Protocol::Http2,
        _ => Protocol::Tcp,
    };
    let tls = match text(recorded, "tls") {
        "tls" => Tls::Simple,
        "mtls" => Tls::Mesh,
        _ => Tls::None,
    };
    let or = |key: &str, otherwise: &str| match text(recorded, key) {
        "" => otherwise.to_owned(),
        text => text.to_owned(),
    };
    let authority = text(recorded, "host").to_owned();
    let alpn = match text(recorded, "alpn") {
        "" => Call::default_alpn(protocol, tls),
        alpn => vec![alpn.to_owned()],
    };
    Call {
        entry: match text(recorded, "callMode") {
            "inbound" => Entry::Inbound,
            _ => Entry::Outbound,
        },
        address: text(recorded, "address").parse().ok(),
        port: recorded["port"]
            .as_u64()
            .and_then(|p| p.try_into().ok())
            .unwrap_or_default(),
        sni: or("sni", if tls == Tls::Simple { &authority } else { "" }),
        alpn,
        method: "GET".into(),
        path: or("path", "/"),
        headers: Vec::new(),
        authority,
        protocol,
        tls,
        ..Call::default()
    }
}

fn error(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::NoListener => "no listener matched",
        Refusal::NoFilterChain => "no filter chains matched",
        Refusal::SeveralFilterChains => "multiple filter chains matched",
        Refusal::WrongTls => "invalid TLS",
        Refusal::WrongCertificate => "invalid mTLS",
        // Istio's simulation does not look at secrets.
        Refusal::NoCertificate => "no certificate",
        Refusal::NoHttp => "protocol error",
        Refusal::NoVirtualHost => "no virtual host matched",
        Refusal::TlsRequired => "tls required, sending 301",
        Refusal::NoRoute => "no route matched",
    }
}

/// Where a walk differs from what was recorded.
fn differences(wanted: &Value, walk: &Walk) -> Vec<String> {
    let step = |part: Part| {
        let found = walk.steps.iter().find(|s| s.part == part);
        found.map(|s| s.name.clone()).unwrap_or_default()
    };
    let (cluster, error) = match &walk.end {
        // Istio's simulation shows a cluster only where there is one alone.
        End::Clusters(all) => match all.as_slice() {
            [one] => (one.cluster.clone(), ""),
            _ => (String::new(), ""),
        },
        End::Refused(refusal) => (String::new(), error(*refusal)),
        End::Redirect { .. } | End::Response { .. } => (String::new(), ""),
    };
    let got = BTreeMap::from([
        ("listener", step(Part::Listener)),
        ("filterChain", step(Part::FilterChain)),
        ("routeConfig", step(Part::RouteConfiguration)),
        ("virtualHost", step(Part::VirtualHost)),
        ("route", step(Part::Route)),
        ("cluster", cluster),
        ("error", error.to_owned()),
    ]);
    let differs = |(key, got): (&&str, &String)| {
        let wanted = text(wanted, key);
        (wanted != got).then(|| format!("{key}: wanted {wanted:?}, got {got:?}"))
    };
    got.iter().filter_map(differs).collect()
}

#[test]
fn requests_go_where_istios_tests_saw_them_go() {
    let tests = IstioTest::recorded();
    let by_name: BTreeMap<&str, &IstioTest> = tests
        .iter()
        .filter(|t| !t.outputs.is_empty())
        .map(|t| (t.name.as_str(), t))
        .collect();
    let mut known: BTreeMap<&str, Vec<Resources>> = BTreeMap::new();
    let mut score = Score::default();
    for test in tests.iter().filter(|t| !t.is_elsewhere()) {
        let Some(inputs) = by_name.get(test.inputs_of.as_str()) else {
            continue;
        };
        if inputs.is_elsewhere() {
            continue;
        }
        for recorded in &test.calls {
            let sets = known
                .entry(&inputs.name)
                .or_insert_with(|| resources(inputs));
            let call = call(&recorded["call"]);
            // Which of several inputs it went through is not recorded.
            let walks = sets
                .iter()
                .map(|r| differences(&recorded["result"], &walk(r, &call)));
            let mut found = walks.min_by_key(Vec::len).expect("inputs were recorded");
            if !found.is_empty() {
                found.push(recorded["call"].to_string());
            }
            score.count(&test.name, &found);
        }
    }
    score.as_listed(include_str!("differences/istio-tests-calls.txt"));
}
