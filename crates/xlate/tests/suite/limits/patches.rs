//! What patches of EnvoyFilters may add: to each of what they patch, and together.

use xds::TypeUrl;

use crate::limits::hostile::{everybody, lua, merge, patches};
use crate::limits::measured::Measured;

const CART: &str = "outbound|80||cart.shop.svc.cluster.local";

fn measured(stated: &[String]) -> Measured {
    Measured::new(&(everybody() + &patches(&stated.join(", "))))
}

fn told(path: &str) -> Vec<(String, String)> {
    vec![("EnvoyFilter shop/f".to_owned(), path.to_owned())]
}

fn named(bytes: usize) -> String {
    let text = "x".repeat(bytes);
    merge("CLUSTER", &format!("{{alt_stat_name: {text}}}"))
}

fn text(measured: &Measured, ty: TypeUrl, name: &str) -> String {
    measured.resource(ty, name).expect("a resource").to_string()
}

/// Whether a side of the sidecar refuses everything.
fn refuses(measured: &Measured, listener: &str) -> bool {
    text(measured, TypeUrl::Listener, listener)
        .contains("room for the policies and extensions of all its ports")
}

#[test]
fn a_patch_that_is_too_large_is_left_out_alone() {
    let timeout = merge("CLUSTER", "{connect_timeout: 7s}");
    let measured = measured(&[named(40_000), timeout]);
    assert_eq!(measured.exceeded, told("spec.configPatches[0].patch.value"));
    let cluster = measured.resource(TypeUrl::Cluster, CART).unwrap();
    assert_eq!(cluster["connect_timeout"], "7s");
    assert!(
        cluster["alt_stat_name"]
            .as_str()
            .is_none_or(|n| n.len() < 100)
    );
}

#[test]
fn patches_that_are_too_large_together_end_where_the_limit_is() {
    let mut stated = vec![named(25_000), named(25_001), named(25_002)];
    stated.push(merge("CLUSTER", "{connect_timeout: 7s}"));
    let measured = measured(&stated);
    assert_eq!(measured.exceeded, told("spec.configPatches[2]"));
    let cluster = measured.resource(TypeUrl::Cluster, CART).unwrap();
    assert_eq!(
        cluster["alt_stat_name"].as_str().map(str::len),
        Some(25_001)
    );
    assert_ne!(cluster["connect_timeout"], "7s");
}

#[test]
fn patches_of_every_cluster_are_few() {
    let empty = || merge("CLUSTER", "{}");
    let stated: Vec<String> = std::iter::repeat_with(empty).take(65).collect();
    assert_eq!(measured(&stated[..64]).exceeded, []);
    assert_eq!(measured(&stated).exceeded, told("spec.configPatches[64]"));
}

#[test]
fn patches_that_name_a_cluster_and_what_is_added_may_be_larger() {
    let large = format!("{{alt_stat_name: {}}}", "x".repeat(100_000));
    let to = format!("applyTo: CLUSTER, match: {{cluster: {{name: '{CART}'}}}}");
    let merged = format!("{{{to}, patch: {{operation: MERGE, value: {large}}}}}");
    let added = format!(
        "{{applyTo: CLUSTER, patch: {{operation: ADD, value: {{name: added, alt_stat_name: {}}}}}}}",
        "x".repeat(1_000_000)
    );
    let measured = measured(&[merged, added]);
    assert_eq!(measured.exceeded, []);
    let cluster = measured.resource(TypeUrl::Cluster, CART).unwrap();
    assert_eq!(
        cluster["alt_stat_name"].as_str().map(str::len),
        Some(100_000)
    );
    assert!(measured.resource(TypeUrl::Cluster, "added").is_some());
}

#[test]
fn a_filter_that_is_too_large_closes_its_side_and_no_other() {
    let measured = measured(&[lua("SIDECAR_INBOUND", 600_000)]);
    assert_eq!(measured.exceeded, told("spec.configPatches[0].patch.value"));
    assert!(refuses(&measured, "virtualInbound"));
    assert!(!refuses(&measured, "0.0.0.0_80"));
}

#[test]
fn filters_that_are_too_large_together_close_their_side() {
    let stated: Vec<String> = (0..5).map(|_| lua("SIDECAR_INBOUND", 500_000)).collect();
    let measured = measured(&stated);
    assert_eq!(measured.exceeded, told("spec.configPatches[4]"));
    assert!(refuses(&measured, "virtualInbound"));
}

#[test]
fn filters_that_chains_repeat_too_often_close_the_proxy() {
    let yaml = crate::limits::hostile::yaml("patched-filters", 150, 400_000).unwrap();
    let measured = Measured::new(&yaml);
    assert!(refuses(&measured, "virtualInbound"));
    assert!(refuses(&measured, "0.0.0.0_80"));
}

#[test]
fn too_many_patches_of_a_kind_are_left_out() {
    let removed = |at| {
        format!(
            "{{applyTo: CLUSTER, match: {{cluster: {{service: s{at}}}}}, patch: {{operation: REMOVE}}}}"
        )
    };
    let stated: Vec<String> = (0..=10_000).map(removed).collect();
    assert_eq!(
        measured(&stated).exceeded,
        told("spec.configPatches[10000]")
    );
}

#[test]
fn what_users_write_is_far_from_the_limits() {
    // A program for requests, a limit on each of 1,000 hosts, and settings of each of 1,000 services.
    let mut stated = vec![lua("ANY", 50_000)];
    for at in 0..1000 {
        let bucket = "rate_limits: [{actions: [{generic_key: {descriptor_value: a}}]}]";
        stated.push(format!(
            "{{applyTo: VIRTUAL_HOST, match: {{routeConfiguration: {{vhost: {{name: 'h{at}:80'}}}}}}, \
             patch: {{operation: MERGE, value: {{{bucket}}}}}}}"
        ));
        stated.push(format!(
            "{{applyTo: CLUSTER, match: {{cluster: {{service: s{at}.shop.svc.cluster.local}}}}, \
             patch: {{operation: MERGE, value: {{connect_timeout: 3s}}}}}}"
        ));
    }
    let measured = measured(&stated);
    assert_eq!(measured.exceeded, []);
    assert!(text(&measured, TypeUrl::Listener, "virtualInbound").contains("--xxx"));
}
