//! What takes the place of objects that were rejected, where its kind alone does not close.

use std::sync::Arc;

use incr::Cx;
use mcp::{Resource, kinds};
use model::kinds::Kind;
use model::kinds::istio::{AuthorizationPolicy, RequestAuthentication};
use model::object::Object;
use prost::Message;
use proto_istio::security::Rule;
use proto_istio::security::authorization_policy::Action;
use store::index::{CLOSED, ObjectIndex};
use store::{Reads, Snapshot};

use crate::item::Item;

/// What names of policies end in that no object has which was written.
const OF_TOKENS: &str = ":closed";

/// A policy that denies every request for each RequestAuthentication that was rejected: without rules istiod asks for no token.
pub(crate) fn policies(cx: &Cx<'_, Snapshot>) -> Vec<Arc<Item>> {
    let rejected = cx.list_by::<RequestAuthentication>(ObjectIndex::Closed, CLOSED);
    rejected
        .iter()
        .map(|object| Arc::new(policy(object)))
        .collect()
}

fn policy(object: &Object<RequestAuthentication>) -> Item {
    let spec = &object.spec;
    let denies = AuthorizationPolicy {
        selector: spec.selector.clone(),
        target_ref: spec.target_ref.clone(),
        target_refs: spec.target_refs.clone(),
        action: Action::Deny.into(),
        rules: vec![Rule::default()],
        ..AuthorizationPolicy::default()
    };
    let name = &object.meta.name;
    Item::new(&Resource {
        namespace: name.namespace.to_string(),
        name: format!("{}{OF_TOKENS}", name.name),
        message: kinds::message(Kind::AuthorizationPolicy)
            .unwrap_or_default()
            .to_owned(),
        body: denies.encode_to_vec().into(),
        ..Resource::default()
    })
}
