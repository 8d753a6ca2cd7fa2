//! Objects as resources.

use std::collections::BTreeMap;

use bytes::Bytes;
use model::kinds::AnyObject;
use model::labels::Labels;
use model::template::{self, Mark};
use prost::Message;
use prost_types::Any;
use proto_istio::{json, wkt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::kinds;
use crate::resource::Resource;

/// What stands in a resource in place of a mark.
pub type Fill<'a> = dyn Fn(&Mark) -> String + 'a;

/// An object as the resource of a response, as its author wrote it; `None` for kinds that do not travel.
pub fn encode(object: &AnyObject) -> Option<Any> {
    resource_of(object, &Mark::written).map(|resource| resource.encode())
}

/// An object as a resource; `None` for kinds that do not travel.
pub fn resource_of(object: &AnyObject, fill: &Fill<'_>) -> Option<Resource> {
    let message = kinds::message(object.kind())?;
    let meta = object.meta();
    Some(Resource {
        namespace: meta.name.namespace.to_string(),
        name: meta.name.name.to_string(),
        version: meta.resource_version.to_string(),
        created: meta.created.time(),
        labels: map(&meta.labels),
        annotations: annotations(&meta.annotations, fill),
        message: message.to_owned(),
        body: body(object, fill),
        extra: Bytes::new(),
    })
}

fn map(labels: &Labels) -> BTreeMap<String, String> {
    let pairs = labels.iter();
    pairs.map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

/// The annotations of an object, which may have templates.
fn annotations(annotations: &Labels, fill: &Fill<'_>) -> BTreeMap<String, String> {
    let pairs = annotations.iter();
    pairs
        .map(|(k, v)| (k.to_string(), template::filled(v, fill).into_owned()))
        .collect()
}

macro_rules! messages {
    ($($variant:ident),+ $(,)?) => {
        /// The spec as the message of its kind.
        fn body(object: &AnyObject, fill: &Fill<'_>) -> Bytes {
            match object {
                $(AnyObject::$variant(object) => encode_spec(&object.spec, fill),)+
                other => of_json(other.spec_json()),
            }
        }
    };
}

messages!(
    AuthorizationPolicy,
    DestinationRule,
    EnvoyFilter,
    Gateway,
    PeerAuthentication,
    ProxyConfig,
    RequestAuthentication,
    ServiceEntry,
    Sidecar,
    Telemetry,
    TrafficExtension,
    VirtualService,
    WasmPlugin,
    WorkloadEntry,
    WorkloadGroup,
);

/// A spec that is a message, with what `fill` says in place of marks.
pub fn encode_spec<T: Message + Default + Serialize + DeserializeOwned>(
    spec: &T,
    fill: &Fill<'_>,
) -> Bytes {
    let encoded = spec.encode_to_vec();
    if !template::is_marked(&encoded) {
        return encoded.into();
    }
    let mut filled = serde_json::to_value(spec).unwrap_or_default();
    fill_texts(&mut filled, fill);
    // What was a message a moment ago is one again.
    let read = json::from_value::<T>(&filled).map(|read| read.message);
    read.unwrap_or_default().encode_to_vec().into()
}

fn fill_texts(json: &mut Json, fill: &Fill<'_>) {
    match json {
        Json::String(text) => *text = template::filled(text, fill).into_owned(),
        Json::Array(items) => items.iter_mut().for_each(|item| fill_texts(item, fill)),
        Json::Object(fields) => fields
            .values_mut()
            .for_each(|value| fill_texts(value, fill)),
        _ => {}
    }
}

/// A spec that is JSON.
fn of_json(mut spec: Json) -> Bytes {
    drop_nulls(&mut spec);
    let spec: wkt::Struct = serde_json::from_value(spec).unwrap_or_default();
    spec.encode_to_vec().into()
}

/// Removes the fields without a value, which Kubernetes does not write.
fn drop_nulls(json: &mut Json) {
    match json {
        Json::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Json::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
