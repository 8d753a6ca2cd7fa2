//! What plugins of Higress's know a request by: `route_name` and `cluster_name`.
//!
//! Their rules are for routes and services by these names, which Envoy took away in 1.33 in favour of `xds.route_name` and
//! `xds.cluster_name`: without them no rule would ever be for a request. A module of ours, before the plugins, gives them
//! back. They are those at the time when the request came; a plugin that chooses another route does not change them.

use bytes::Bytes;
use proto_envoy::envoy::config::core::v3::{
    AsyncDataSource, DataSource, async_data_source, data_source,
};
use proto_envoy::envoy::extensions::filters::http::wasm::v3::Wasm;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use proto_envoy::envoy::extensions::wasm::v3 as wasm;
use xds::any;

use crate::filters;

/// The filter, and its machine.
const NAME: &str = "pilothouse.names";
/// `names/names.wat`, assembled.
const MODULE: &[u8] = include_bytes!("names/names.wasm");

/// The filter. Requests are refused where it fails: rules that are for nothing would let them pass.
pub(super) fn filter() -> hcm::HttpFilter {
    let code = DataSource {
        specifier: Some(data_source::Specifier::InlineBytes(Bytes::from_static(
            MODULE,
        ))),
        ..Default::default()
    };
    let machine = wasm::VmConfig {
        vm_id: NAME.to_owned(),
        runtime: "envoy.wasm.runtime.v8".to_owned(),
        code: Some(AsyncDataSource {
            specifier: Some(async_data_source::Specifier::Local(code)),
        }),
        ..Default::default()
    };
    let config = Wasm {
        config: Some(wasm::PluginConfig {
            name: NAME.to_owned(),
            failure_policy: wasm::FailurePolicy::FailClosed as i32,
            vm: Some(wasm::plugin_config::Vm::VmConfig(machine)),
            ..Default::default()
        }),
    };
    filters::http(NAME, any(&config))
}

#[cfg(test)]
mod tests {
    use super::MODULE;

    #[test]
    fn the_module_is_assembled_from_its_text() {
        let text = include_str!("names/names.wat");
        assert_eq!(
            wat::parse_str(text).unwrap(),
            MODULE,
            "run `wat2wasm` in names"
        );
    }
}
