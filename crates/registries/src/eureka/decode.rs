//! What Eureka answers, as far as it is read. Its JSON is made of XML: numbers may be texts, a list of one may be that one.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::report::Instance;

/// An answer that is not what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Garbled {
    /// It is no JSON.
    #[error("it is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It is other JSON.
    #[error("it has no applications")]
    Other,
}

/// An instance, with what decides whether it gets requests.
#[derive(Clone, PartialEq, Debug)]
struct Listed {
    status: Arc<str>,
    instance: Instance,
}

/// All applications, each with its instances by their ids.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Applications(BTreeMap<Arc<str>, BTreeMap<Arc<str>, Listed>>);

/// What happened to an instance.
#[derive(Debug)]
enum Event {
    Is(Listed),
    Gone,
}

/// What changed lately.
#[derive(Debug)]
pub struct Delta {
    events: Vec<(Arc<str>, Arc<str>, Event)>,
    hash: Arc<str>,
}

/// What changes came to.
#[derive(PartialEq, Debug, Default)]
pub struct Applied {
    /// The applications that are other than before.
    pub changed: Vec<Arc<str>>,
    /// Whether there is now what the server has; or everything has to be read again.
    pub is_all: bool,
}

impl Applications {
    /// Reads an answer of `/apps`.
    ///
    /// # Errors
    ///
    /// When it is no such answer.
    pub fn read(body: &[u8]) -> Result<Self, Garbled> {
        let mut all = Self::default();
        for (app, id, event) in Delta::read(body)?.events {
            if let Event::Is(listed) = event {
                all.0.entry(app).or_default().insert(id, listed);
            }
        }
        Ok(all)
    }

    /// Takes changes in.
    pub fn apply(&mut self, delta: Delta) -> Applied {
        let mut changed = Vec::new();
        for (app, id, event) in delta.events {
            let before = self.0.get(&app).and_then(|instances| instances.get(&id));
            match event {
                Event::Is(listed) if before == Some(&listed) => continue,
                Event::Is(listed) => _ = self.0.entry(app.clone()).or_default().insert(id, listed),
                Event::Gone if before.is_none() => continue,
                Event::Gone => {
                    if let Some(instances) = self.0.get_mut(&app) {
                        instances.remove(&id);
                        if instances.is_empty() {
                            self.0.remove(&app);
                        }
                    }
                }
            }
            changed.push(app);
        }
        changed.sort();
        changed.dedup();
        Applied {
            changed,
            is_all: delta.hash.is_empty() || *delta.hash == *self.hash(),
        }
    }

    /// Applications that another state has and that are not the same here.
    pub fn differing(&self, new: &Self) -> Vec<Arc<str>> {
        let differs = |(name, instances): &(&Arc<str>, &_)| self.0.get(*name) != Some(*instances);
        let all = new.0.iter().filter(differs);
        all.map(|(name, _)| name.clone()).collect()
    }

    /// The applications.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.keys()
    }

    /// The instances of one.
    pub fn instances(&self, name: &str) -> Option<Vec<Instance>> {
        let listed = self.0.get(name)?.values();
        Some(listed.map(|listed| listed.instance.clone()).collect())
    }

    /// How many instances there are by status, in the words of Eureka: `DOWN_1_UP_3_`.
    fn hash(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for listed in self.0.values().flat_map(BTreeMap::values) {
            *counts.entry(&listed.status).or_default() += 1;
        }
        let counts = counts.iter();
        counts.map(|(status, n)| format!("{status}_{n}_")).collect()
    }
}

impl Delta {
    /// Reads an answer of `/apps/delta`.
    ///
    /// # Errors
    ///
    /// When it is no such answer.
    pub fn read(body: &[u8]) -> Result<Self, Garbled> {
        let value: Value = serde_json::from_slice(body)?;
        let applications = value.get("applications").filter(|a| a.is_object());
        let applications = applications.ok_or(Garbled::Other)?;
        let mut events = Vec::new();
        for application in list(applications.get("application")) {
            let named = text(application.get("name"));
            for instance in list(application.get("instance")) {
                let app = named.clone().or_else(|| text(instance.get("app")));
                if let Some(app) = app.filter(|app| !app.is_empty())
                    && let Some((id, event)) = event(instance)
                {
                    events.push((app, id, event));
                }
            }
        }
        let hash = text(applications.get("apps__hashcode"));
        Ok(Self {
            events,
            hash: hash.unwrap_or_default(),
        })
    }
}

fn event(value: &Value) -> Option<(Arc<str>, Event)> {
    let address = text(value.get("ipAddr")).or_else(|| text(value.get("hostName")))?;
    let plain = port(value.get("port"));
    let (port, protocol) = match (plain, port(value.get("securePort"))) {
        (Some((port, true)), _) => (port, None),
        (_, Some((port, true))) => (port, Some(Arc::from("https"))),
        (Some((port, false)), _) => (port, None),
        (None, _) => (0, None),
    };
    let id = text(value.get("instanceId"));
    let id = id.unwrap_or_else(|| format!("{address}:{port}").into());
    if text(value.get("actionType")).as_deref() == Some("DELETED") {
        return Some((id, Event::Gone));
    }
    let status = text(value.get("status")).unwrap_or_else(|| "UNKNOWN".into());
    let metadata = value.get("metadata").and_then(Value::as_object);
    let metadata = metadata.into_iter().flatten();
    let metadata = metadata
        // What XML says of types.
        .filter(|(key, _)| !key.starts_with('@'))
        .filter_map(|(key, value)| Some((Arc::from(key.as_str()), text(Some(value))?)));
    let instance = Instance {
        address,
        port,
        protocol,
        weight: 1.0,
        healthy: &*status == "UP",
        metadata: metadata.collect(),
    };
    Some((id, Event::Is(Listed { status, instance })))
}

/// A port, and whether it is open.
fn port(value: Option<&Value>) -> Option<(u16, bool)> {
    let value = value?;
    let number = text(value.get("$"))?.parse().ok()?;
    let open = text(value.get("@enabled"));
    Some((number, open.as_deref() != Some("false")))
}

fn text(value: Option<&Value>) -> Option<Arc<str>> {
    match value? {
        Value::String(text) => Some(text.as_str().into()),
        Value::Number(number) => Some(number.to_string().into()),
        Value::Bool(bool) => Some(bool.to_string().into()),
        _ => None,
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    match value {
        Some(Value::Array(all)) => all,
        Some(one @ Value::Object(_)) => std::slice::from_ref(one),
        _ => &[],
    }
}
