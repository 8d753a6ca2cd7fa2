//! Generates the Envoy and xDS messages from the `.proto` files inside the `envoy-types` package.
//!
//! Two products land in `OUT_DIR`: Rust messages for the files that generation code builds (`ROOTS` and what
//! they import), and one descriptor set of every file, which EnvoyFilter patches and JSON output need.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use prost::Message;
use prost_build::Config;
use prost_types::{FileDescriptorProto, FileDescriptorSet};

/// Files whose messages (with all that they import) become Rust types.
const ROOTS: &[&str] = &[
    "envoy/admin/v3/config_dump.proto",
    "envoy/config/bootstrap/v3/bootstrap.proto",
    "envoy/config/cluster/v3/cluster.proto",
    "envoy/config/endpoint/v3/endpoint.proto",
    "envoy/config/listener/v3/listener.proto",
    "envoy/config/rbac/v3/rbac.proto",
    "envoy/config/route/v3/route.proto",
    "envoy/config/trace/v3/datadog.proto",
    "envoy/config/trace/v3/opentelemetry.proto",
    "envoy/config/trace/v3/skywalking.proto",
    "envoy/config/trace/v3/zipkin.proto",
    "envoy/extensions/access_loggers/file/v3/file.proto",
    "envoy/extensions/access_loggers/filters/cel/v3/cel.proto",
    "envoy/extensions/access_loggers/grpc/v3/als.proto",
    "envoy/extensions/access_loggers/open_telemetry/v3/logs_service.proto",
    "envoy/extensions/clusters/aggregate/v3/cluster.proto",
    "envoy/extensions/clusters/dynamic_forward_proxy/v3/cluster.proto",
    "envoy/extensions/common/dynamic_forward_proxy/v3/dns_cache.proto",
    "envoy/extensions/compression/gzip/compressor/v3/gzip.proto",
    "envoy/extensions/filters/http/basic_auth/v3/basic_auth.proto",
    "envoy/extensions/filters/http/buffer/v3/buffer.proto",
    "envoy/extensions/filters/http/compressor/v3/compressor.proto",
    "envoy/extensions/filters/http/cors/v3/cors.proto",
    "envoy/extensions/filters/http/dynamic_forward_proxy/v3/dynamic_forward_proxy.proto",
    "envoy/extensions/filters/http/ext_authz/v3/ext_authz.proto",
    "envoy/extensions/filters/http/ext_proc/v3/ext_proc.proto",
    "envoy/extensions/filters/http/fault/v3/fault.proto",
    "envoy/extensions/filters/http/grpc_stats/v3/config.proto",
    "envoy/extensions/filters/http/grpc_web/v3/grpc_web.proto",
    "envoy/extensions/filters/http/jwt_authn/v3/config.proto",
    "envoy/extensions/filters/http/local_ratelimit/v3/local_rate_limit.proto",
    "envoy/extensions/filters/http/lua/v3/lua.proto",
    "envoy/extensions/filters/http/rbac/v3/rbac.proto",
    "envoy/extensions/filters/http/router/v3/router.proto",
    "envoy/extensions/filters/http/set_filter_state/v3/set_filter_state.proto",
    "envoy/extensions/filters/http/stateful_session/v3/stateful_session.proto",
    "envoy/extensions/filters/http/wasm/v3/wasm.proto",
    "envoy/extensions/filters/listener/http_inspector/v3/http_inspector.proto",
    "envoy/extensions/filters/listener/original_dst/v3/original_dst.proto",
    "envoy/extensions/filters/listener/original_src/v3/original_src.proto",
    "envoy/extensions/filters/listener/proxy_protocol/v3/proxy_protocol.proto",
    "envoy/extensions/filters/listener/tls_inspector/v3/tls_inspector.proto",
    "envoy/extensions/filters/network/connection_limit/v3/connection_limit.proto",
    "envoy/extensions/filters/network/echo/v3/echo.proto",
    "envoy/extensions/filters/network/ext_authz/v3/ext_authz.proto",
    "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.proto",
    "envoy/extensions/filters/network/local_ratelimit/v3/local_rate_limit.proto",
    "envoy/extensions/filters/network/mongo_proxy/v3/mongo_proxy.proto",
    "envoy/extensions/filters/network/rbac/v3/rbac.proto",
    "envoy/extensions/filters/network/redis_proxy/v3/redis_proxy.proto",
    "envoy/extensions/filters/network/set_filter_state/v3/set_filter_state.proto",
    "envoy/extensions/filters/network/sni_cluster/v3/sni_cluster.proto",
    "envoy/extensions/filters/network/sni_dynamic_forward_proxy/v3/sni_dynamic_forward_proxy.proto",
    "envoy/extensions/filters/network/tcp_proxy/v3/tcp_proxy.proto",
    "envoy/extensions/filters/network/wasm/v3/wasm.proto",
    "envoy/extensions/filters/udp/udp_proxy/v3/udp_proxy.proto",
    "envoy/extensions/http/header_formatters/preserve_case/v3/preserve_case.proto",
    "envoy/extensions/http/stateful_session/cookie/v3/cookie.proto",
    "envoy/extensions/http/stateful_session/header/v3/header.proto",
    "envoy/extensions/internal_redirect/allow_listed_routes/v3/allow_listed_routes_config.proto",
    "envoy/extensions/load_balancing_policies/common/v3/common.proto",
    "envoy/extensions/load_balancing_policies/least_request/v3/least_request.proto",
    "envoy/extensions/load_balancing_policies/override_host/v3/override_host.proto",
    "envoy/extensions/load_balancing_policies/round_robin/v3/round_robin.proto",
    "envoy/extensions/matching/common_inputs/network/v3/network_inputs.proto",
    "envoy/extensions/network/dns_resolver/cares/v3/cares_dns_resolver.proto",
    "envoy/extensions/path/match/uri_template/v3/uri_template_match.proto",
    "envoy/extensions/path/rewrite/uri_template/v3/uri_template_rewrite.proto",
    "envoy/extensions/rbac/audit_loggers/stream/v3/stream.proto",
    "envoy/extensions/request_id/uuid/v3/uuid.proto",
    "envoy/extensions/retry/host/previous_hosts/v3/previous_hosts.proto",
    "envoy/extensions/retry/priority/previous_priorities/v3/previous_priorities_config.proto",
    "envoy/extensions/tracers/opentelemetry/resource_detectors/v3/dynatrace_resource_detector.proto",
    "envoy/extensions/tracers/opentelemetry/resource_detectors/v3/environment_resource_detector.proto",
    "envoy/extensions/tracers/opentelemetry/samplers/v3/cel_sampler.proto",
    "envoy/extensions/tracers/opentelemetry/samplers/v3/dynatrace_sampler.proto",
    "envoy/extensions/transport_sockets/internal_upstream/v3/internal_upstream.proto",
    "envoy/extensions/transport_sockets/proxy_protocol/v3/upstream_proxy_protocol.proto",
    "envoy/extensions/transport_sockets/quic/v3/quic_transport.proto",
    "envoy/extensions/transport_sockets/raw_buffer/v3/raw_buffer.proto",
    "envoy/extensions/transport_sockets/tls/v3/secret.proto",
    "envoy/extensions/transport_sockets/tls/v3/tls.proto",
    "envoy/extensions/upstreams/http/v3/http_protocol_options.proto",
    "envoy/extensions/wasm/v3/wasm.proto",
    "envoy/service/discovery/v3/ads.proto",
    "envoy/service/discovery/v3/discovery.proto",
    "envoy/service/status/v3/csds.proto",
    "udpa/type/v1/typed_struct.proto",
    "xds/core/v3/extension.proto",
    "xds/type/matcher/v3/ip.proto",
    "xds/type/matcher/v3/matcher.proto",
    "xds/type/v3/typed_struct.proto",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=proto");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let proto = package_dir("envoy-types").join("proto");
    let mut includes: Vec<PathBuf> = subdirs(&proto);
    // cel-spec keeps its files one level deeper than the others.
    includes.push(proto.join("cel-spec/proto"));
    // Three small xDS files that the package leaves out are written here.
    includes.push(
        PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("proto"),
    );
    let files = proto_files(&includes);

    let all = out.join("envoy.all.fds");
    let protoc =
        protoc_bin_vendored::protoc_bin_path().expect("the protoc package carries this platform");
    let mut command = Command::new(&protoc);
    for dir in &includes {
        command.arg("-I").arg(dir);
    }
    command
        .arg("--include_imports")
        .arg("--descriptor_set_out")
        .arg(&all)
        .args(&files);
    let output = command.output().expect("the vendored protoc runs");
    assert!(
        output.status.success(),
        "protoc: {}",
        String::from_utf8_lossy(&output.stderr)
    );

    println!("cargo::metadata=descriptor_set={}", all.display());
    let bytes = std::fs::read(&all).expect("protoc wrote the descriptor set");
    let set = FileDescriptorSet::decode(bytes.as_slice())
        .expect("a descriptor set that protoc wrote decodes");
    let wanted = closure(&set);
    let selected = FileDescriptorSet {
        file: set
            .file
            .into_iter()
            .filter(|f| wanted.contains(f.name()))
            .collect(),
    };

    let mut config = Config::new();
    config
        .bytes(["."])
        .btree_map(["."])
        .enable_type_names()
        .disable_comments(["."])
        .include_file("envoy.rs")
        .type_name_domain(["."], "type.googleapis.com");
    config
        .compile_fds(selected)
        .expect("prost generates the messages");
}

/// Folder of a package that is in the lock file, as cargo unpacked it.
fn package_dir(name: &str) -> PathBuf {
    let cargo = std::env::var("CARGO").expect("cargo sets CARGO");
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked"])
        .output()
        .expect("cargo metadata runs");
    assert!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let manifest = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|p| p["name"] == name)
        .and_then(|p| p["manifest_path"].as_str())
        .unwrap_or_else(|| panic!("the package {name} is in Cargo.lock"));
    Path::new(manifest)
        .parent()
        .expect("a manifest lies in a folder")
        .to_path_buf()
}

fn subdirs(dir: &Path) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.is_dir())
        .collect();
    dirs.sort();
    dirs
}

/// Envoy's and xDS's own files, relative to their include folder; sorted.
fn proto_files(includes: &[PathBuf]) -> Vec<String> {
    fn walk(root: &Path, dir: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(root, &path, found);
            } else if path.extension().is_some_and(|e| e == "proto") {
                let name = path
                    .strip_prefix(root)
                    .expect("below its root")
                    .to_string_lossy()
                    .into_owned();
                if ["envoy/", "xds/", "udpa/"]
                    .iter()
                    .any(|p| name.starts_with(p))
                {
                    found.insert(name);
                }
            }
        }
    }
    let mut found = BTreeSet::new();
    for root in includes {
        walk(root, root, &mut found);
    }
    found.into_iter().collect()
}

/// `ROOTS` and everything they import, by file name.
fn closure(set: &FileDescriptorSet) -> BTreeSet<String> {
    let by_name: BTreeMap<&str, &FileDescriptorProto> =
        set.file.iter().map(|f| (f.name(), f)).collect();
    let mut wanted = BTreeSet::new();
    let mut todo: Vec<&str> = ROOTS.to_vec();
    while let Some(name) = todo.pop() {
        let file = by_name
            .get(name)
            .unwrap_or_else(|| panic!("{name} is among Envoy's protos"));
        if wanted.insert(name.to_owned()) {
            todo.extend(file.dependency.iter().map(String::as_str));
        }
    }
    wanted
}
