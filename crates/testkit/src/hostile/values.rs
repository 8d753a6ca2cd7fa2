//! Values that once did harm, or that do so elsewhere, by what stands in a field of that name.

use serde_json::{Value, json};

use super::Surroundings;
use super::draw::Draw;

/// Any text: marks of secrets, templates, line breaks, what is cut or escaped, what is too long.
const TEXTS: [&str; 26] = [
    "",
    " ",
    "x",
    "a\nb",
    "a\r\nx-evil: 1",
    "a\0b",
    "\u{FDD0}istio-system\u{FDD0}{secret.bank/db.password}",
    "\\ufdd0istio-system\\ufdd0{secret.bank/db.password}",
    "{\"a\":\"${secret.own.k}\",\"b\":\"\\ufdd0istio-system\\ufdd0{secret.bank/db.password}\"}",
    "${secret.bank/db.password}",
    "${secret.istio-system/istio-ca-secret.ca-key.pem}",
    "${secret.absent.k}",
    "${secret.own.k}",
    "%ENVIRONMENT(HOME)%",
    "/../../admin",
    "/%2e%2e/admin",
    "*",
    "é",
    "日本",
    "\u{2028}",
    "'\"`;$(x)",
    "x: y\n- z: {privileged: true}",
    "{{ .Values }}",
    "unix:///var/run/x.sock",
    "cluster.local",
    "istio-system",
];
const REGEXES: [&str; 16] = [
    "\\x{100}",
    "\\x{10FFFF}",
    "[a--b]+",
    "(a{100}){11}",
    "(\\d{3}|[^a]b|c){900}",
    "(ak|al|am|an|ao|ap|aq|ar|as|at|au|av|aw|ax|ay|az){1000}",
    "\\pL{40}",
    "(?P<a>b)(?P<a>c)",
    "a{1001}",
    "(?=a)b",
    "(a",
    "[",
    "",
    ".*",
    "/.*(aaaaaaaaaaaaaaaa)?.*",
    "(?i)日{1000}",
];
const HEADER_VALUES: [&str; 20] = [
    "100%",
    "%BAD%",
    "%REQ(",
    "%REQ(a?b?c)%",
    "%COALESCE({})%",
    "%ENVIRONMENT(HOME)%",
    "%METADATA(LISTENER_FILTER_CHAIN:a)%",
    "%PATH(NQ:X)%",
    "%FILTER_STATE(a:TYPED:b)%",
    "%CEL(request.headers)%",
    "%SECRET%",
    "%DOWNSTREAM_PEER_CERT%",
    "%UPSTREAM_METADATA([\"a\"",
    "%%%",
    "%20CERT%0A",
    "a\nb",
    "a\0b",
    "Bearer ${secret.own.k}",
    "Bearer ${secret.bank/db.password}",
    "\u{FDD0}bank\u{FDD0}{secret.db.password}",
];
const NAMES: [&str; 18] = [
    "",
    "x\ny",
    ":path",
    ":authority",
    "host",
    "Host",
    ":status",
    "content-length",
    "x-forwarded-client-cert",
    "x-envoy-original-dst-host",
    "a b",
    "a:b",
    "istio",
    "app",
    "security.istio.io/tlsMode",
    "networking.istio.io/exportTo",
    "é",
    "A: b\n  - name: evil",
];
const DURATIONS: [&str; 12] = [
    "315576000000s",
    "9223372036s",
    "0s",
    "-1s",
    "0.0000001s",
    "1ns",
    "0.001s",
    "99999999999h",
    "1h1m",
    "x",
    "1",
    "60000000000ms",
];
const NUMBERS: [i64; 16] = [
    0,
    1,
    -1,
    2,
    3,
    65_535,
    65_536,
    65_537,
    8_388_609,
    2_147_483_647,
    4_294_967_295,
    4_294_967_296,
    101,
    1000,
    5_000_011,
    i64::MAX,
];
const PORTS: [i64; 17] = [
    0, 80, 443, 8080, 9000, 15_000, 15_001, 15_006, 15_008, 15_010, 15_012, 15_020, 15_021, 15_090,
    65_535, 65_536, 53,
];
const STATUSES: [i64; 12] = [0, 99, 100, 199, 200, 204, 300, 304, 305, 399, 599, 600];
const ADDRESSES: [&str; 20] = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "::",
    "::1",
    "169.254.169.254",
    "fe80::1",
    "::ffff:127.0.0.1",
    "localhost",
    "localhost.",
    "127.1",
    "0x7f.0.0.1",
    "unix:///var/run/x.sock",
    "unix://@abstract",
    "224.0.0.1",
    "255.255.255.255",
    "10.9.9.9",
    "0.0.0.0/0",
    "10.0.0.0/8",
    "evil.example.com",
];
const EXPORTS: [&str; 10] = [
    "*",
    ".",
    "~",
    "",
    "bank",
    "istio-system",
    "evil",
    "nowhere",
    "BANK",
    "*/bank",
];
const OWN_HOSTS: [&str; 6] = [
    "web.evil.svc.cluster.local",
    "evil.example.com",
    "x.evil.example",
    "*.evil.example",
    "web",
    "db.evil.svc.cluster.local",
];
const ODD_HOSTS: [&str; 18] = [
    "*",
    "*.com",
    "*.example.com",
    "*.local",
    "*.svc.cluster.local",
    "*.cluster.local",
    "*-x.example",
    "a.*.example",
    "*gallery.example",
    "localhost",
    "127.0.0.1",
    "",
    ".",
    "a..b",
    "a_b.example",
    "日本.example",
    "x\ny.example",
    "metadata.google.internal",
];
const CREDENTIALS: [&str; 8] = [
    "own",
    "bank/tls",
    "kubernetes-gateway://bank/tls",
    "kubernetes-gateway://istio-system/cacerts",
    "tls",
    "istio-ca-secret",
    "file-cert:/etc/x~/etc/y",
    "sds://x",
];
const EXPRESSIONS: [&str; 8] = [
    "response.code >= 400",
    "request.headers['a'] ==",
    "x",
    "true",
    "size([1,2,3].map(a, a)) > 0",
    "xds.node.id == 'a'",
    "\u{FDD0}",
    "request.url_path.matches('(')",
];

fn text(list: &[&str], draw: &mut Draw) -> Value {
    (*draw.of(list)).into()
}

/// What stands for a part of the surroundings.
pub(super) fn fill(text: &str, around: &Surroundings, draw: &mut Draw) -> Option<Value> {
    let inner = text.strip_prefix('<')?.strip_suffix('>')?;
    Some(match inner {
        "host" => host(around, draw),
        "own-host" => (*draw.of(&OWN_HOSTS)).into(),
        "gateway" => draw.of(&around.gateways).clone().into(),
        "parent" => {
            let (_, name) = parent(around, draw);
            name.into()
        }
        "parent-namespace" => {
            let (namespace, _) = parent(around, draw);
            namespace.into()
        }
        "port" => (*draw.of(&around.ports)).into(),
        "own-address" => around.own_address.clone().into(),
        "address" => draw.of(&around.addresses).clone().into(),
        _ => return None,
    })
}

fn parent(around: &Surroundings, draw: &mut Draw) -> (String, String) {
    let named = draw.of(&around.parents).clone();
    let (namespace, name) = named.split_once('/').unwrap_or(("", &named));
    (namespace.to_owned(), name.to_owned())
}

/// A host: of its own, of others as they are or nearly, or an odd one.
fn host(around: &Surroundings, draw: &mut Draw) -> Value {
    let known = draw.of(&around.hosts).clone();
    let host = match draw.below(16) {
        0..=3 => (*draw.of(&OWN_HOSTS)).to_owned(),
        4 => known.to_ascii_uppercase(),
        5 => {
            let mut letters = known.chars();
            let first = letters.next().map(|c| c.to_ascii_uppercase());
            first.into_iter().chain(letters).collect()
        }
        6 => match known.split_once('.') {
            Some((_, rest)) => format!("*.{rest}"),
            None => known,
        },
        7 => match known.strip_prefix("*.") {
            Some(rest) => format!("deep.{rest}"),
            None => format!("deep.{known}"),
        },
        8 => (*draw.of(&ODD_HOSTS)).to_owned(),
        9 => format!("{known}."),
        10 => format!("{}.", known.to_ascii_uppercase()),
        11 => short(&known, draw),
        _ => known,
    };
    host.into()
}

/// What a host is called where others may mean it: without the end of its name, with a port or as the names of its Pods.
fn short(host: &str, draw: &mut Draw) -> String {
    let labels: Vec<&str> = host.split('.').collect();
    match draw.below(6) {
        0 => format!("{host}:80"),
        1 => format!("*.{host}"),
        2 => format!("{host}.."),
        most => labels[..labels.len().min(most - 2)].join("."),
    }
}

/// Whether the names of an object's fields are texts of its author.
pub(super) fn is_map_of_names(name: &str) -> bool {
    [
        "set",
        "add",
        "headers",
        "labels",
        "matchLabels",
        "annotations",
        "withoutHeaders",
        "queryParams",
        "environmentVariables",
        "data",
        "stringData",
        "tagOverrides",
        "customTags",
    ]
    .contains(&name)
}

/// A name that an author chooses.
pub(super) fn name(draw: &mut Draw) -> String {
    (*draw.of(&NAMES)).to_owned()
}

/// What may take the place of a value in a field of that name.
pub(super) fn harmful(name: &str, value: &Value, around: &Surroundings, draw: &mut Draw) -> Value {
    if draw.chance(3) {
        return of_another_type(draw);
    }
    match value {
        Value::String(old) => of_text(name, old, around, draw),
        Value::Number(_) => of_number(name, around, draw),
        Value::Bool(is) => json!(!is),
        other => other.clone(),
    }
}

fn of_another_type(draw: &mut Draw) -> Value {
    let all = [
        json!(null),
        json!([]),
        json!({}),
        json!("x"),
        json!(-1),
        json!(1.5),
        json!(true),
    ];
    draw.of(&all).clone()
}

fn of_text(name: &str, old: &str, around: &Surroundings, draw: &mut Draw) -> Value {
    // Now and then something that belongs elsewhere.
    if draw.chance(15) {
        let all = [
            &TEXTS[..],
            &REGEXES,
            &HEADER_VALUES,
            &NAMES,
            &ADDRESSES,
            &CREDENTIALS,
            &EXPRESSIONS,
        ];
        let list = *draw.of(&all);
        return text(list, draw);
    }
    if draw.chance(3) {
        let length = *draw.of(&[300, 2_000, 70_000]);
        return "a".repeat(length).into();
    }
    match name {
        "hosts" | "host" | "hostnames" | "hostname" | "authority" | "sniHosts" | "sni"
        | "externalName" | "serverName" => host(around, draw),
        "regex" | "safeRegex" => text(&REGEXES, draw),
        "exportTo" => text(&EXPORTS, draw),
        "namespace" => text(&EXPORTS, draw),
        "address" | "addresses" | "bind" | "destinationSubnets" | "sourceSubnet" | "ip"
        | "ipBlocks" | "loadBalancerIP" | "clusterIP" => match draw.chance(50) {
            true => draw.of(&around.addresses).clone().into(),
            false => text(&ADDRESSES, draw),
        },
        "credentialName" | "caCertCredentialName" | "secretName" | "imagePullSecret" => {
            text(&CREDENTIALS, draw)
        }
        "gateways" => match draw.chance(60) {
            true => draw.of(&around.gateways).clone().into(),
            false => text(&["mesh", "*", "bank/none", "", "evil/x"], draw),
        },
        "expression" => text(&EXPRESSIONS, draw),
        "jwks" => text(
            &[
                "",
                "{}",
                "{\"keys\":[]}",
                "{\"keys\":[{\"kty\":\"oct\",\"k\":\"\\ufdd0\"}]}",
                "x",
            ],
            draw,
        ),
        _ if is_duration(old) => text(&DURATIONS, draw),
        _ if name.contains("egex") || old.contains(".*") => text(&REGEXES, draw),
        _ if is_map_of_names(name)
            || name.starts_with("x-")
            || name == "value"
            || old.contains('%') =>
        {
            let list = *draw.of(&[&HEADER_VALUES[..], &TEXTS]);
            text(list, draw)
        }
        "name" | "remove" | "httpHeaderName" | "httpQueryParameterName" | "header" => {
            match draw.chance(50) {
                true => name_of(draw),
                false => text(&TEXTS, draw),
            }
        }
        _ => text(&TEXTS, draw),
    }
}

fn name_of(draw: &mut Draw) -> Value {
    name(draw).into()
}

fn is_duration(text: &str) -> bool {
    let digits = text.strip_suffix("ms").or_else(|| text.strip_suffix('s'));
    digits.is_some_and(|digits| digits.parse::<f64>().is_ok())
}

fn of_number(name: &str, around: &Surroundings, draw: &mut Draw) -> Value {
    match name {
        // What a server binds is told: on a machine with others not every port is free.
        "number" if draw.chance(50) => (*draw.of(&around.ports)).into(),
        "number" | "port" | "targetPort" | "nodePort" | "http" | "tcp" => (*draw.of(&PORTS)).into(),
        "status" | "statusCode" | "redirectCode" | "httpStatus" => (*draw.of(&STATUSES)).into(),
        _ => (*draw.of(&NUMBERS)).into(),
    }
}
