//! Cases as files have them: `tests/annotations/GROUP.yaml`, a list of cases each.
//!
//! ```yaml
//! - name: app-root                        # its host is app-root.test, which HOST stands for
//!   annotations: {nginx/app-root: /home}  # the prefix, short
//!   requests:
//!   - {get: /, status: 302, answer: {location: ~/home}}
//! ```
//!
//! Beside `annotations` an Ingress has `path` (`/`), `kind` (`Prefix`), `service` (`blue`), `tls` (nothing, or the name of a
//! Secret), `host` (`HOST`), and the class that the prefix of its first annotation names, unless `class` does. `others` are
//! further Ingresses of the case, which are younger, `own` Services that no other case has, and `silent` annotations whose absence
//! the requests do not show. What requests say, and what is expected of them, stands in `client.rs` and `expect.rs`.

use serde_json::{Map, Value, json};

use crate::rig::root;

/// A case.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: String,
    /// Services that no other case has.
    own: Vec<String>,
    /// Annotations whose absence the requests do not show.
    silent: Vec<String>,
    ingresses: Vec<Value>,
    requests: Vec<Value>,
}

/// A case as it is served: whole, or without one of its annotations.
#[derive(Debug)]
pub(super) struct Instance {
    /// The first label of its host.
    pub(super) name: String,
    case: Case,
    /// The Ingress, and its annotation, that is left out.
    without: Option<(usize, String)>,
}

/// All cases, by name.
pub(super) fn all() -> Vec<Case> {
    let folder = root().join("crates/demo/tests/annotations");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "yaml"));
    files.sort();
    let mut cases: Vec<Case> = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for document in model::parse::to_json(&text) {
            let document = document.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            cases.extend(document.as_array().unwrap().iter().map(Case::read));
        }
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    for pair in cases.windows(2) {
        assert_ne!(pair[0].name, pair[1].name, "two cases of one name");
    }
    cases
}

impl Case {
    fn read(case: &Value) -> Self {
        const OF_CASES: [&str; 5] = ["name", "own", "silent", "others", "requests"];
        const OF_INGRESSES: [&str; 8] = [
            "annotations",
            "path",
            "kind",
            "service",
            "tls",
            "host",
            "class",
            "backend",
        ];
        let fields = case.as_object().unwrap();
        let name = case["name"].as_str().unwrap().to_owned();
        let mut first = fields.clone();
        first.retain(|field, _| !OF_CASES.contains(&&**field));
        let others = case["others"].as_array().cloned().unwrap_or_default();
        let ingresses: Vec<Value> = std::iter::once(Value::Object(first))
            .chain(others)
            .collect();
        for field in ingresses.iter().flat_map(|i| i.as_object().unwrap().keys()) {
            assert!(OF_INGRESSES.contains(&&**field), "{name}: what is {field}?");
        }
        let words = |field: &str| -> Vec<String> {
            let list = case[field].as_array().cloned().unwrap_or_default();
            list.iter()
                .map(|word| word.as_str().unwrap().to_owned())
                .collect()
        };
        Self {
            own: words("own"),
            silent: words("silent"),
            ingresses,
            requests: case["requests"].as_array().expect(&name).clone(),
            name,
        }
    }

    /// The names of the annotations that its requests show the effect of.
    pub(super) fn shown(&self) -> impl Iterator<Item = &str> {
        let keys = self.ingresses.iter().flat_map(keys);
        let names = keys.filter(|key| !self.silent.iter().any(|silent| silent == key));
        names.map(|key| key.split_once('/').unwrap().1)
    }

    /// The case, and the case without each of its annotations.
    pub(super) fn instances(self) -> Vec<Instance> {
        let places = self.ingresses.iter().enumerate();
        let places =
            places.flat_map(|(at, ingress)| keys(ingress).map(move |key| (at, key.to_owned())));
        let places = places.filter(|(_, key)| !self.silent.contains(key));
        let left_out: Vec<Option<(usize, String)>> =
            std::iter::once(None).chain(places.map(Some)).collect();
        let instance = |(number, without): (usize, Option<(usize, String)>)| Instance {
            name: match number {
                0 => self.name.clone(),
                number => format!("{}-x{number}", self.name),
            },
            case: self.clone(),
            without,
        };
        left_out.into_iter().enumerate().map(instance).collect()
    }
}

/// The keys of an Ingress's annotations, with short prefixes.
fn keys(ingress: &Value) -> impl Iterator<Item = &str> {
    let annotations = ingress["annotations"].as_object();
    annotations
        .into_iter()
        .flat_map(|a| a.keys().map(String::as_str))
}

impl Instance {
    pub(super) fn host(&self) -> String {
        format!("{}.test", self.name)
    }

    /// The Services that it has for itself: their names, and of which they are another.
    pub(super) fn own(&self) -> impl Iterator<Item = (String, &str)> {
        self.case
            .own
            .iter()
            .map(|service| (self.service(service), &**service))
    }

    /// The name of a Service as the case names it.
    fn service(&self, name: &str) -> String {
        match self.case.own.iter().any(|own| own == name) {
            true => format!("{}-{name}", self.name),
            false => name.to_owned(),
        }
    }

    /// What is to be sent, with its own names in it.
    pub(super) fn requests(&self) -> Vec<Value> {
        let requests = self.case.requests.iter();
        requests.map(|request| self.named(request)).collect()
    }

    /// What becomes of what was wrong with the answers: of a whole case all of it; of one without an annotation that nothing is.
    pub(super) fn verdict(&self, wrong: &[String]) -> Vec<String> {
        match &self.without {
            None => wrong
                .iter()
                .map(|wrong| format!("{}: {wrong}", self.name))
                .collect(),
            Some((_, key)) if wrong.is_empty() => {
                vec![format!("{}: nothing differs without {key}", self.case.name)]
            }
            Some(_) => Vec::new(),
        }
    }

    /// Its Ingresses.
    pub(super) fn ingresses(&self) -> Vec<Value> {
        let stated = self.case.ingresses.iter().enumerate();
        let all = stated.map(|(at, ingress)| self.ingress(at, &self.named(ingress)));
        all.collect()
    }

    fn ingress(&self, at: usize, stated: &Value) -> Value {
        let mut annotations = Map::new();
        let mut higress = false;
        let original = self.case.ingresses[at]["annotations"].as_object();
        for key in original.into_iter().flat_map(Map::keys) {
            let (prefix, name) = key.split_once('/').unwrap();
            let prefix = match prefix {
                "nginx" => "nginx.ingress.kubernetes.io",
                "higress" => "higress.io",
                other => panic!("{}: what is {other}?", self.name),
            };
            higress |= prefix == "higress.io";
            if self
                .without
                .as_ref()
                .is_none_or(|(of, left)| (*of, left) != (at, key))
            {
                let value = stated["annotations"][key].as_str().expect(key);
                annotations.insert(format!("{prefix}/{name}"), json!(value));
            }
        }
        let text = |field: &str, default: &str| match stated[field].as_str() {
            Some(text) => text.to_owned(),
            None => default.to_owned(),
        };
        let host = text("host", &self.host());
        let class = text("class", if higress { "higress" } else { "nginx" });
        let service =
            json!({"name": self.service(&text("service", "blue")), "port": {"number": 80}});
        let backend = match stated["backend"].is_object() {
            true => stated["backend"].clone(),
            false => json!({"service": service}),
        };
        let path = json!({
            "path": text("path", "/"), "pathType": text("kind", "Prefix"), "backend": backend,
        });
        let mut spec = json!({
            "ingressClassName": class,
            "rules": [{"host": host, "http": {"paths": [path]}}],
        });
        if let Some(secret) = stated["tls"].as_str() {
            spec["tls"] = json!([{"hosts": [host], "secretName": secret}]);
        }
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": {"name": format!("{}-{at}", self.name), "namespace": "shop", "annotations": annotations},
            "spec": spec,
        })
    }

    /// A value with its host for HOST, in every text.
    fn named(&self, value: &Value) -> Value {
        let host = self.host();
        match value {
            Value::String(text) => json!(text.replace("HOST", &host)),
            Value::Array(items) => items.iter().map(|item| self.named(item)).collect(),
            Value::Object(fields) => {
                let named = |(name, value): (&String, &Value)| (name.clone(), self.named(value));
                Value::Object(fields.iter().map(named).collect())
            }
            other => other.clone(),
        }
    }
}
