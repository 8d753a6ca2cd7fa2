//! What becomes of each protection at another control plane: decided one by one, and written down in `docs/mcp.md`. What is new
//! in a route, or a kind that is new, has no decision yet: then this does not compile, or fails.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::edge::{
    AddressRules, EdgeRoute, ExternalAuth, Fallback, Mcp, Moved, Need, RateLimit, Rpc, Transport,
    Users,
};
use model::template::{Asker, Gateways};
use model::{Kind, ObjectName};

/// What becomes of something that a route asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Decision {
    /// The route answers 503.
    Closed,
    /// It is said in headers of the VirtualService.
    Headers,
    /// It does not travel: it protects nothing.
    Lost,
}

impl Decision {
    fn words(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Headers => "headers",
            Self::Lost => "lost",
        }
    }
}

/// What a need is called in the document, and what becomes of a route that has it.
fn decided(need: Need) -> (&'static str, Decision) {
    match need {
        Need::Addresses => ("allowed and denied addresses", Decision::Closed),
        Need::Users => ("users and passwords", Decision::Closed),
        Need::External => ("a service that decides", Decision::Closed),
        Need::AnyIsEnough => (
            "one of these that is enough, or passwords that a script checks",
            Decision::Closed,
        ),
        Need::Limits => ("a rate limit", Decision::Closed),
        Need::Body => ("a longest body", Decision::Closed),
        Need::Fallback => ("another backend for some statuses", Decision::Closed),
        Need::Moved => ("a server of MCP under another path", Decision::Closed),
        Need::Rest => (
            "a server behind MCP that does not speak it",
            Decision::Closed,
        ),
        Need::Rpc => ("calls of Dubbo", Decision::Closed),
        Need::Session => ("sessions of MCP", Decision::Lost),
        Need::Underscores => ("dropping headers with underscores", Decision::Lost),
    }
}

/// The same of each field of a route that is no need of its own.
fn decided_beside(route: &EdgeRoute) -> Vec<(&'static str, Decision)> {
    let EdgeRoute {
        // Needs.
        addresses: _,
        users: _,
        external: _,
        any_is_enough: _,
        limits: _,
        max_body: _,
        mcp: _,
        rpc: _,
        drops_underscores: _,
        // By status it is one.
        fallback,
        idle_timeout,
        tells_clients,
        hsts,
    } = route;
    let unavailable = fallback.as_ref().is_some_and(|f| f.if_unavailable);
    let beside = [
        (
            unavailable,
            "another backend where none is healthy",
            Decision::Lost,
        ),
        (idle_timeout.is_some(), "idle timeouts", Decision::Lost),
        (
            *tells_clients,
            "headers that tell backends of clients",
            Decision::Headers,
        ),
        (
            hsts.is_some(),
            "`strict-transport-security`",
            Decision::Headers,
        ),
    ];
    let beside = beside.into_iter().filter(|(asked, ..)| *asked);
    beside.map(|(_, what, decision)| (what, decision)).collect()
}

/// A route that asks for everything, but for what two servers of MCP cannot be at once.
fn everything(transport: Transport) -> EdgeRoute {
    EdgeRoute {
        addresses: Some(AddressRules::default()),
        users: Some(Users {
            realm: "shop".into(),
            lines: "a:$apr1$b$c".into(),
            asker: Asker {
                kind: Kind::Ingress,
                name: ObjectName::new("shop", "web"),
                path: "spec".into(),
                gateways: Gateways::Edge,
            },
        }),
        external: Some(ExternalAuth {
            host: "auth.shop.svc.cluster.local".into(),
            port: 80,
            authority: "auth".into(),
            path: "/".into(),
            method: None,
            tls: false,
            to_backend: Vec::new(),
            signin: None,
            always_set_cookie: false,
            headers: [].into(),
            timeout: Duration::from_secs(1),
        }),
        any_is_enough: true,
        limits: vec![RateLimit {
            burst: 1,
            fill: 1,
            every: Duration::from_secs(1),
            status: 429,
            per_client: false,
            except: [].into(),
        }],
        max_body: Some(1),
        fallback: Some(Fallback {
            host: "other.shop.svc.cluster.local".into(),
            port: 80,
            if_unavailable: true,
            statuses: [500].into(),
            headers: [].into(),
        }),
        idle_timeout: Some(Duration::from_secs(1)),
        mcp: Some(Mcp {
            transport,
            moved: Some(Moved {
                from: "/a".into(),
                to: "/b".into(),
            }),
            entry: None,
        }),
        rpc: Some(Rpc::Unknown),
        tells_clients: true,
        drops_underscores: true,
        hsts: Some(Arc::from("max-age=1")),
    }
}

/// The part of the document about protection.
fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/mcp.md");
    let text = std::fs::read_to_string(path).expect("the document is there");
    let (_, rest) = text.split_once("### Protection\n").expect("the part");
    let (part, _) = rest.split_once("\n### ").expect("the next part");
    part.to_owned()
}

#[test]
fn what_a_route_asks_for_is_decided_and_documented() {
    let document = document();
    let routes = [
        everything(Transport::Rest),
        everything(Transport::Streamable),
    ];
    let needs: BTreeSet<Need> = routes.iter().flat_map(EdgeRoute::needs).collect();
    let mut rows = decided_beside(&routes[0]);
    for need in needs {
        let (what, decision) = decided(need);
        assert_eq!(need.closes(), decision == Decision::Closed, "{need:?}");
        rows.push((what, decision));
    }
    assert_eq!(rows.len(), 16, "each once: {rows:?}");
    for (what, decision) in &rows {
        let row = format!("| {what} | {}", decision.words());
        assert!(document.contains(&row), "the document lacks `{row}`");
    }
    let written = document.lines().filter(|line| {
        let words = [Decision::Closed, Decision::Headers, Decision::Lost].map(Decision::words);
        let mut cells = line.split(" | ").skip(1);
        let cell = cells.next().unwrap_or_default();
        words.iter().any(|word| cell.starts_with(word))
    });
    // A value of a Secret is found in the route itself.
    assert_eq!(written.count(), rows.len() + 1, "the document has others");
}

/// Kinds that protect, each with a row of the document.
const PROTECTING: [Kind; 11] = [
    Kind::AuthorizationPolicy,
    Kind::BackendTlsPolicy,
    Kind::DestinationRule,
    Kind::EnvoyFilter,
    Kind::Gateway,
    Kind::KubeGateway,
    Kind::ListenerSet,
    Kind::PeerAuthentication,
    Kind::RequestAuthentication,
    Kind::TrafficExtension,
    Kind::WasmPlugin,
];

/// Kinds that lead somewhere, or say how; what protects their routes is above.
const OTHERS: [Kind; 14] = [
    Kind::GatewayClass,
    Kind::GrpcRoute,
    Kind::HttpRoute,
    Kind::ProxyConfig,
    Kind::ReferenceGrant,
    Kind::ServiceEntry,
    Kind::Sidecar,
    Kind::TcpRoute,
    Kind::Telemetry,
    Kind::TlsRoute,
    Kind::UdpRoute,
    Kind::VirtualService,
    Kind::WorkloadEntry,
    Kind::WorkloadGroup,
];

#[test]
fn whether_a_kind_protects_is_decided_and_documented() {
    let document = document();
    let decided: BTreeSet<Kind> = PROTECTING.into_iter().chain(OTHERS).collect();
    let served: BTreeSet<Kind> = mcp::kinds::all().collect();
    assert_eq!(decided, served);
    assert_eq!(decided.len(), PROTECTING.len() + OTHERS.len());
    for kind in PROTECTING {
        let row = document.lines().find(|line| {
            let first = line.split(" | ").next().unwrap_or_default();
            first.contains(&format!("`{}`", kind.name()))
        });
        assert!(row.is_some(), "the document lacks a row of {}", kind.name());
    }
}
