//! The values that templates read, and those that injection itself reads.

use gotemplate::json;
use serde_json::Value;

use crate::Fault;
use crate::config::document;

/// Values of the installation, as its charts make them.
#[derive(Clone, Debug, PartialEq)]
pub struct Values(Value);

impl Values {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// When the text is no YAML, or a value that injection reads has another type.
    pub fn read(text: &str) -> Result<Self, Fault> {
        let wrong = |why| Fault::new(format!("could not parse configuration values: {why}"));
        let values = match document(text).map_err(wrong)? {
            Value::Null => Value::Object(serde_json::Map::new()),
            values => values,
        };
        let values = Self(values);
        for path in [
            "/global/hub",
            "/global/variant",
            "/global/network",
            "/global/multiCluster/clusterName",
            "/global/proxy/image",
            "/global/proxy_init/image",
        ] {
            if values.at(path).is_some_and(|v| !v.is_string()) {
                return Err(wrong(format!("{path} is no string")));
            }
        }
        for path in [HOLD, REWRITE] {
            if values.at(path).is_some_and(|v| !v.is_boolean()) {
                return Err(wrong(format!("{path} is no boolean")));
            }
        }
        Ok(values)
    }

    /// All of them.
    pub fn all(&self) -> &Value {
        &self.0
    }

    fn at(&self, path: &str) -> Option<&Value> {
        self.0.pointer(path).filter(|v| !v.is_null())
    }

    /// A text; empty if there is none.
    pub(crate) fn text(&self, path: &str) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    fn truth(&self, path: &str) -> bool {
        self.at(path).and_then(Value::as_bool).unwrap_or_default()
    }

    /// Whether applications wait for the proxy.
    pub(crate) fn holds(&self) -> bool {
        self.truth(HOLD)
    }

    /// Whether probes of applications lead through the agent.
    pub(crate) fn rewrites_probes(&self) -> bool {
        self.truth(REWRITE)
    }

    /// The image of the proxy: of a type that the pod's annotation, else the proxy's configuration, else the values
    /// state.
    pub(crate) fn proxy_image(&self, of_config: &str, annotated: Option<&str>) -> String {
        self.image("/global/proxy/image", of_config, annotated)
    }

    /// The image of the init container.
    pub(crate) fn init_image(&self, annotated: Option<&str>) -> String {
        self.image("/global/proxy_init/image", "", annotated)
    }

    // Istio: pkg/kube/inject/inject.go ProxyImage, proxyImageURL, imageURL, 1.32.
    fn image(&self, path: &str, of_config: &str, annotated: Option<&str>) -> String {
        let name = match self.text(path) {
            "" => "proxyv2",
            name => name,
        };
        let tag = match self.at("/global/tag") {
            None => String::new(),
            Some(Value::String(tag)) => tag.clone(),
            Some(Value::Number(number)) => json::number(number.as_f64().unwrap_or_default()),
            Some(other) => other.to_string(),
        };
        let stated = match of_config {
            "" => self.text("/global/variant"),
            stated => stated,
        };
        let tag = of_type(&tag, annotated.unwrap_or(stated));
        format!("{}/{name}:{tag}", self.text("/global/hub"))
    }
}

const HOLD: &str = "/global/proxy/holdApplicationUntilProxyStarts";
const REWRITE: &str = "/sidecarInjectorWebhook/rewriteAppHTTPProbe";

/// A tag for another type of image.
fn of_type(tag: &str, image_type: &str) -> String {
    if image_type.is_empty() {
        return tag.to_owned();
    }
    let known = ["-distroless", "-debug"];
    let bare = known.iter().find_map(|suffix| tag.strip_suffix(suffix));
    let bare = bare.unwrap_or(tag);
    match image_type {
        "default" => bare.to_owned(),
        other => format!("{bare}-{other}"),
    }
}
