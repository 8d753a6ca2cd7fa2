//! What Istio's own tests recorded of delegates and short names, when the recordings are there.

use proto_istio::networking::{HttpMatchRequest, HttpRoute};
use serde::de::DeserializeOwned;
use serde_json::Value;
use testkit::cases;

use super::delegate;
use super::host_name;
use crate::limits::Budget;
use model::names::gateway_name;

fn read<T: DeserializeOwned + Default>(value: &Value) -> T {
    if value.is_null() {
        return T::default();
    }
    serde_json::from_value(value.clone()).unwrap()
}

fn merge_matches(
    root: &[HttpMatchRequest],
    leaf: &[HttpMatchRequest],
) -> Option<Vec<HttpMatchRequest>> {
    let mut bytes = Budget::new(usize::MAX);
    let mut matching = delegate::Matching {
        each: 0,
        bytes: &mut bytes,
    };
    matching.merge(root, leaf).unwrap()
}

#[test]
fn matches_contradict_each_other_as_recorded() {
    for case in cases("model", "model.hasConflict") {
        let root: HttpMatchRequest = read(&case["in"]["root"]);
        let leaf: HttpMatchRequest = read(&case["in"]["leaf"]);
        let ours = delegate::conflict(&root, &leaf);
        assert_eq!(ours, case["out"] == true, "{}", case["test"]);
    }
}

#[test]
fn matches_merge_as_recorded() {
    for case in cases("model", "model.mergeHTTPMatchRequests") {
        let root: Vec<HttpMatchRequest> = read(&case["in"]["root"]);
        let leaf: Vec<HttpMatchRequest> = read(&case["in"]["delegate"]);
        let ours = merge_matches(&root, &leaf);
        assert_eq!(ours.is_none(), case["out"][1] == true, "{}", case["test"]);
        let theirs: Vec<HttpMatchRequest> = read(&case["out"][0]);
        assert_eq!(ours.unwrap_or_default(), theirs, "{}", case["test"]);
    }
}

#[test]
fn routes_merge_as_recorded() {
    for case in cases("model", "model.MergeHTTPRoutes") {
        let root = HttpRoute {
            delegate: None,
            ..read(&case["in"]["root"])
        };
        let routes: Vec<HttpRoute> = read(&case["in"]["delegate"]);
        let ours = routes.into_iter().filter_map(|route| {
            let r#match = merge_matches(&root.r#match, &route.r#match)?;
            Some(delegate::merge(&root, HttpRoute { r#match, ..route }))
        });
        let theirs: Vec<HttpRoute> = read(&case["out"]);
        assert_eq!(ours.collect::<Vec<_>>(), theirs, "{}", case["test"]);
    }
}

#[test]
fn short_names_are_written_out_as_recorded() {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    for case in cases("model", "model.ResolveShortnameToFQDN") {
        let meta = &case["in"]["meta"];
        let host = text(&case["in"]["hostname"]);
        let namespace = text(&meta["Namespace"]).into();
        let ours = host_name(&host, &namespace, &text(&meta["Domain"]));
        assert_eq!(ours.unwrap_or(host), text(&case["out"]), "{}", case["test"]);
    }
    for case in cases("model", "model.resolveGatewayName") {
        let gateway = text(&case["in"]["gwname"]);
        let namespace = text(&case["in"]["meta"]["Namespace"]).into();
        let ours = gateway_name(&gateway, &namespace);
        assert_eq!(
            ours.unwrap_or(gateway),
            text(&case["out"]),
            "{}",
            case["test"]
        );
    }
}
