//! What is served beside the Ingresses of cases: Services, their endpoints, and Secrets.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};

use super::case::Instance;
use crate::rig::Rig;

/// Services and where their endpoints are.
pub(super) const SERVICES: [(&str, &[&str]); 10] = [
    ("blue", &["127.0.20.10"]),
    ("green", &["127.0.20.11"]),
    ("red", &["127.0.20.12"]),
    ("many", &["127.0.20.13", "127.0.20.14", "127.0.20.15"]),
    ("judge", &["127.0.20.16"]),
    ("spare", &["127.0.20.17"]),
    // Over TLS, and only for those that show a certificate of the authority.
    ("secure", &["127.0.20.18"]),
    ("mutual", &["127.0.20.19"]),
    // It takes no connections.
    ("dead", &["127.0.20.20"]),
    ("gone", &[]),
];

/// The port of endpoints.
pub(super) const PORT: u16 = 9080;

/// A certificate with its key, in PEM.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) chain: String,
    pub(super) key: String,
}

/// Those of an authority and of somebody else.
#[derive(Clone, Debug)]
pub(super) struct Certificates {
    pub(super) authority: String,
    /// Of the gateway, self-signed.
    edge: Pair,
    /// Of a client and of backends, signed by the authority.
    pub(super) client: Pair,
    pub(super) backend: Pair,
    /// Of a client that nobody knows.
    pub(super) stranger: Pair,
}

impl Certificates {
    pub(super) fn make() -> Self {
        let key = KeyPair::generate().unwrap();
        let params = || {
            let mut params = CertificateParams::default();
            params
                .distinguished_name
                .push(DnType::CommonName, "authority");
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params.key_usages = vec![
                KeyUsagePurpose::KeyCertSign,
                KeyUsagePurpose::DigitalSignature,
            ];
            params
        };
        let authority = params().self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params(), &key);
        let named = |name: &str| {
            let mut params = CertificateParams::new([name.to_owned()]).unwrap();
            params.distinguished_name.push(DnType::CommonName, name);
            params
        };
        let signed = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let chain = named(name).signed_by(&key, &issuer).unwrap().pem();
            Pair {
                chain,
                key: key.serialize_pem(),
            }
        };
        let alone = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let chain = named(name).self_signed(&key).unwrap().pem();
            Pair {
                chain,
                key: key.serialize_pem(),
            }
        };
        Self {
            edge: alone("edge.test"),
            client: signed("client.test"),
            backend: signed("secure.test"),
            stranger: alone("stranger.test"),
            authority,
        }
    }

    fn secrets(&self) -> Vec<Value> {
        let pair = |pair: &Pair| json!({"tls.crt": pair.chain, "tls.key": pair.key});
        let mut client = pair(&self.client);
        client["ca.crt"] = json!(self.authority);
        let mut other = pair(&self.client);
        other["ca.crt"] = json!(self.stranger.chain);
        // The password of each is `word`; that of the last is hashed by bcrypt, and `bad` has none.
        let users = "ann:{SHA}PLzZCtxLGSqHpiWFC38jHK3fDrM=\nben:APR1\ncid:$2y$05$abcdefghijklmnopqrstuuKq0Vd3eT1Y5J0iUeHhW2yq3q0b0tP1u\n";
        let users = users.replace("APR1", APR1);
        vec![
            secret("shop", "edge", &pair(&self.edge)),
            secret("shop", "authority", &json!({"ca.crt": self.authority})),
            secret("shop", "client", &client),
            secret("shop", "other-authority", &other),
            secret("shop", "users", &json!({"auth": users})),
            secret(
                "shop",
                "user-map",
                &json!({"ann": "{SHA}PLzZCtxLGSqHpiWFC38jHK3fDrM="}),
            ),
            secret(
                "shop",
                "bcrypt-users",
                &json!({"auth": users.lines().last().unwrap()}),
            ),
            secret("bank", "users", &json!({"auth": users})),
            secret("bank", "authority", &json!({"ca.crt": self.authority})),
            secret("bank", "client", &client),
        ]
    }
}

/// Of `word` with the salt `saltsalt`.
const APR1: &str = "$apr1$saltsalt$Ua.aHJ08K0O47l6WPgqHn0";

fn secret(namespace: &str, name: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": data,
    })
}

fn service(name: &str, addresses: &[&str]) -> [Value; 2] {
    let meta =
        |name: &str, labels: Value| json!({"name": name, "namespace": "shop", "labels": labels});
    let endpoints: Vec<Value> = addresses
        .iter()
        .map(|address| json!({"addresses": [address], "conditions": {"ready": true}}))
        .collect();
    [
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta(name, json!({})),
            "spec": {"clusterIP": "10.0.0.9", "ports": [{"name": "http", "port": 80, "targetPort": PORT}]},
        }),
        json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": meta(&format!("{name}-1"), json!({"kubernetes.io/service-name": name})),
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [{"name": "http", "port": PORT}],
        }),
    ]
}

/// A host over both ports that shows when it is served.
fn door() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "door", "namespace": "shop"},
        "spec": {
            "ingressClassName": "higress",
            "tls": [{"hosts": ["door.test"], "secretName": "edge"}],
            "rules": [{"host": "door.test", "http": {"paths": [{
                "path": "/", "pathType": "Prefix",
                "backend": {"service": {"name": "blue", "port": {"number": 80}}},
            }]}}],
        },
    })
}

fn config_map(name: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, "data": data,
    })
}

/// Writes what is served.
pub(super) fn write(rig: &Rig, instances: &[Arc<Instance>], certificates: &Certificates) {
    let mut objects = certificates.secrets();
    objects.push(door());
    objects.push(config_map("headers", &json!({"X-Of-Map": "yes"})));
    let asked = json!({"global-auth-url": "http://judge.shop.svc.cluster.local/global"});
    objects.push(config_map("nginx", &asked));
    for (name, addresses) in SERVICES {
        objects.extend(service(name, addresses));
    }
    for instance in instances {
        objects.extend(instance.ingresses());
        for (name, of) in instance.own() {
            let (_, addresses) = SERVICES.iter().find(|(name, _)| *name == of).unwrap();
            objects.extend(service(&name, addresses));
        }
    }
    let texts: Vec<String> = objects.iter().map(Value::to_string).collect();
    rig.write("world.yaml", &texts.join("\n---\n"));
}
