//! What is reported about secret templates.

use std::sync::Arc;

use model::Severity;
use model::settings::{Features, Settings};
use pilothouse_analysis::Analysis;
use testkit::{World, settings};

#[test]
fn templates_without_a_value_are_told_with_their_fields() {
    let yaml = r#"
{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}, stringData: {key: v, line: "v\n"}}
---
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: w, namespace: shop}
spec:
  url: oci://example.com/w
  pluginConfig:
    list: ["${secret.s.key}", "${secret.s.other}", "${secret.none.key}", "${secret.ops/s.key}", "${secret.s.line}"]
"#;
    let features = Features {
        secret_templates: "*".into(),
        ..Features::default()
    };
    let mut world = World::new(Settings {
        features: Arc::new(features),
        ..settings("")
    });
    world.put(yaml);
    let all = world.get(&Analysis);
    let found = all.iter().map(|f| &f.diagnostic);
    let ours = found.filter(|d| d.code == "PIL0116");
    let told: Vec<String> = ours.map(|d| format!("{}: {}", d.path, d.message)).collect();
    assert_eq!(
        told,
        [
            "spec.pluginConfig.list[1]: the key \"other\" of Secret shop/s cannot be put in: the Secret has no such key",
            "spec.pluginConfig.list[2]: the key \"key\" of Secret shop/none cannot be put in: there is no such Secret",
            "spec.pluginConfig.list[3]: the key \"key\" of Secret ops/s cannot be put in: objects of its namespace may not have values of Secrets of another",
            "spec.pluginConfig.list[4]: the key \"line\" of Secret shop/s ends with a line break, which a header cannot have",
        ]
    );
}

#[test]
fn templates_of_a_namespace_for_which_they_are_off_are_told() {
    let mut world = World::new(Settings {
        features: Arc::new(Features {
            secret_templates: "ops".into(),
            ..Features::default()
        }),
        ..settings("")
    });
    for namespace in ["ops", "shop"] {
        world.put(&format!(
            r#"
{{apiVersion: v1, kind: Secret, metadata: {{name: s, namespace: {namespace}}}, stringData: {{key: v}}}}
---
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {{name: w, namespace: {namespace}}}
spec: {{url: "oci://example.com/w", pluginConfig: {{key: "${{secret.s.key}}"}}}}
"#
        ));
    }
    let all = world.get(&Analysis);
    let found = all.iter().map(|f| &f.diagnostic);
    let ours = found.filter(|d| d.code == "PIL0116");
    let told: Vec<(Severity, &str)> = ours.map(|d| (d.severity, &*d.message)).collect();
    let why = "the key \"key\" of Secret shop/s is not put in: secret templates are turned off for the namespace shop; \
               PILOTHOUSE_SECRET_TEMPLATES can allow them";
    assert_eq!(told, [(Severity::Info, why)]);
}
