use clap::{Args, FromArgMatches};
use model::{Change, Owner};
use testkit::World;

use super::*;

const PILOT: &str = "istio-system";

fn source() -> Owner {
    Owner::new(100, "kubernetes:Kubernetes")
}

fn options(args: &[&str]) -> TrustOptions {
    let command = TrustOptions::augment_args(clap::Command::new("serve").no_binary_name(true));
    let read = command.try_get_matches_from(args).unwrap();
    TrustOptions::from_arg_matches(&read).unwrap()
}

fn bundle(roots: &str, revoked: Option<&str>) -> Bundle {
    Bundle {
        roots: roots.into(),
        revoked: revoked.map(Into::into),
    }
}

fn here() -> Scope {
    Scope {
        cluster: None,
        source: source().source,
    }
}

fn told(world: &mut World, owner: &Owner, yaml: &str) {
    let objects = World::objects(yaml).into_iter().map(|mut object| {
        object.set_origin(Origin::Source(owner.source.clone()));
        Change::Put(owner.clone(), object)
    });
    world.apply(objects);
}

fn namespaces(names: &[&str]) -> String {
    let one = |name: &&str| {
        format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, labels: {{mesh: {name}}}}}\n"
        )
    };
    names.iter().map(one).collect::<Vec<_>>().join("---\n")
}

fn config_map(namespace: &str, name: &str, key: &str, text: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\ndata: {{{key}: {text}}}\n"
    )
}

fn names(wanted: &Wanted<Wish>) -> Vec<String> {
    let one = |(object, unmet): (&ObjectRef, &Arc<Unmet<Wish>>)| {
        let exists = if unmet.exists { "" } else { " (new)" };
        format!("{object}{exists}")
    };
    wanted.iter().map(one).collect()
}

#[test]
fn each_namespace_without_the_roots_gets_them() {
    let mut world = World::default();
    let all = [
        "shop",
        "bank",
        "kube-system",
        "kube-public",
        "kube-node-lease",
        "local-path-storage",
    ];
    told(&mut world, &source(), &namespaces(&all));
    told(
        &mut world,
        &Owner::new(10, "files:x"),
        &namespaces(&["of-a-folder"]),
    );
    let now = |world: &World, roots: &Bundle| {
        let snapshot = world.store.snapshot();
        names(&of_namespaces(&snapshot, &here(), roots, &options(&[])))
    };
    let root = bundle("ROOT", None);
    let name = "istio-ca-root-cert";
    assert_eq!(
        now(&world, &root),
        [
            "ConfigMap bank/istio-ca-root-cert (new)",
            "ConfigMap kube-system/istio-ca-root-cert (new)",
            "ConfigMap shop/istio-ca-root-cert (new)",
        ]
    );
    let held = config_map("shop", name, "root-cert.pem", "ROOT");
    told(&mut world, &source(), &held);
    let other = config_map("bank", name, "root-cert.pem", "OTHER");
    told(&mut world, &source(), &other);
    assert_eq!(
        now(&world, &root),
        [
            "ConfigMap bank/istio-ca-root-cert",
            "ConfigMap kube-system/istio-ca-root-cert (new)",
        ]
    );
    // What was revoked is told where anything is, and taken back where it was.
    let revoked = bundle("ROOT", Some("CRL"));
    assert_eq!(now(&world, &revoked).len(), 5);
    told(
        &mut world,
        &source(),
        &config_map("shop", "istio-ca-crl", "ca-crl.pem", "CRL"),
    );
    assert_eq!(now(&world, &revoked).len(), 4);
    assert!(now(&world, &root).contains(&"ConfigMap shop/istio-ca-crl".to_owned()));
}

#[test]
fn namespaces_that_the_mesh_does_not_discover_get_none() {
    let selectors = "discoverySelectors: [{matchLabels: {mesh: shop}}]";
    let mut world = World::new(testkit::settings(selectors));
    told(&mut world, &source(), &namespaces(&["shop", "bank"]));
    let wanted = of_namespaces(
        &world.store.snapshot(),
        &here(),
        &bundle("ROOT", None),
        &options(&[]),
    );
    assert_eq!(names(&wanted), ["ConfigMap shop/istio-ca-root-cert (new)"]);
}

#[test]
fn a_remote_cluster_is_ours_if_it_says_so() {
    let west = Owner {
        cluster: Some("west".into()),
        ..Owner::new(101, "kubernetes:west")
    };
    let mut world = World::default();
    let is_ours = |world: &World| {
        let (west, home) = ("west".into(), "home".into());
        super::is_ours(&world.store.snapshot(), PILOT, &west, &home)
    };
    assert!(!is_ours(&world));
    for (stated, ours) in [
        ("other", false),
        ("other, home", true),
        ("*", true),
        ("homely", false),
    ] {
        let stated = format!("{{topology.istio.io/controlPlaneClusters: '{stated}'}}");
        let yaml = format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {PILOT}, annotations: {stated}}}\n"
        );
        told(&mut world, &west, &yaml);
        assert_eq!(is_ours(&world), ours, "{stated}");
    }
    told(&mut world, &west, &namespaces(&["shop"]));
    let there = Scope {
        cluster: Some("west".into()),
        source: west.source.clone(),
    };
    let (roots, options) = (bundle("ROOT", None), options(&[]));
    let wanted = of_namespaces(&world.store.snapshot(), &there, &roots, &options);
    assert_eq!(wanted.len(), 2);
    let wanted = of_namespaces(&world.store.snapshot(), &here(), &roots, &options);
    assert_eq!(names(&wanted), [""; 0]);
}

fn webhooks(kind: &str, name: &str, revision: &str, webhook: &str, rest: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1
kind: {kind}WebhookConfiguration
metadata: {{name: {name}, labels: {{istio.io/rev: {revision}}}}}
webhooks: [{{name: {webhook}, {rest}}}]
"
    )
}

#[test]
fn webhooks_of_the_revision_are_wanted_while_they_have_other_roots() {
    let mut world = World::default();
    let injector = "rev.sidecar-injector.istio.io";
    for (kind, name, revision, webhook) in [
        ("Mutating", "injector", "v2", injector),
        ("Mutating", "istio-revision-tag-prod", "v2", injector),
        ("Mutating", "of-another", "v1", injector),
        ("Mutating", "of-others", "v2", "other.example.com"),
        ("Validating", "validator", "v2", "validation.istio.io"),
    ] {
        let yaml = webhooks(
            kind,
            name,
            revision,
            webhook,
            "clientConfig: {}, failurePolicy: Ignore",
        );
        told(&mut world, &source(), &yaml);
    }
    let now = |world: &World, fail: bool, args: &[&str]| {
        let (revision, roots) = ("v2".into(), bundle("ROOT", None));
        let snapshot = world.store.snapshot();
        let wanted = of_webhooks(&snapshot, &here(), &revision, &roots, &options(args), fail);
        names(&wanted)
    };
    let injectors = [
        "MutatingWebhookConfiguration injector",
        "MutatingWebhookConfiguration istio-revision-tag-prod",
    ];
    let validator = ["ValidatingWebhookConfiguration validator"];
    assert_eq!(
        now(&world, false, &[]),
        [&injectors[..], &validator].concat()
    );
    assert_eq!(now(&world, false, &["--validation-webhook", ""]), injectors);
    assert_eq!(now(&world, false, &["--injection-webhook", ""]), validator);
    assert!(has_lenient(&world.store.snapshot(), &here(), "v2"));
    assert!(!has_lenient(&world.store.snapshot(), &here(), "v1"));

    let rest = "clientConfig: {caBundle: Uk9PVA==}, failurePolicy: Ignore";
    for (kind, name, webhook) in [
        ("Mutating", "injector", injector),
        ("Mutating", "istio-revision-tag-prod", injector),
        ("Validating", "validator", "validation.istio.io"),
    ] {
        told(
            &mut world,
            &source(),
            &webhooks(kind, name, "v2", webhook, rest),
        );
    }
    assert_eq!(now(&world, false, &[]), [""; 0]);
    assert_eq!(now(&world, true, &[]), validator);
}
