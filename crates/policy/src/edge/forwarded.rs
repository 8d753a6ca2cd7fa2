//! What clients state of `x-forwarded-for`, kept under another name before Envoy adds their address: behind that nobody can say
//! whether a client stated anything.

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use proto_envoy::envoy::config::core::v3::TypedExtensionConfig;
use proto_envoy::xds::r#type::v3::TypedStruct;
use xds::any;

use super::can::EARLY;
use super::{object, string};

/// The header in which it is kept; no backend sees it.
pub const STATED: &str = "x-pilothouse-forwarded-for";
/// The type of what changes headers before Envoy adds to them.
const TYPE: &str = "type.googleapis.com/envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation";

/// What keeps it; what clients state in that header themselves is dropped.
pub fn keep_stated() -> TypedExtensionConfig {
    let header = object([
        ("key", string(STATED)),
        ("value", string("%REQ(x-forwarded-for)%")),
    ]);
    let append = object([
        ("header", Kind::StructValue(header)),
        ("append_action", string("OVERWRITE_IF_EXISTS_OR_ADD")),
    ]);
    let mutation = |fields: Struct| Value {
        kind: Some(Kind::StructValue(fields)),
    };
    let values = vec![
        mutation(object([("remove", string(STATED))])),
        mutation(object([("append", Kind::StructValue(append))])),
    ];
    let mutations = object([("mutations", Kind::ListValue(ListValue { values }))]);
    TypedExtensionConfig {
        name: EARLY.to_owned(),
        typed_config: Some(any(&TypedStruct {
            type_url: TYPE.to_owned(),
            value: Some(mutations),
        })),
    }
}
