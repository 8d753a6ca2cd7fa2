//! Ingresses drawn at random: whatever they say, each request goes over the written manifests where it went over them, or is
//! refused and its route is named. `MIGRATE_SEED=N` draws one again, `MIGRATE_SEEDS=N` so many.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use analysis::Analysis;
use incr::Engine;
use migrate::World;
use migrate::compare::{self, Choice, Chosen, Request};
use migrate::manifests::{GATEWAY, GatewayApi, Manifests};
use model::Severity;

use super::super::compared::resources_of;
use super::tests::{all, objects, world};

/// The seeds that are always drawn.
const SEEDS: u64 = 40;

/// How many requests are sent over what each of them draws.
const REQUESTS: usize = 150;

/// Numbers that are the same for the same seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: usize) -> usize {
        // Knuth's MMIX generator; the low bits repeat too soon.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

const HOSTS: [&str; 5] = [
    "a.example.com",
    "b.example.com",
    "*.example.com",
    "c.org",
    "",
];
const TYPES: [&str; 3] = ["Exact", "Prefix", "ImplementationSpecific"];
const PLAIN: [&str; 12] = [
    "/",
    "/api",
    "/api/",
    "/api/v1",
    "/api/v1/users",
    "/apis",
    "/a",
    "/a.b",
    "/static",
    "/API",
    "/x y",
    "/.well-known/acme-challenge/x",
];
const PATTERNS: [&str; 14] = [
    "/api(/|$)(.*)",
    "/api/(.*)",
    "/(.*)",
    "/()(.*)",
    "/api/?(.*)",
    "/a.b(/|$)(.*)",
    "/api/v[0-9]+",
    "/api/v1",
    "/(api|static)/(.*)",
    "/static/.*",
    "/sta.*",
    "/api.*",
    "/",
    "/apis/(.*)",
];
const TARGETS: [&str; 6] = ["/$2", "/$1", "/", "/v1/$2", "/fixed", "/$1/$2"];
const SERVICES: [&str; 4] = ["web", "next", "grpc", "other"];

/// What an Ingress may say beside its paths.
const ANNOTATIONS: [&[&str]; 20] = [
    &["ssl-redirect: \"false\""],
    &["force-ssl-redirect: \"true\""],
    &["app-root: /start"],
    &["permanent-redirect: https://elsewhere.example.org/x"],
    &["temporal-redirect: https://elsewhere.example.org/x?y=z"],
    &["whitelist-source-range: 10.0.0.0/8"],
    &["auth-type: basic", "auth-secret: users"],
    &["limit-rps: \"10\""],
    &[
        "enable-cors: \"true\"",
        "cors-allow-origin: https://*.example.org",
    ],
    &["upstream-vhost: inner.example.com"],
    &["upstream-vhost: \"inner.example.com:81\""],
    &["proxy-next-upstream: error timeout http_503"],
    &["proxy-next-upstream: \"off\""],
    &[
        "affinity: cookie",
        "session-cookie-name: s",
        "session-cookie-max-age: \"100000\"",
    ],
    &["backend-protocol: GRPC"],
    &["backend-protocol: HTTPS"],
    &["from-to-www-redirect: \"true\""],
    &["server-alias: alias.example.com"],
    &["x-forwarded-prefix: /p"],
    &["mirror-target: http://other.shop.svc.cluster.local"],
];

const CANARIES: [&[&str]; 4] = [
    &["canary-weight: \"30\""],
    &["canary-by-header: x-canary"],
    &["canary-by-header: x-canary", "canary-by-header-value: me"],
    &["canary-by-cookie: canary"],
];

/// The Services, a Secret with a certificate, and one with users.
fn others() -> String {
    let certificate = include_str!("../../../../../../examples/gateway-api/certificate.yaml");
    let mut text = String::new();
    for namespace in ["shop", "team"] {
        let named = format!("{{name: shop, namespace: {namespace}}}");
        writeln!(text, "{}---", certificate.replace("{name: shop}", &named)).unwrap();
        writeln!(
            text,
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: users, namespace: {namespace}}}\nstringData: {{auth: \"anna:{{SHA}}qUqP5cyxm6YcTAhz05Hph5gvu9M=\"}}\n---"
        )
        .unwrap();
        for service in SERVICES {
            writeln!(
                text,
                "apiVersion: v1\nkind: Service\nmetadata: {{name: {service}, namespace: {namespace}}}\nspec: {{ports: [{{name: http, port: 80}}]}}\n---"
            )
            .unwrap();
        }
    }
    text
}

/// An Ingress.
fn ingress(draw: &mut Draw, at: usize) -> String {
    let mut notes: Vec<&str> = Vec::new();
    let mut is_pattern = false;
    if draw.once_in(3) {
        is_pattern = true;
        notes.push("use-regex: \"true\"");
        if draw.once_in(2) {
            let target = draw.of(&TARGETS);
            notes.push(match target {
                "/$2" => "rewrite-target: /$2",
                "/$1" => "rewrite-target: /$1",
                "/v1/$2" => "rewrite-target: /v1/$2",
                "/fixed" => "rewrite-target: /fixed",
                "/$1/$2" => "rewrite-target: /$1/$2",
                _ => "rewrite-target: /",
            });
        }
    }
    if draw.once_in(4) {
        notes.push("canary: \"true\"");
        notes.extend(CANARIES[draw.below(CANARIES.len())]);
    }
    for _ in 0..draw.below(3) {
        let more = ANNOTATIONS[draw.below(ANNOTATIONS.len())];
        if !more.iter().any(|note| notes.contains(note)) {
            notes.extend(more);
        }
    }
    let keys: BTreeSet<&str> = notes.iter().filter_map(|n| n.split(':').next()).collect();
    let notes = keys
        .iter()
        .filter_map(|key| notes.iter().find(|n| n.split(':').next() == Some(key)));
    let notes: Vec<String> = notes
        .map(|note| format!("    nginx.ingress.kubernetes.io/{note}\n"))
        .collect();
    let namespace = draw.of(&["shop", "shop", "team"]);
    let mut text = format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: i{at}\n  namespace: {namespace}\n  annotations:\n    a: b\n{}spec:\n  ingressClassName: nginx\n",
        notes.concat()
    );
    let hosts: Vec<&str> = (0..=draw.below(2)).map(|_| draw.of(&HOSTS)).collect();
    if draw.once_in(3) {
        let named: Vec<String> = hosts.iter().map(|host| format!("\"{host}\"")).collect();
        writeln!(
            text,
            "  tls: [{{hosts: [{}], secretName: shop}}]",
            named.join(", ")
        )
        .unwrap();
    }
    if draw.once_in(6) {
        writeln!(
            text,
            "  defaultBackend: {{service: {{name: other, port: {{number: 80}}}}}}"
        )
        .unwrap();
    }
    writeln!(text, "  rules:").unwrap();
    for host in hosts {
        writeln!(text, "  - host: \"{host}\"\n    http:\n      paths:").unwrap();
        for _ in 0..=draw.below(3) {
            let path = match is_pattern {
                true => draw.of(&PATTERNS),
                false => draw.of(&PLAIN),
            };
            let kind = match is_pattern {
                true => "ImplementationSpecific",
                false => draw.of(&TYPES),
            };
            let service = draw.of(&SERVICES);
            writeln!(
                text,
                "      - {{path: {path:?}, pathType: {kind}, backend: {{service: {{name: {service}, port: {{number: 80}}}}}}}}"
            )
            .unwrap();
        }
    }
    text.push_str("---\n");
    text
}

fn drawn(seed: u64) -> String {
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    draw.below(2);
    let many = 1 + draw.below(5);
    let ingresses: Vec<String> = (0..many).map(|at| ingress(&mut draw, at)).collect();
    ingresses.concat()
}

/// Some requests for any of the hosts and paths.
fn requests(seed: u64) -> String {
    const PATHS: [&str; 20] = [
        "/",
        "/api",
        "/api/",
        "/api/x",
        "/API",
        "/Api/x",
        "/api/v1",
        "/api/v1/users",
        "/api/v12",
        "/apis",
        "/apis/x",
        "/apix",
        "/a",
        "/a.b",
        "/axb/c",
        "/static",
        "/static/x.css",
        "/start",
        "/other?api=/api",
        "/.well-known/acme-challenge/x",
    ];
    const ASKED: [&str; 6] = [
        "",
        "",
        "",
        "x-canary: always",
        "x-canary: me",
        "cookie: canary=always",
    ];
    const HOSTS: [&str; 8] = [
        "a.example.com",
        "a.example.com",
        "b.example.com",
        "w.example.com",
        "alias.example.com",
        "www.a.example.com",
        "c.org",
        "nobody.net",
    ];
    let mut draw = Draw(seed);
    let mut text = String::new();
    for _ in 0..REQUESTS {
        let method = draw.of(&["GET", "GET", "POST"]);
        let scheme = draw.of(&["http", "https"]);
        let (host, path, asked) = (draw.of(&HOSTS), draw.of(&PATHS), draw.of(&ASKED));
        writeln!(text, "{method} {scheme}://{host}{path} {asked}").unwrap();
    }
    text
}

fn all_chosen(world: &World, gateway: Option<&str>, requests: &[Request]) -> Vec<Chosen> {
    let resources = resources_of(world, gateway).unwrap();
    let requests = requests.iter();
    requests
        .map(|request| compare::here(world, &resources, request))
        .collect()
}

fn is_refused(choice: &Choice) -> bool {
    match choice {
        Choice::Answer(status) => *status >= 400,
        Choice::Refused(_) | Choice::Unknown(_) => true,
        _ => false,
    }
}

/// Whether the summary says that a request may be refused which a route took.
fn is_named(manifests: &Manifests, request: &Request, by: &str) -> bool {
    manifests.not_carried.iter().any(|lost| {
        let of_route = lost.route.contains(&format!(" {by},"));
        // A rule that is closed, or refuses what it cannot tell apart, may be in front of another.
        let (host, _) = lost.route.split_once(' ').unwrap();
        let host = host.trim_start_matches('*');
        let in_front = request.host.ends_with(host);
        let refuses = lost.closed || lost.what.iter().any(|what| what.ends_with("refused"));
        (of_route || in_front) && refuses
    })
}

fn run(seed: u64) -> [(usize, usize); 2] {
    let input = format!("{}{}", others(), drawn(seed));
    let before = world(objects(&input));
    let requests = compare::of_list(&requests(seed)).unwrap();
    let was = all_chosen(&before, None, &requests);
    let targets = [
        (Manifests::of_istio(&before), None),
        (
            Manifests::of_gateway_api(&before, &GatewayApi::default()),
            Some(GATEWAY),
        ),
    ];
    targets.map(|(manifests, gateway)| {
        // What is written is valid.
        let mut written = objects(&all(&manifests));
        written.extend(objects(&others()));
        let after = world(written);
        if gateway.is_some() {
            let found = Engine::new().get(&*after.snapshot, &Analysis);
            let wrong = found.iter().map(|finding| &finding.diagnostic);
            let wrong = wrong.chain(&after.findings);
            let wrong: Vec<_> = wrong.filter(|d| d.severity == Severity::Error).collect();
            assert!(wrong.is_empty(), "MIGRATE_SEED={seed} {wrong:?}");
        }
        let is = all_chosen(&after, gateway, &requests);
        let mut refused = 0;
        for ((request, was), is) in requests.iter().zip(&was).zip(&is) {
            if was.choice.is_like(&is.choice) || (is_refused(&was.choice) && is_refused(&is.choice))
            {
                continue;
            }
            let told = format!(
                "MIGRATE_SEED={seed} {gateway:?} {request:?}: {} ({}), now {} ({})\n{}",
                was.choice,
                was.by,
                is.choice,
                is.by,
                drawn(seed)
            );
            assert!(is_refused(&is.choice), "{told}");
            assert!(is_named(&manifests, request, &was.by), "not named: {told}");
            refused += 1;
        }
        (requests.len(), refused)
    })
}

#[test]
fn requests_go_where_they_went() {
    if let Ok(seed) = std::env::var("MIGRATE_SEED") {
        let seed = seed.parse().unwrap();
        println!("{}{:?}", drawn(seed), run(seed));
        return;
    }
    let (mut of_istio, mut of_gateway_api) = ((0, 0), (0, 0));
    let seeds = std::env::var("MIGRATE_SEEDS").map_or(SEEDS, |text| text.parse().unwrap());
    for seed in 0..seeds {
        let [istio, gateway_api] = run(seed);
        of_istio = (of_istio.0 + istio.0, of_istio.1 + istio.1);
        of_gateway_api = (
            of_gateway_api.0 + gateway_api.0,
            of_gateway_api.1 + gateway_api.1,
        );
    }
    println!("refused of all: Istio {of_istio:?}, Gateway API {of_gateway_api:?}");
    // Manifests that close everything would pass all of the above.
    assert!(of_istio.1 * 10 < of_istio.0, "{of_istio:?}");
    assert!(
        of_gateway_api.1 * 4 < of_gateway_api.0,
        "{of_gateway_api:?}"
    );
}
