//! Extension configurations that Envoy takes: in place of a filter whose configuration it does not take stands one that refuses
//! what would pass it.

use std::sync::Arc;

use judge::judge;
use model::diagnostic::Diagnostic;
use model::kinds::Kind;
use model::object::ObjectKey;
use policy::envoy_filter::Patch;
use policy::traffic_extension::refusing;
use prost::{Message, Name};
use proto_envoy::envoy::config::core::v3::TypedExtensionConfig;
use xds::Resource;

use super::finding;

/// The configuration of a filter that an EnvoyFilter adds, as a resource. Nothing stands in place of one that Envoy would
/// refuse: which kinds of filters the listener takes is known to its author alone. Of a proxy whose agent changes what Envoy
/// gets, nothing is judged.
///
/// # Errors
///
/// When Envoy would refuse it.
pub(crate) fn added(
    patch: &Patch<TypedExtensionConfig>,
    is_judged: bool,
) -> Result<Resource, Box<Diagnostic>> {
    let config = &patch.value;
    let bytes = config.encode_to_vec();
    let verdict = match is_judged {
        true => judge(&TypedExtensionConfig::full_name(), &bytes),
        false => Ok(()),
    };
    match verdict {
        Ok(()) => Ok(Resource::from_bytes(config.name.as_str(), bytes.into())),
        Err(fault) => {
            let object = ObjectKey {
                kind: Kind::EnvoyFilter,
                name: patch.of.clone(),
            };
            let effect = format!("extension {}: it is left out", config.name);
            let found = finding(Some(object), &effect, &fault);
            Err(Box::new(found.at(format!(
                "spec.configPatches[{}].patch.value",
                patch.at
            ))))
        }
    }
}

/// The configuration of a filter, or in its place one that refuses, with what was found; `None` where none can.
pub(crate) fn extension(resource: &Arc<Resource>) -> Option<Arc<Resource>> {
    let Err(fault) = judge(&TypedExtensionConfig::full_name(), &resource.body) else {
        return Some(resource.clone());
    };
    let config = TypedExtensionConfig::decode(&*resource.body).ok()?;
    let refuses = refusing(&config.typed_config?.type_url)?;
    let effect = format!("extension {}: what would pass it is refused", config.name);
    let closed = TypedExtensionConfig {
        typed_config: Some(refuses),
        name: config.name,
    };
    let closed = Resource::from_bytes(resource.name.clone(), closed.encode_to_vec().into());
    Some(Arc::new(
        closed.finding(vec![finding(None, &effect, &fault)]),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_envoy::envoy::config::core::v3::{
        AsyncDataSource, RemoteDataSource, async_data_source,
    };
    use proto_envoy::envoy::extensions::filters::http;
    use proto_envoy::envoy::extensions::wasm::v3 as wasm;
    use xds::any;

    fn config(code: Option<AsyncDataSource>) -> Arc<Resource> {
        let vm = wasm::VmConfig {
            code,
            ..wasm::VmConfig::default()
        };
        let filter = http::wasm::v3::Wasm {
            config: Some(wasm::PluginConfig {
                vm: Some(wasm::plugin_config::Vm::VmConfig(vm)),
                ..wasm::PluginConfig::default()
            }),
        };
        let config = TypedExtensionConfig {
            name: "shop.filter".to_owned(),
            typed_config: Some(any(&filter)),
        };
        Arc::new(Resource::encode("shop.filter", &config))
    }

    #[test]
    fn a_filter_whose_configuration_envoy_does_not_take_refuses() {
        let taken = config(None);
        let kept = extension(&taken).unwrap();
        assert_eq!((&kept.body, kept.findings()), (&taken.body, &[][..]));

        let nowhere = async_data_source::Specifier::Remote(RemoteDataSource::default());
        let refused = config(Some(AsyncDataSource {
            specifier: Some(nowhere),
        }));
        let closed = extension(&refused).unwrap();
        assert_eq!(closed.name, refused.name);
        assert_eq!(closed.findings().len(), 1);
        let closed = TypedExtensionConfig::decode(&*closed.body).unwrap();
        assert_eq!(closed.name, "shop.filter");
        let filter = closed.typed_config.unwrap();
        let rules = http::rbac::v3::Rbac::decode(&*filter.value).unwrap().rules;
        assert!(
            filter
                .type_url
                .ends_with(&http::rbac::v3::Rbac::full_name())
        );
        assert!(rules.unwrap().policies.is_empty());
    }
}
