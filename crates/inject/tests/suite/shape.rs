//! Texts of users change texts of what is injected or deployed, and nothing of its shape.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::kinds::gateway_api::Gateway;
use model::mesh::{MeshConfig, ProxyConfig, default_mesh_config, default_proxy_config};
use model::{AnyObject, Object};
use pilothouse_inject::gateway::{Class, Deployment, Switches};
use pilothouse_inject::{
    Injection, Outcome, Request, Settings, builtin, effective_proxy_config, inject,
};
use proptest::prelude::*;
use proto_istio::networking;
use serde_json::{Value, json};

/// A variable's name that adds a privileged container where a template writes it as it is.
const NAME: &str = "A: b\n  - name: evil\n    image: evil/image\n    command: [nsenter]\n    securityContext: {privileged: true, runAsUser: 0}\n  - name: rest\n    image: x\n    args:\n    - |\n      z";

fn settings(config: &str, mesh: MeshConfig) -> Settings {
    let values = builtin::VALUES.replace("image: \"\"", "image: tools");
    let injection = Injection::read(config, &values, BTreeMap::new());
    Settings {
        injection: Arc::new(injection.expect("templates and values can be read")),
        mesh: Arc::new(mesh),
        revision: "default".to_owned(),
        compliance_policy: String::new(),
        openshift: false,
    }
}

fn pod(labels: &Value, annotations: &Value) -> Value {
    json!({
        "metadata": {
            "generateName": "web-5-", "namespace": "shop", "labels": labels, "annotations": annotations,
            "ownerReferences": [{"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "web-5", "uid": "1", "controller": true}],
        },
        "spec": {"containers": [{"name": "web", "image": "web"}]},
    })
}

/// What of a pod gives power: everything of its spec but for texts that programs read.
fn shape(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            let fields = container.as_object_mut().expect("a container is an object");
            for field in ["args", "env"] {
                let items = fields
                    .get(field)
                    .and_then(Value::as_array)
                    .map_or(0, Vec::len);
                // A drawn variable is one more.
                fields.insert(field.to_owned(), (field == "args").then_some(items).into());
            }
        }
    }
    spec
}

fn injected(
    pod: &Value,
    proxy: Option<&ProxyConfig>,
    settings: &Settings,
) -> Result<Value, String> {
    let request = Request {
        native_sidecars: true,
        proxy_config: proxy,
        ..Request::default()
    };
    match inject(pod, &request, settings) {
        Ok(Outcome::Injected(injected)) => Ok(injected.pod),
        Ok(other) => panic!("{other:?}"),
        Err(fault) => Err(fault.to_string()),
    }
}

/// Envoy's bootstrap in an injected pod.
fn bootstrap(pod: &Value) -> Value {
    let lists = ["initContainers", "containers"].into_iter();
    let mut all = lists.flat_map(|list| pod["spec"][list].as_array().into_iter().flatten());
    let proxy = all.find(|c| c["name"] == "istio-proxy");
    let proxy = proxy.expect("the pod has a proxy");
    let text = proxy["args"][1].as_str().expect("the proxy has a script");
    model::parse::to_json(text)[0]
        .clone()
        .expect("it holds YAML")
}

/// The configuration of a proxy to which a ProxyConfig of that namespace gives a variable.
fn with_variable(mesh: &MeshConfig, name: &str, value: &str) -> ProxyConfig {
    let stated = networking::ProxyConfig {
        environment_variables: [(name.to_owned(), value.to_owned())].into(),
        ..Default::default()
    };
    let all = [("shop", &stated)];
    let labels = model::Labels::default();
    effective_proxy_config(mesh, all.into_iter(), "shop", &labels, None)
}

#[test]
fn a_name_of_a_variable_adds_no_container() {
    let settings = settings(&builtin::config(), default_mesh_config());
    let plain = injected(&pod(&json!({}), &json!({})), None, &settings).unwrap();
    let proxy = with_variable(&settings.mesh, NAME, "v");
    let of_resource = injected(&pod(&json!({}), &json!({})), Some(&proxy), &settings).unwrap();
    let annotation = json!({"proxyMetadata": {NAME: "v"}}).to_string();
    let annotated = pod(&json!({}), &json!({"proxy.istio.io/config": annotation}));
    let of_annotation = injected(&annotated, None, &settings).unwrap();
    let mut mesh = default_mesh_config();
    let config = mesh.default_config.get_or_insert_default();
    config
        .proxy_metadata
        .insert(NAME.to_owned(), "v".to_owned());
    let of_mesh = self::settings(&builtin::config(), mesh);
    let of_mesh = injected(&pod(&json!({}), &json!({})), None, &of_mesh).unwrap();
    for made in [of_resource, of_annotation, of_mesh] {
        assert_eq!(made["spec"], plain["spec"]);
    }
    let request = Request {
        proxy_config: Some(&proxy),
        ..Request::default()
    };
    match inject(&pod(&json!({}), &json!({})), &request, &settings) {
        Ok(Outcome::Injected(made)) => assert!(made.warnings[0].contains("is left out")),
        other => panic!("{other:?}"),
    }
    let proxy = with_variable(&settings.mesh, "ISTIO_META_OK", "a: b\n- c");
    let made = injected(&pod(&json!({}), &json!({})), Some(&proxy), &settings).unwrap();
    assert_eq!(bootstrap(&made)["node"]["metadata"]["OK"], "a: b\n- c");
}

#[test]
fn a_template_whose_shape_hangs_on_a_value_is_refused() {
    let plain = json!({"note": "plain, not odd; it is (a) note/of=10% @work"});
    let evil = "\", securityContext: {privileged: true}, image: \"x";
    for (template, value, told) in [
        (
            "spec: {containers: [{name: a, image: \"@\"}]}",
            evil,
            Some("spec.containers.0"),
        ),
        (
            "spec:\n  containers:\n  - name: a\n    image: @\n",
            "x\n    command: [nsenter]",
            Some("spec.containers.0"),
        ),
        (
            "spec:\n  containers:\n  - name: a\n    args: [@]\n",
            "{a: b}",
            Some("args.0"),
        ),
        ("spec:\n  hostPID: @\n", "true #", Some("spec.hostPID")),
        (
            "spec:\n  containers:\n  - name: a\n    args:\n    - |\n      a: \"@\"\n",
            "\"\n      admin: \"",
            Some("args.0: "),
        ),
        // Texts that programs read may hold anything.
        (
            "metadata:\n  annotations:\n    x: '@'\n",
            "{\"a\": \"b\"}",
            None,
        ),
        (
            "spec:\n  containers:\n  - name: a\n    env: [{name: x, value: {{ index .ObjectMeta.Annotations `note` | quote }}}]\n",
            evil,
            None,
        ),
        (
            "spec:\n  volumes: {{ index .ObjectMeta.Annotations `note` | fromJSON | toJson }}\n",
            "[{\"name\": \"v\", \"emptyDir\": {}}]",
            None,
        ),
        // What the template decides, it decides.
        (
            "{{ if eq (index .ObjectMeta.Annotations `note`) `on` }}spec: {hostPID: true}{{ end }}",
            "on",
            None,
        ),
    ] {
        let template = template.replace('@', "{{ index .ObjectMeta.Annotations `note` }}");
        let config = json!({"policy": "enabled", "templates": {"sidecar": template}}).to_string();
        let settings = settings(&config, default_mesh_config());
        let made = injected(&pod(&json!({}), &json!({"note": value})), None, &settings);
        match (made, told) {
            (Ok(_), None) => {}
            (Err(fault), Some(told)) => assert!(
                fault.contains(told) && fault.contains("shop/web-5-"),
                "{template}: {fault}"
            ),
            (made, _) => panic!("{template}: {made:?}"),
        }
        let quoted = injected(&pod(&json!({}), &plain), None, &settings);
        assert!(
            !quoted.is_err_and(|fault| fault.contains("characters of YAML")),
            "{template}"
        );
    }
}

#[test]
fn a_template_of_a_gateway_whose_shape_hangs_on_a_value_is_refused() {
    let template = "apiVersion: v1\nkind: Service\nmetadata: {name: shop, namespace: web}\nspec:\n  selector:\n    team: {{ index .InfrastructureLabels `team` }}\n";
    let config = json!({"templates": {"kube-gateway": template}}).to_string();
    let settings = settings(&config, default_mesh_config());
    let proxy = default_proxy_config();
    let made = |team: &str| {
        let gateway = gateway("shop", &json!({"team": team}), &json!({}), "1.2.3.4");
        deployed(&gateway, &proxy, &settings)
    };
    assert_eq!(made("a").unwrap()[0]["spec"]["selector"]["team"], "a");
    let refused = made("a\n  type: ExternalName").unwrap_err();
    assert!(
        refused.contains("Gateway web/shop") && refused.contains("0.spec"),
        "{refused}"
    );
}

fn gateway(name: &str, labels: &Value, annotations: &Value, host: &str) -> Arc<Object<Gateway>> {
    let object = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": name, "namespace": "web", "labels": labels, "annotations": annotations},
        "spec": {"gatewayClassName": "istio", "addresses": [{"value": host}], "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
    });
    match testkit::World::objects(&object.to_string())
        .into_iter()
        .next()
    {
        Some(AnyObject::KubeGateway(gateway)) => gateway,
        other => panic!("{:?}", other.map(|o| o.key())),
    }
}

fn deployed(
    gateway: &Object<Gateway>,
    proxy: &ProxyConfig,
    settings: &Settings,
) -> Result<Vec<Value>, String> {
    let deployment = Deployment {
        gateway,
        class: &Class::GATEWAY,
        controller: "istio.io/gateway-controller",
        more_listeners: &[],
        overlays: &[],
        proxy,
        namespace_annotations: None,
        cluster: "west",
        kubernetes: 136,
        switches: Switches {
            copy_metadata: true,
            ambient: false,
            quic: false,
            native_sidecars: true,
            any_overlay: false,
        },
        settings,
    };
    deployment.objects().map_err(|fault| fault.to_string())
}

/// Values that mean something in YAML, in Go's templates, or in both.
fn hostile() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("\n".to_owned()),
        Just("\u{85}".to_owned()),
        Just("\u{2028}".to_owned()),
        Just("\r\n".to_owned()),
        Just("\t".to_owned()),
        Just("\"".to_owned()),
        Just("'".to_owned()),
        Just("\\".to_owned()),
        Just("`".to_owned()),
        Just("{{ .Values }}".to_owned()),
        Just("}} - {{".to_owned()),
        Just(": ".to_owned()),
        Just(" #".to_owned()),
        Just("---\n".to_owned()),
        Just("&a *a !!binary".to_owned()),
        Just("| > % @".to_owned()),
        Just("<<: {privileged: true}".to_owned()),
        Just("], hostPID: true, x: [".to_owned()),
        Just("}, securityContext: {privileged: true}, y: {".to_owned()),
        Just("\", image: \"evil".to_owned()),
        (0usize..14).prop_map(|indent| {
            let pad = " ".repeat(indent);
            format!("\n{pad}- name: evil\n{pad}  image: evil\n{pad}  securityContext: {{privileged: true}}\n")
        }),
        (0usize..14).prop_map(|indent| format!("\n{}hostNetwork: true\n", " ".repeat(indent))),
        "[a-zA-Z0-9_./-]{0,8}",
        any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(part, 1..5).prop_map(|parts| parts.concat())
}

/// An annotation that templates read, or any.
fn annotation() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("sidecar.istio.io/logLevel".to_owned()),
        Just("traffic.sidecar.istio.io/excludeOutboundPorts".to_owned()),
        Just("traffic.sidecar.istio.io/includeInboundPorts".to_owned()),
        Just("proxy.istio.io/config".to_owned()),
        Just("networking.istio.io/service-type".to_owned()),
        Just("gateway.istio.io/name-override".to_owned()),
        hostile(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_is_drawn_the_shape_of_a_pod_stays(
        label in hostile(), name in annotation(), value in hostile(), variable in hostile(), content in hostile(), by_mesh: bool,
    ) {
        let mut mesh = default_mesh_config();
        let base = settings(&builtin::config(), mesh.clone());
        let expected = injected(&pod(&json!({}), &json!({})), None, &base).unwrap();
        let proxy = with_variable(&mesh, &variable, &content);
        let named = with_variable(&mesh, "ISTIO_META_DRAWN", &content);
        if by_mesh {
            mesh.default_config = Some(named.clone());
            mesh.trust_domain.clone_from(&content);
        }
        let settings = settings(&builtin::config(), mesh);
        let labels = json!({"app": label, &label: "x", "service.istio.io/canonical-revision": value});
        for proxy in [proxy, named] {
            let mut drawn = pod(&labels, &json!({&name: value}));
            drawn["metadata"]["ownerReferences"][0]["name"] = content.as_str().into();
            drawn["metadata"]["ownerReferences"][0]["apiVersion"] = value.as_str().into();
            drawn["metadata"]["ownerReferences"][0]["kind"] = label.as_str().into();
            // An annotation that does not fit refuses the pod.
            if let Ok(made) = injected(&drawn, Some(&proxy), &settings) {
                prop_assert_eq!(shape(&made["spec"]), shape(&expected["spec"]));
                let bootstrap = bootstrap(&made);
                let keys: Vec<&String> = bootstrap.as_object().unwrap().keys().collect();
                let stated = self::bootstrap(&expected);
                prop_assert_eq!(keys, stated.as_object().unwrap().keys().collect::<Vec<_>>());
                prop_assert_eq!(&bootstrap["static_resources"], &stated["static_resources"]);
                prop_assert_eq!(&bootstrap["admin"], &stated["admin"]);
            }
        }
    }

    #[test]
    fn whatever_is_drawn_the_shape_of_a_deployment_stays(
        label in hostile(), name in annotation(), value in hostile(), content in hostile(),
    ) {
        let settings = settings(&builtin::config(), default_mesh_config());
        let default = default_proxy_config();
        let plain = gateway("shop", &json!({}), &json!({}), "1.2.3.4");
        let expected = deployed(&plain, &default, &settings).unwrap();
        let proxy = with_variable(&settings.mesh, "ISTIO_META_DRAWN", &content);
        let drawn = gateway("shop", &json!({"team": label, &label: value}), &json!({&name: value}), &content);
        let Ok(made) = deployed(&drawn, &proxy, &settings) else {
            // A name that is not the Gateway's is refused.
            return Ok(());
        };
        let kinds = |objects: &[Value]| objects.iter().map(|o| o["kind"].clone()).collect::<Vec<_>>();
        prop_assert_eq!(kinds(&made), kinds(&expected));
        let spec = |objects: &[Value]| {
            let mut spec = shape(&objects[1]["spec"]["template"]["spec"]);
            spec.as_object_mut().unwrap().remove("serviceAccountName");
            spec
        };
        prop_assert_eq!(spec(&made), spec(&expected));
    }
}
