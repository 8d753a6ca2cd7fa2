use std::collections::BTreeMap;

use model::Severity;
use serde_json::json;

use super::*;

fn read(text: &str) -> Document {
    Document::read(text, &BTreeMap::new())
}

fn told(document: &Document) -> Vec<String> {
    let found = document.found.iter();
    found.map(|(_, what)| what.to_string()).collect()
}

#[test]
fn what_is_not_stated_is_as_with_higress() {
    let defaults = Options::default();
    assert!(defaults.gzip.enable && !defaults.tracing.enable);
    for text in [
        "",
        "{}",
        "gzip: {}",
        "gzip:",
        "downstream: {http2: {}}",
        "downstream: {http2: ~, idleTimeout: ~}",
        "tracing: {enable: false}",
        "addXRealIpHeader: false",
        "mcpServer: {}",
    ] {
        let document = read(text);
        assert_eq!(document.options, defaults, "{text}");
        assert_eq!(told(&document), [""; 0], "{text}");
    }
}

#[test]
fn what_is_stated_counts() {
    let document = read(
        "tracing: {enable: true, sampling: 12.5, timeout: 1500, zipkin: {service: zipkin.obs.svc, port: 9411}}\n\
         gzip: {enable: false, compressionLevel: BEST_SPEED}\n\
         downstream: {idleTimeout: 0, maxRequestHeadersKb: 8192, http2: {maxConcurrentStreams: 7}, routeTimeout: 9}\n\
         upstream: {idleTimeout: 3, connectionBufferLimits: 0}\n\
         addXRealIpHeader: true\n\
         disableXEnvoyHeaders: true\n",
    );
    assert_eq!(told(&document), [""; 0]);
    let options = document.options;
    assert!(options.adds_real_ip && options.hides_envoy_headers && !options.gzip.enable);
    let collector = options.tracing.collector().unwrap();
    assert_eq!((&*collector.host, collector.port), ("zipkin.obs.svc", 9411));
    assert!((options.tracing.percentage() - 12.5).abs() < f64::EPSILON);
    let wanted = Downstream {
        idle_timeout: 0,
        max_request_headers_kb: 8192,
        http2: Http2 {
            max_concurrent_streams: 7,
            ..Downstream::default().http2
        },
        route_timeout: 9,
        ..Downstream::default()
    };
    assert_eq!(options.downstream, wanted);
    let upstream = Upstream {
        idle_timeout: 3,
        connection_buffer_limits: 0,
    };
    assert_eq!(options.upstream, upstream);
}

#[test]
fn a_section_that_breaks_a_rule_is_refused_with_its_field() {
    let collector = "{service: a.b, port: 1}";
    for (section, wanted) in [
        (
            "gzip: {windowBits: 8}",
            "gzip.windowBits is no whole number between 9 and 15",
        ),
        (
            "gzip: {memoryLevel: 0}",
            "gzip.memoryLevel is no whole number between 1 and 9",
        ),
        (
            "gzip: {chunkSize: 1}",
            "gzip.chunkSize is no whole number between 4096 and 65536",
        ),
        (
            "gzip: {minContentLength: 0}",
            "gzip.minContentLength is no whole number between 1 and 2147483647",
        ),
        (
            "gzip: {minContentLength: many}",
            "gzip.minContentLength is no whole number between 1 and 2147483647",
        ),
        ("gzip: {contentType: []}", "gzip.contentType is empty"),
        (
            "gzip: {compressionLevel: MOST}",
            "gzip.compressionLevel is none that Envoy knows",
        ),
        (
            "gzip: {compressionStrategy: X}",
            "gzip.compressionStrategy is none that Envoy knows",
        ),
        ("gzip: {enable: 1}", "gzip.enable is neither true nor false"),
        ("gzip: [1]", "gzip is no map of fields"),
        (
            "downstream: {maxRequestHeadersKb: 8193}",
            "downstream.maxRequestHeadersKb is no whole number between 1 and 8192",
        ),
        (
            "downstream: {maxRequestHeadersKb: 0}",
            "downstream.maxRequestHeadersKb is no whole number between 1 and 8192",
        ),
        (
            "downstream: {idleTimeout: -1}",
            "downstream.idleTimeout is no whole number between 0 and 4294967295",
        ),
        (
            "downstream: {http2: {maxConcurrentStreams: 0}}",
            "downstream.http2.maxConcurrentStreams is no whole number between 1 and 2147483647",
        ),
        (
            "downstream: {http2: {initialStreamWindowSize: 1}}",
            "downstream.http2.initialStreamWindowSize is no whole number between 65535 and 2147483647",
        ),
        (
            "upstream: {connectionBufferLimits: 1.5}",
            "upstream.connectionBufferLimits is no whole number between 0 and 4294967295",
        ),
        (
            "addXRealIpHeader: sure",
            "addXRealIpHeader is neither true nor false",
        ),
        (
            "tracing: {sampling: 100.1}",
            "tracing.sampling is no number between 0 and 100",
        ),
        (
            "tracing: {timeout: 0}",
            "tracing.timeout is no whole number between 1 and 2147483647",
        ),
        (
            "tracing: {enable: true}",
            "tracing names 0 of skywalking, zipkin and opentelemetry; one is needed",
        ),
        (
            "tracing: {zipkin: {port: 1}}",
            "tracing.zipkin.service is not stated",
        ),
        (
            "tracing: {opentelemetry: {service: a}}",
            "tracing.opentelemetry.port is not stated",
        ),
        (
            "tracing: {skywalking: {service: a, port: web}}",
            "tracing.skywalking.port is no port",
        ),
        (
            "mcpServer: {enable_user_level_server: true}",
            "mcpServer.redis is not stated: servers of users need it",
        ),
        (
            "mcpServer: {redis: {passwordSecret: {name: a}}}",
            "mcpServer.redis.passwordSecret.key is not stated",
        ),
        (
            "mcpServer: {redis: {passwordSecret: {name: a.b, key: c}}}",
            "mcpServer.redis.passwordSecret.name cannot be named: a namespace and a name have lower-case letters, digits and dashes, a key may have dots",
        ),
        (
            "mcpServer: {redis: {db: 1}}",
            "mcpServer.redis.address is not stated",
        ),
        (
            "mcpServer: {servers: [{name: a, type: b, path: c}]}",
            "mcpServer.servers[0].path does not begin with a slash",
        ),
        (
            "mcpServer: {servers: [{name: a, path: /c}]}",
            "mcpServer.servers[0].type is not stated",
        ),
        (
            "mcpServer: {match_list: [{match_rule_type: regex, match_rule_path: '/a('}]}",
            "mcpServer.match_list[0].match_rule_path cannot be compared with: not a regular expression of RE2: unclosed group",
        ),
        (
            "mcpServer: {match_list: [{match_rule_type: near}]}",
            "mcpServer.match_list[0].match_rule_type is none of exact, prefix, suffix, contains, regex",
        ),
        (
            "mcpServer: {match_list: [{match_rule_type: exact, enable_path_rewrite: true, upstream_type: rest}]}",
            "mcpServer.match_list[0].enable_path_rewrite is for backends of the type sse alone",
        ),
    ] {
        let document = read(section);
        let wanted = format!("{wanted}: the section has its default, as it never was good");
        assert_eq!(told(&document), [wanted], "{section}");
        assert_eq!(document.options, Options::default(), "{section}");
    }
    let long = format!("gzip: {{contentType: [{}]}}", "a/b, ".repeat(65));
    assert!(told(&read(&long))[0].starts_with("gzip.contentType has more than 64 texts"));
    let long = format!(
        "tracing: {{skywalking: {{service: {}, port: 1}}}}",
        "a".repeat(4097)
    );
    assert!(told(&read(&long))[0].starts_with("tracing.skywalking.service is longer than 4096"));
    let rules = "{match_rule_type: exact}, ".repeat(513);
    let many = format!("mcpServer: {{match_list: [{rules}]}}");
    assert!(told(&read(&many))[0].starts_with("mcpServer.match_list has more than 512 parts"));
    let two = format!("tracing: {{enable: true, zipkin: {collector}, skywalking: {collector}}}");
    assert!(told(&read(&two))[0].starts_with("tracing names 2 of"));
}

#[test]
fn a_bad_section_keeps_what_it_said_last_and_others_count() {
    let first = read("gzip: {enable: false}\nupstream: {idleTimeout: 1}");
    let text = "gzip: {windowBits: 99}\nupstream: {idleTimeout: 2}";
    let second = Document::read(text, &first.good);
    assert!(!second.options.gzip.enable);
    assert_eq!(second.options.upstream.idle_timeout, 2);
    let wanted = "gzip.windowBits is no whole number between 9 and 15: the section keeps its last good value";
    assert_eq!(told(&second), [wanted]);
    // Bad for long is still good once; what is stated no more is forgotten.
    let third = Document::read("gzip: {windowBits: 98}", &second.good);
    assert!(!third.options.gzip.enable);
    assert_eq!(third.good.len(), 1);
    let fourth = Document::read("upstream: {idleTimeout: 3}", &third.good);
    let fifth = Document::read("gzip: {windowBits: 97}", &fourth.good);
    assert!(fifth.options.gzip.enable);
}

#[test]
fn a_document_that_is_none_keeps_every_section() {
    let first = read("gzip: {enable: false}\naddXRealIpHeader: true");
    for text in ["gzip: [", "- 1", &"x".repeat(LARGEST + 1)] {
        let second = Document::read(text, &first.good);
        assert_eq!(second.options, first.options);
        assert_eq!(second.good, first.good);
        assert!(told(&second)[0].ends_with("every section keeps its last good value"));
    }
}

#[test]
fn what_there_is_not_is_told_with_what_may_be_meant() {
    let document = read("gzipp: {}\ndownstream: {idleTimout: 3, http2: {streams: 1}}\n");
    let found = document.found.iter();
    let found: Vec<_> = found.map(|(how, what)| (*how, what.to_string())).collect();
    let wanted = [
        "gzipp is no option (did you mean gzip?): it is ignored",
        "downstream.http2.streams is no option: it is ignored",
        "downstream.idleTimout is no option (did you mean idleTimeout?): it is ignored",
    ];
    let wanted = wanted.map(|what| (Severity::Warning, what.to_owned()));
    assert_eq!(found, wanted);
    let many: Vec<String> = (0..100)
        .map(|n| format!("{}{n}: 1", "long".repeat(99)))
        .collect();
    let document = read(&many.join("\n"));
    assert_eq!(document.found.len(), MOST_FOUND);
    assert!(told(&document).iter().all(|what| what.len() < 160));
}

#[test]
fn secrets_show_nothing_of_themselves() {
    let text = json!({
        "tracing": {"enable": true, "skywalking": {"service": "a.b", "port": "1", "access_token": "hunter2"}},
        "mcpServer": {
            "redis": {"address": "a:1", "password": "hunter2"},
            "enable": true,
            "servers": [{"name": "a", "path": "/a", "type": "database", "config": {"dsn": "hunter2"}}],
        },
    });
    let document = read(&text.to_string());
    assert_eq!(told(&document), [""; 0]);
    assert!(!format!("{document:?}").contains("hunter2"));
    let servers = &document.options.mcp_servers;
    let resources = crate::edge::library_configs(Some(servers), &[], &"edge".into());
    assert_eq!(resources.len(), 2);
    for resource in resources {
        let has = |bytes: &[u8]| bytes.windows(7).any(|part| part == b"hunter2");
        assert!(has(&resource.body) && !has(resource.shown()));
        assert!(resource.has_credentials());
    }
}
