//! The tables of verdicts that validation is measured by (`crates/validate/tests/verdicts`) are those of real Envoys.
//!
//! One Envoy is started with a listener for each row, which it takes or refuses on its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use demo::http::get;
use envoy::process::Process;
use serde_json::{Value, json};

use crate::rig::{Rig, root, until};

/// A table, and where the text of a row goes in the connection manager of its listener.
type Table = (&'static str, fn(&str, &mut Value));

const TABLES: [Table; 5] = [
    ("validate/tests/verdicts/regex", |text, hcm| {
        route(hcm)["match"] = json!({ "safe_regex": { "regex": text } });
    }),
    ("validate/tests/verdicts/header-values", |text, hcm| {
        route(hcm)["request_headers_to_add"] =
            json!([{ "header": { "key": "x-a", "value": text } }]);
    }),
    ("validate/tests/verdicts/header-names", |text, hcm| {
        route(hcm)["request_headers_to_add"] = json!([{ "header": { "key": text, "value": "a" } }]);
    }),
    ("validate/tests/verdicts/expressions", |text, hcm| {
        let filter = json!({
            "@type": "type.googleapis.com/envoy.extensions.access_loggers.filters.cel.v3.ExpressionFilter",
            "expression": text,
        });
        hcm["access_log"] = json!([{
            "name": "log",
            "filter": { "extension_filter": { "name": "cel", "typed_config": filter } },
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog",
            },
        }]);
    }),
    ("model/src/jwks/verdicts", |text, hcm| {
        let filter = json!({
            "@type": "type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
            "providers": { "p": { "issuer": "a", "local_jwks": { "inline_string": text } } },
        });
        let filters = hcm["http_filters"].as_array_mut().unwrap();
        filters.insert(0, json!({ "name": "tokens", "typed_config": filter }));
    }),
];

fn route(hcm: &mut Value) -> &mut Value {
    &mut hcm["route_config"]["virtual_hosts"][0]["routes"][0]
}

fn listener(index: usize, text: &str, put: fn(&str, &mut Value)) -> Value {
    let mut hcm = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "a",
        "http_filters": [{ "name": "router", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
        } }],
        "route_config": { "virtual_hosts": [{ "name": "all", "domains": ["*"], "routes": [
            { "match": { "prefix": "/" }, "direct_response": { "status": 200 } },
        ] }] },
    });
    put(text, &mut hcm);
    json!({
        "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
        "name": index.to_string(),
        "bind_to_port": false,
        "address": { "socket_address": { "address": "127.0.0.1", "port_value": 10_000 + index } },
        "filter_chains": [{ "filters": [{ "name": "hcm", "typed_config": hcm }] }],
    })
}

/// What is to be asked of an Envoy: whether it takes the text of each row, and whether it is said to.
fn rows(table: &str, version: &str) -> Vec<(bool, String)> {
    let file = root().join("crates").join(format!("{table}.txt"));
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (verdicts, text) = line.split_at(line.find('"').unwrap());
            let verdicts: Vec<&str> = verdicts.split_whitespace().collect();
            // One column where all versions agree.
            let column = match version {
                "1.36.4" => verdicts[0],
                _ => verdicts[verdicts.len() - 1],
            };
            (column == "yes", serde_json::from_str(text).unwrap())
        })
        .collect()
}

/// Why each listener is refused, by its name; nothing where it is taken.
fn verdicts(dump: &Value) -> BTreeMap<String, Option<String>> {
    let configs = dump["configs"].as_array().into_iter().flatten();
    configs
        .map(|config| {
            let refused = &config["error_state"];
            let name = config["name"]
                .as_str()
                .or_else(|| refused["failed_configuration"]["name"].as_str());
            let why = refused["details"].as_str().map(str::to_owned);
            (name.unwrap().to_owned(), why)
        })
        .collect()
}

/// Starts an Envoy with these listeners and asks it what it took.
async fn judged(rig: &Rig, name: &str, listeners: Vec<Value>) -> BTreeMap<String, Option<String>> {
    let admin: SocketAddr = rig.address("127.0.0.1:15000");
    let count = listeners.len();
    let write = |name: &str, value: Value| {
        let path = rig.beside(name);
        std::fs::write(&path, value.to_string()).unwrap();
        path
    };
    let lds = write(
        &format!("{name}.lds.json"),
        json!({ "resources": listeners }),
    );
    let source = json!({
        "path_config_source": { "path": lds },
        "resource_api_version": "V3",
    });
    let bootstrap = json!({
        "node": { "id": "a", "cluster": "a" },
        "dynamic_resources": { "lds_config": source },
        "layered_runtime": { "layers": [
            { "name": "limits", "static_layer": { "re2.max_program_size.error_level": 32_768 } },
        ] },
        "admin": { "address": { "socket_address": {
            "address": admin.ip().to_string(), "port_value": admin.port(),
        } } },
    });
    let bootstrap: &Path = &write(&format!("{name}.json"), bootstrap);
    let args = [
        "-c",
        &bootstrap.display().to_string(),
        "--disable-hot-restart",
    ];
    let args = args.map(str::to_owned);
    let log = rig.beside(&format!("{name}.log"));
    let process = Process::start(name, rig.envoy(), &args, &log).unwrap();
    let page = "/config_dump?resource=dynamic_listeners";
    let all = async || match get(admin, page).await {
        Ok(reply) => reply
            .json()
            .is_ok_and(|dump| verdicts(&dump).len() == count),
        Err(_) => false,
    };
    until("an Envoy judges all listeners", all).await;
    let dump = get(admin, page).await.unwrap().json().unwrap();
    envoy::process::stop(vec![process]).await;
    verdicts(&dump)
}

pub(crate) async fn tables_of_verdicts_are_those_of_envoys(rig: Rig) {
    let mut faults = Vec::new();
    for (table, put) in TABLES {
        let rows = rows(table, rig.version());
        let listeners = rows.iter().enumerate();
        let listeners = listeners.map(|(index, (_, text))| listener(index, text, put));
        let name = table.rsplit('/').nth(2).unwrap_or_default();
        let name = format!("{name}-{}", table.rsplit('/').next().unwrap_or_default());
        let found = judged(&rig, &name, listeners.collect()).await;
        for (index, (is_taken, text)) in rows.iter().enumerate() {
            let why = &found[&index.to_string()];
            if why.is_none() != *is_taken {
                faults.push(format!("{table} {text:?}: {why:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
