//! Generated meshes: folders of manifests, and single changes of them.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::api::{Api, Applied};
use super::edited::replace;
use super::gateways::Gateways;
use super::ingresses::Ingresses;

/// The shape of a mesh.
///
/// Namespaces are `n0`, `n1`, ...; each holds the same number of services. Of the services in `n0`, and their rules,
/// each has a file of its own, to be changed; every other namespace is one file.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MeshShape {
    /// Namespaces: proxies take them in turn.
    pub namespaces: usize,
    /// Services of each namespace.
    pub services: usize,
    /// Endpoints of each service.
    #[serde(default = "five")]
    pub endpoints: usize,
    /// Every second service has a VirtualService, and a DestinationRule with two subsets.
    #[serde(default)]
    pub rules: bool,
    /// What proxies see.
    #[serde(default)]
    pub sees: Sight,
    /// WorkloadEntries in all, which are the endpoints in place of those listed in ServiceEntries.
    #[serde(default)]
    pub workloads: usize,
    /// Gateways with their routes; proxies are theirs, and not beside the services.
    #[serde(default)]
    pub gateways: Option<Gateways>,
    /// Ingresses with annotations; proxies are the gateways that serve them.
    #[serde(default)]
    pub ingresses: Option<Ingresses>,
}

fn five() -> usize {
    5
}

/// What proxies see.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sight {
    /// Their own namespace and `n0`, by the Sidecar of the root namespace.
    #[default]
    Own,
    /// Every service.
    Everything,
}

/// A workload of a mesh.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Workload {
    pub(crate) namespace: String,
    /// What it is of: a service, or a Gateway.
    pub(crate) app: String,
    /// The service that it belongs to.
    pub(crate) service: String,
    pub(crate) version: String,
    pub(crate) zone: String,
    pub(crate) address: String,
}

/// What a change is made to; all but routes and Ingresses are in `n0`, which every proxy sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// One endpoint of a service gets another address.
    Endpoint,
    /// The timeout of a route changes.
    Rule,
    /// A service comes or goes.
    Service,
    /// An HTTPRoute matches another path: another Gateway's each time.
    Route,
    /// An Ingress gets another limit: another Ingress each time.
    Ingress,
}

impl MeshShape {
    /// Writes the mesh below a folder.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write(&self, root: &Path) -> io::Result<()> {
        fs::create_dir_all(root.join("n0"))?;
        if self.sees == Sight::Own {
            let sidecar = "apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: default, namespace: istio-system}\n\
                spec: {egress: [{hosts: [./*, n0/*]}]}\n";
            fs::write(root.join("sidecar.yaml"), sidecar)?;
        }
        if let Some(gateways) = self.gateways {
            gateways.write(root, self.namespaces)?;
        }
        if let Some(ingresses) = self.ingresses {
            ingresses.write(root, self.namespaces)?;
        }
        for namespace in 0..self.namespaces {
            let mut text = String::new();
            for service in 0..self.services {
                let entry = self.service(namespace, service, 0);
                let rules = (self.rules && service.is_multiple_of(2))
                    .then(|| self.rules(namespace, service, 0));
                if namespace == 0 {
                    fs::write(self.path(root, Change::Endpoint, service), entry)?;
                    if let Some(rules) = rules {
                        fs::write(self.path(root, Change::Rule, service), rules)?;
                    }
                } else {
                    text += &entry;
                    text += rules.as_deref().unwrap_or_default();
                }
            }
            self.workloads_of(namespace, &mut text);
            if !text.is_empty() {
                fs::write(root.join(format!("n{namespace}-all.yaml")), text)?;
            }
        }
        Ok(())
    }

    /// Makes a change for the `round`th time: a file is replaced, or a service's removed. Returns its path.
    ///
    /// # Errors
    /// Those of writing.
    pub fn change(&self, root: &Path, change: Change, round: usize) -> io::Result<PathBuf> {
        if change == Change::Route {
            return self.routed()?.change(root, self.namespaces, round);
        }
        if change == Change::Ingress {
            return self.entered()?.change(root, self.namespaces, round);
        }
        let service = self.changed(change, round);
        let path = self.path(root, change, service);
        let text = match change {
            Change::Service if path.exists() => return fs::remove_file(&path).map(|()| path),
            Change::Endpoint | Change::Service => self.service(0, service, round + 1),
            Change::Rule | Change::Route | Change::Ingress => self.rules(0, service, round + 1),
        };
        replace(&root.join("n0"), &path, &text)?;
        Ok(path)
    }

    /// Makes the same change through the Kubernetes API.
    ///
    /// # Errors
    /// When the API refuses it.
    pub(super) fn apply(&self, api: &Api, change: Change, round: usize) -> io::Result<()> {
        let service = self.changed(change, round);
        let name = format!("s{service}");
        match change {
            Change::Service if round % 2 == 1 => api.delete("n0", Applied::SERVICE_ENTRIES, &name),
            Change::Endpoint | Change::Service => {
                let text = self.service(0, service, round + 1);
                api.apply("n0", Applied::SERVICE_ENTRIES, &name, &text)
            }
            Change::Rule => {
                let text = self.rules(0, service, round + 1);
                // The definition of subsets stays as it is.
                let (_, text) = text.rsplit_once("---\n").unwrap_or(("", &text));
                api.apply("n0", Applied::VIRTUAL_SERVICES, &name, text)
            }
            Change::Route => {
                let edited = self.routed()?.edited(self.namespaces, round);
                let (namespace, name) = (&edited.namespace, &edited.name);
                api.apply(namespace, Applied::HTTP_ROUTES, name, &edited.text)
            }
            Change::Ingress => {
                let edited = self.entered()?.edited(self.namespaces, round);
                let (namespace, name) = (&edited.namespace, &edited.name);
                api.apply(namespace, Applied::INGRESSES, name, &edited.text)
            }
        }
    }

    /// Whether a change that is made for the `round`th time concerns proxy number `proxy`.
    pub(super) fn concerns(&self, change: Change, round: usize, proxy: usize) -> bool {
        let gateways = self.gateways.filter(|_| change == Change::Route);
        gateways.is_none_or(|gateways| gateways.concerns(round, proxy))
    }

    /// The HTTPRoute that is changed for the `round`th time.
    pub(super) fn edited(&self, change: Change, round: usize) -> Option<String> {
        let gateways = self.gateways.filter(|_| change == Change::Route)?;
        Some(gateways.edited(self.namespaces, round).name)
    }

    fn routed(&self) -> io::Result<Gateways> {
        let none = || io::Error::other("the mesh of the scenario has no gateways");
        self.gateways.ok_or_else(none)
    }

    fn entered(&self) -> io::Result<Ingresses> {
        let none = || io::Error::other("the mesh of the scenario has no ingresses");
        self.ingresses.ok_or_else(none)
    }

    /// What a server is told besides where to listen.
    pub(super) fn flags(&self) -> &'static [&'static str] {
        match self.ingresses {
            Some(_) => &Ingresses::FLAGS,
            None => &[],
        }
    }

    /// The service that a change is made to for the `round`th time.
    fn changed(&self, change: Change, round: usize) -> usize {
        match change {
            Change::Endpoint | Change::Route | Change::Ingress => round % self.services.max(1),
            Change::Rule => round * 2 % self.services.max(1) / 2 * 2,
            Change::Service => self.services,
        }
    }

    fn path(&self, root: &Path, change: Change, service: usize) -> PathBuf {
        let kind = if change == Change::Rule { "r" } else { "s" };
        root.join(format!("n0/{kind}{service}.yaml"))
    }

    fn service(&self, namespace: usize, service: usize, round: usize) -> String {
        let number = namespace * (self.services + 1) + service;
        let (a, b, c) = (number >> 16 & 63, number >> 8 & 255, number & 255);
        let mut text = format!(
            "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: s{service}, namespace: n{namespace}}}\nspec:\n  \
             hosts: [s{service}.n{namespace}.svc.cluster.local]\n  addresses: [240.{a}.{b}.{c}]\n  location: MESH_INTERNAL\n  \
             resolution: STATIC\n  ports: [{{number: 80, name: http, protocol: HTTP}}]\n"
        );
        if self.workloads > 0 {
            let _ = writeln!(text, "  workloadSelector: {{labels: {{app: s{service}}}}}");
            return text;
        }
        text += "  endpoints:\n";
        for endpoint in 0..self.endpoints {
            // The last one moves, each time that it is the service's turn.
            let moved = if endpoint + 1 == self.endpoints {
                round.div_ceil(self.services.max(1))
            } else {
                0
            };
            let _ = writeln!(
                text,
                "  - {{address: {}, labels: {{app: s{service}, version: v{}}}, locality: region1/zone{}}}",
                self.address(namespace, service, endpoint, moved),
                endpoint % 2 + 1,
                endpoint % 3 + 1
            );
        }
        text
    }

    /// The address of an endpoint that was moved so often.
    fn address(&self, namespace: usize, service: usize, endpoint: usize, moved: usize) -> String {
        let number = namespace * (self.services + 1) + service;
        let (a, b, c) = (number >> 16 & 63, number >> 8 & 255, number & 255);
        let last = endpoint % 5 * 50 + moved % 50 + 1;
        format!("{}.{b}.{c}.{last}", 11 + a)
    }

    /// The workload that proxy number `i` stands beside: an endpoint, the endpoints of a service one after the other.
    pub(crate) fn workload(&self, i: usize) -> Workload {
        if let Some(gateways) = self.gateways {
            return gateways.workload(self.namespaces, i);
        }
        if let Some(ingresses) = self.ingresses {
            return ingresses.workload(i);
        }
        let (namespaces, services) = (self.namespaces.max(1), self.services.max(1));
        let endpoint = i % self.endpoints.max(1);
        let service = i / self.endpoints.max(1) % (namespaces * services);
        let (namespace, service) = (service % namespaces, service / namespaces);
        Workload {
            namespace: format!("n{namespace}"),
            app: format!("s{service}"),
            service: format!("s{service}"),
            version: format!("v{}", endpoint % 2 + 1),
            zone: format!("zone{}", endpoint % 3 + 1),
            address: self.address(namespace, service, endpoint, 0),
        }
    }

    fn rules(&self, namespace: usize, service: usize, round: usize) -> String {
        let host = format!("s{service}.n{namespace}.svc.cluster.local");
        let timeout = round % 100 + 1;
        format!(
            "---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {{name: s{service}, namespace: n{namespace}}}\nspec:\n  \
             host: {host}\n  subsets:\n  - {{name: v1, labels: {{version: v1}}}}\n  - {{name: v2, labels: {{version: v2}}}}\n\
             ---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {{name: s{service}, namespace: n{namespace}}}\nspec:\n  \
             hosts: [{host}]\n  http:\n  - timeout: {timeout}s\n    route:\n    \
             - {{destination: {{host: {host}, subset: v1}}, weight: 90}}\n    - {{destination: {{host: {host}, subset: v2}}, weight: 10}}\n"
        )
    }

    /// The share of a namespace of all WorkloadEntries.
    fn workloads_of(&self, namespace: usize, text: &mut String) {
        let (all, parts) = (self.workloads, self.namespaces.max(1));
        for number in all * namespace / parts..all * (namespace + 1) / parts {
            let (a, b, c) = (number >> 16, number >> 8 & 255, number & 255);
            let service = number % self.services.max(1);
            let _ = write!(
                text,
                "---\napiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {{name: w{number}, namespace: n{namespace}}}\n\
                 spec: {{address: 172.{}.{b}.{c}, labels: {{app: s{service}, version: v{}}}}}\n",
                16 + a,
                number % 2 + 1
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_of_a_scenario_changes_its_object() {
        let mesh = r#"{"namespaces": 1, "services": 7, "rules": true}"#;
        let mesh: MeshShape = serde_json::from_str(mesh).unwrap();
        for change in [Change::Endpoint, Change::Rule] {
            let text = |service, round| match change {
                Change::Rule => mesh.rules(0, service, round),
                _ => mesh.service(0, service, round),
            };
            let mut texts: Vec<String> = (0..7).map(|service| text(service, 0)).collect();
            for round in 0..60 {
                let service = mesh.changed(change, round);
                let after = text(service, round + 1);
                let before = std::mem::replace(&mut texts[service], after.clone());
                assert_ne!(before, after, "{change:?}, round {round}");
            }
        }
    }
}
