//! Which Gateways and VirtualServices are of an edge, and what their routes ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use model::edge::{
    AddressRules, Dubbo, EdgeRoute, ExternalAuth, Fallback, Mcp, Moved, RateLimit, Rpc, Transport,
    Users,
};
use model::template::{Asker, Gateways};
use model::{Kind, ObjectName};

use super::Pick;

const VIRTUAL_SERVICE: u8 = 5;
const GATEWAY: u8 = 7;

impl Pick {
    /// What the HTTP routes of an object of an edge ask for, by their place; `None` where it is not of one.
    pub(crate) fn asked(&self) -> Option<BTreeMap<usize, Arc<EdgeRoute>>> {
        match self.kind {
            GATEWAY if self.variant.is_multiple_of(2) => Some(BTreeMap::new()),
            VIRTUAL_SERVICE if self.variant.is_multiple_of(3) => {
                let first = self.route(self.variant);
                let second = self.route(self.variant + self.name);
                Some(BTreeMap::from([
                    (0, Arc::new(first)),
                    (1, Arc::new(second)),
                ]))
            }
            _ => None,
        }
    }

    fn route(&self, variant: u8) -> EdgeRoute {
        let host = || format!("h{}.example.com", variant % 3).into();
        let bit = |bit: u8| variant >> bit & 1 == 1;
        EdgeRoute {
            addresses: bit(0).then(|| AddressRules {
                allowed: BTreeSet::from(["10.0.0.0/8".parse().expect("a range")]),
                denied: BTreeSet::new(),
            }),
            users: bit(1).then(|| Users {
                realm: "all".into(),
                lines: format!("u{}:{{SHA}}{}", self.name, "x".repeat(28)).into(),
                asker: Asker {
                    kind: Kind::Ingress,
                    name: ObjectName::new("shop", "edge"),
                    path: "metadata.annotations".into(),
                    gateways: Gateways::Edge,
                },
            }),
            external: bit(2).then(|| ExternalAuth {
                host: host(),
                port: 80,
                authority: "judge".into(),
                path: "/".into(),
                method: None,
                tls: false,
                to_backend: Vec::new(),
                signin: None,
                always_set_cookie: false,
                headers: BTreeMap::new(),
                timeout: Duration::from_secs(1),
            }),
            any_is_enough: self.name == 1,
            limits: match self.name {
                2 => vec![RateLimit {
                    burst: 1,
                    fill: u32::from(variant) + 1,
                    every: Duration::from_secs(1),
                    status: 503,
                    per_client: bit(0),
                    except: BTreeSet::new(),
                }],
                _ => Vec::new(),
            },
            idle_timeout: bit(0).then_some(Duration::from_secs(9)),
            max_body: (self.name == 1).then(|| u32::from(variant) + 1),
            tells_clients: bit(1),
            drops_underscores: bit(0),
            hsts: bit(2).then(|| format!("max-age={variant}").into()),
            fallback: variant.is_multiple_of(3).then(|| Fallback {
                host: host(),
                port: 80,
                if_unavailable: bit(1),
                statuses: BTreeSet::from([502]),
                headers: BTreeMap::new(),
            }),
            mcp: variant.is_multiple_of(5).then(|| Mcp {
                transport: match variant % 3 {
                    0 => Transport::Streamable,
                    1 => Transport::Rest,
                    _ => Transport::Events {
                        session: "s".into(),
                    },
                },
                moved: bit(2).then(|| Moved {
                    from: "/".into(),
                    to: format!("/{}", self.name).into(),
                }),
                entry: None,
            }),
            rpc: variant.is_multiple_of(7).then(|| match bit(1) {
                true => Rpc::Unknown,
                false => Rpc::Dubbo(Arc::new(Dubbo {
                    service: "a.B".into(),
                    version: format!("{variant}").into(),
                    group: "".into(),
                    methods: Vec::new(),
                })),
            }),
        }
    }
}

/// How many ConfigMaps with options there are.
pub(crate) const OPTIONS: u8 = 11;

/// A ConfigMap with options of an edge: of good sections, of bad ones, and of none.
pub(crate) fn options(variant: u8) -> String {
    let sections = match variant {
        0 => "{gzip: {enable: false}, addXRealIpHeader: true}",
        1 => "{gzip: {windowBits: 99}, upstream: {idleTimeout: 1}}",
        2 => {
            "tracing: {enable: true, opentelemetry: {service: n1.one.svc.cluster.local, port: 80}}"
        }
        3 => "tracing: {enable: true, zipkin: {service: h1.example.com, port: 80}}",
        4 => "downstream: {routeTimeout: 7, http2: {maxConcurrentStreams: 9}}",
        5 => "{downstream: {maxRequestHeadersKb: 9000}, disableXEnvoyHeaders: true}",
        6 => {
            "mcpServer: {enable: true, match_list: [{match_rule_path: /a, match_rule_type: suffix}], servers: [\
             {name: a, path: /b, type: c, domain_list: [h1.example.com], config: {d: '${secret.n1.key}'}}]}"
        }
        7 => {
            "mcpServer: {enable: true, enable_user_level_server: true, redis: {address: a:1, passwordSecret: {name: n1, \
             key: key}}, match_list: [{match_rule_path: /a, match_rule_type: prefix, upstream_type: sse}]}"
        }
        8 => "mcpServer: {match_list: [{match_rule_path: /a, match_rule_type: prefix}]}",
        9 => {
            "mcpServer: {enable: true, redis: {address: a:1, password: b}, servers: [{name: a, path: b}]}"
        }
        _ => "downstream: [",
    };
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: higress-config, namespace: one}}\n\
         data: {{higress: \"{sections}\"}}\n"
    )
}
