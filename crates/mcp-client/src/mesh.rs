//! The mesh configuration of another control plane, as a text that settings are read from.

use mcp::Fault;
use prost::Name;
use prost_reflect::Kind;
use proto_istio::mesh::MeshConfig;
use serde_json::Value;

use crate::book::Entry;
use crate::read;
use crate::topic::Topic;

/// What another control plane does not decide for this one: where configuration comes from, which namespace is the root, and which
/// identities count.
const OURS: [&str; 5] = [
    "configSources",
    "rootNamespace",
    "trustDomain",
    "trustDomainAliases",
    "caCertificates",
];

/// What the other control plane says of the mesh, but for what is ours to say.
///
/// # Errors
///
/// When it is no mesh configuration.
pub(crate) fn text(entry: &Entry) -> Result<String, Fault> {
    let document = mcp::mesh_config(&read::any(Topic::MeshConfig, entry))?;
    let mut json = document.json;
    if let Some(fields) = json.as_object_mut() {
        for name in OURS {
            fields.remove(name);
        }
        // Who states this port has stated everything, as istiod does; other switches than it has on are off.
        if fields.contains_key("proxyListenPort") {
            for name in switches() {
                fields.entry(name).or_insert(Value::Bool(false));
            }
        }
    }
    Ok(json.to_string())
}

/// The fields that are on or off, and nothing else.
fn switches() -> Vec<String> {
    let descriptor = proto_istio::descriptors().get_message_by_name(&MeshConfig::full_name());
    let fields = descriptor
        .into_iter()
        .flat_map(|d| d.fields().collect::<Vec<_>>());
    let switches = fields.filter(|field| {
        field.kind() == Kind::Bool && !field.is_list() && !field.supports_presence()
    });
    switches.map(|field| field.json_name().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use prost::Message;
    use proto_istio::mesh::ConfigSource;
    use proto_istio::mesh::mesh_config::CertificateData;

    use super::*;

    fn said(mesh: &MeshConfig) -> Value {
        let entry = Entry {
            name: read::MESH_CONFIG.into(),
            version: Arc::default(),
            wire_version: Arc::default(),
            digest: 0,
            is_readable: true,
            body: mesh.encode_to_vec().into(),
        };
        serde_json::from_str(&text(&entry).unwrap()).unwrap()
    }

    #[test]
    fn a_whole_mesh_config_has_switches_that_are_off_and_a_part_has_not() {
        let part = MeshConfig {
            access_log_file: "/dev/stdout".into(),
            ..MeshConfig::default()
        };
        assert_eq!(
            said(&part),
            serde_json::json!({"accessLogFile": "/dev/stdout"})
        );
        let whole = MeshConfig {
            proxy_listen_port: 15001,
            enable_auto_mtls: Some(true),
            config_sources: vec![ConfigSource::default()],
            ..MeshConfig::default()
        };
        let said = said(&whole);
        assert_eq!(said["enableTracing"], false);
        assert_eq!(said["enableAutoMtls"], true);
        assert_eq!(said.get("configSources"), None);
    }

    #[test]
    fn who_is_root_and_which_identities_count_is_not_for_others_to_say() {
        let mesh = MeshConfig {
            access_log_file: "/dev/stdout".into(),
            root_namespace: "theirs".into(),
            trust_domain: "theirs.example".into(),
            trust_domain_aliases: vec!["also.example".into()],
            ca_certificates: vec![CertificateData::default()],
            ..MeshConfig::default()
        };
        assert_eq!(
            said(&mesh),
            serde_json::json!({"accessLogFile": "/dev/stdout"})
        );
    }
}
