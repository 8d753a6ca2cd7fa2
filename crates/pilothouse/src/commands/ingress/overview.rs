//! What is served of the Ingresses, and what is wrong with them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};

use model::settings::Features;
use model::{Diagnostic, Kind, ObjectKey, Severity};
use serde_json::Value;

use crate::commands::analyze::{self, live};
use crate::commands::credentials;
use crate::commands::proxy_config::debug_page;
use crate::findings;

/// How many hosts are named; of more, how many there are is said.
const NAMED: usize = 6;

/// What is served, and what is wrong.
pub(super) struct Overview {
    /// Envoy, as the server calls it.
    proxy: String,
    http: u16,
    https: u16,
    /// The address at which this machine reaches Envoy.
    address: IpAddr,
    classes: String,
    /// Findings about other objects than Ingresses are not shown.
    ingresses_only: bool,
    /// The state that was read.
    revision: u64,
    /// What was found by reading it.
    read: Value,
    served: Served,
    /// The certificates and roots that Envoy has and can use; none where that is not known yet.
    usable: Option<BTreeSet<String>>,
    findings: Vec<Diagnostic>,
}

/// What is served.
#[derive(PartialEq, Eq, Debug, Default)]
struct Served {
    /// How many Ingresses there are.
    all: usize,
    /// Those that something is derived from.
    ingresses: BTreeSet<(String, String)>,
    /// Hosts by port.
    hosts: BTreeMap<u16, BTreeSet<String>>,
    /// Hosts by the certificates that are shown for them.
    certificates: BTreeMap<String, BTreeSet<String>>,
}

impl Overview {
    /// Asks the server.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub(super) async fn read(
        pages: &str,
        proxy: String,
        features: &Features,
        address: IpAddr,
        ingresses_only: bool,
    ) -> anyhow::Result<Self> {
        let classes: Vec<&str> = features.edge_classes.iter().map(|class| &**class).collect();
        let mut overview = Self {
            proxy,
            http: features.edge_http_port.get(),
            https: features.edge_https_port.get(),
            address,
            classes: classes.join(", "),
            ingresses_only,
            revision: 0,
            read: Value::Null,
            served: Served::default(),
            usable: None,
            findings: Vec::new(),
        };
        overview.look(pages).await?;
        Ok(overview)
    }

    async fn look(&mut self, pages: &str) -> anyhow::Result<()> {
        let all = live::findings(pages).await?;
        let wanted = |finding: &Diagnostic| {
            let kind = finding.object.as_ref().map(|key| key.kind);
            // Whoever is served from here has no cluster that would make endpoints.
            let counts = finding.severity >= Severity::Warning
                || finding.code == analysis::code::NO_ENDPOINTS.id;
            let counts = counts && !is_moot(finding);
            counts
                && (!self.ingresses_only
                    || matches!(kind, Some(Kind::Ingress | Kind::IngressClass)))
        };
        let mut told = BTreeSet::new();
        let is_new = |finding: &Diagnostic| {
            let Diagnostic {
                code,
                object,
                path,
                message,
                ..
            } = finding;
            told.insert((*code, object.clone(), path.clone(), message.clone()))
        };
        let found = all.findings.into_iter().filter(wanted);
        let mut found: Vec<Diagnostic> = found.filter(is_new).collect();
        found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        self.findings = found;
        self.served = Served::read(pages).await?;
        self.revision = all.revision;
        self.read = all.read;
        Ok(())
    }

    /// The ports on which something is served.
    pub(super) fn ports(&self) -> BTreeSet<u16> {
        self.served.hosts.keys().copied().collect()
    }

    /// Prints what is wrong, and what Envoy listens on.
    ///
    /// # Errors
    ///
    /// When something cannot be written.
    pub(super) async fn print(
        &mut self,
        out: &mut dyn Write,
        pages: &str,
        open: &BTreeSet<u16>,
    ) -> anyhow::Result<()> {
        self.usable = self.ask_usable(pages).await;
        self.print_findings(&self.findings)?;
        self.print_listeners(out, open)
    }

    /// Asks which certificates Envoy has; it may not be connected.
    async fn ask_usable(&self, pages: &str) -> Option<BTreeSet<String>> {
        credentials::usable(pages, &self.proxy).await.ok()?
    }

    fn print_listeners(&self, out: &mut dyn Write, open: &BTreeSet<u16>) -> anyhow::Result<()> {
        writeln!(out)?;
        for (name, port) in [("http ", self.http), ("https", self.https)] {
            match self.served.hosts.get(&port) {
                Some(hosts) if open.contains(&port) => self.print_hosts(out, name, port, hosts)?,
                Some(_) => writeln!(out, "  {name}  Envoy does not listen on port {port}")?,
                None => writeln!(out, "  {name}  {}", self.nothing(name))?,
            }
        }
        Ok(())
    }

    /// Prints which hosts are served on a port, and which are not.
    fn print_hosts(
        &self,
        out: &mut dyn Write,
        name: &str,
        port: u16,
        hosts: &BTreeSet<String>,
    ) -> io::Result<()> {
        let lost = match port == self.https {
            true => self.served.without_certificate(self.usable.as_ref()),
            false => BTreeMap::new(),
        };
        let mut served = hosts.clone();
        served.retain(|host| !lost.values().any(|of| of.contains(host)));
        let url = format!("{}://{}", name.trim(), SocketAddr::new(self.address, port));
        match served.is_empty() {
            true => writeln!(out, "  {name}  for no host")?,
            false => writeln!(out, "  {name}  {url}  for {}", names(&served))?,
        }
        for (secret, hosts) in lost {
            let hosts = names(hosts);
            writeln!(
                out,
                "         not for {hosts}: Envoy has no certificate of the Secret {secret}"
            )?;
        }
        Ok(())
    }

    fn nothing(&self, name: &str) -> String {
        match name {
            "https" => "no Ingress has a certificate".to_owned(),
            _ => format!("no Ingress of the classes {} yet", self.classes),
        }
    }

    /// Prints what changed since it was last looked at.
    ///
    /// # Errors
    ///
    /// When the server does not answer.
    pub(super) async fn refresh(&mut self, out: &mut dyn Write, pages: &str) -> anyhow::Result<()> {
        let page = debug_page(pages, "/debug/analysis").await?;
        if page["current"] != true {
            return Ok(());
        }
        if page["revision"] == self.revision && live::of_reading(pages).await? == self.read {
            return Ok(());
        }
        let before = std::mem::take(&mut self.served);
        let known = std::mem::take(&mut self.findings);
        self.look(pages).await?;
        let usable = self.ask_usable(pages).await;
        let is_other = usable != self.usable;
        self.usable = usable;
        let before_findings = known.len();
        let known: BTreeSet<_> = known.iter().map(what).collect();
        let is_new = |finding: &&Diagnostic| !known.contains(&what(finding));
        let new: Vec<Diagnostic> = self.findings.iter().filter(is_new).cloned().collect();
        if !new.is_empty() || before_findings != self.findings.len() {
            self.print_findings(&new)?;
        } else if before != self.served {
            writeln!(out, "{}", self.served)?;
        }
        if is_other || !before.hosts.keys().eq(self.served.hosts.keys()) {
            self.print_listeners(out, &self.ports())?;
            writeln!(out)?;
        }
        out.flush()?;
        Ok(())
    }

    /// Prints these findings, and how many are in force.
    fn print_findings(&self, shown: &[Diagnostic]) -> io::Result<()> {
        let mut shown = shown.to_vec();
        analyze::quote(&mut shown);
        findings::print_some(&shown, &self.findings, &self.served.to_string())
    }
}

/// What tells a finding from others, wherever its object stands by now.
fn what(finding: &Diagnostic) -> (&'static str, &Option<ObjectKey>, &str) {
    (finding.code, &finding.object, &finding.message)
}

/// Whether a finding has no meaning where Envoy runs on this machine: an endpoint may be on it as well.
fn is_moot(finding: &Diagnostic) -> bool {
    let kind = finding.object.as_ref().map(|key| key.kind);
    finding.code == validate::report::codes::LIMIT
        && kind == Some(Kind::EndpointSlice)
        && finding.path.contains(".addresses[")
        && finding.severity == Severity::Warning
}

impl Served {
    async fn read(pages: &str) -> anyhow::Result<Self> {
        let all = debug_page(pages, "/debug/configz?kind=Ingress").await?;
        let gateways = debug_page(pages, "/debug/configz?kind=Gateway").await?;
        let routes = debug_page(pages, "/debug/configz?kind=VirtualService").await?;
        Ok(Self::of(&all, &gateways, &routes))
    }

    fn of(all: &Value, gateways: &Value, routes: &Value) -> Self {
        let mut served = Self {
            all: all.as_array().map_or(0, Vec::len),
            ..Self::default()
        };
        let of_ingresses = |from: &Value| from["kind"] == "Ingress";
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        for object in list(gateways).iter().chain(&list(routes)) {
            let from = list(&object["derived"]["from"]);
            let from: Vec<&Value> = from.iter().filter(|from| of_ingresses(from)).collect();
            if from.is_empty() {
                continue;
            }
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let names = from
                .iter()
                .map(|f| (text(&f["namespace"]), text(&f["name"])));
            served.ingresses.extend(names);
            for server in list(&object["spec"]["servers"]) {
                let port = server["port"]["number"].as_u64();
                let Some(port) = port.and_then(|port| u16::try_from(port).ok()) else {
                    continue;
                };
                let hosts = list(&server["hosts"]);
                let hosts = hosts.iter().map(|host| {
                    let host = text(host);
                    // Hosts of Istio's Gateways may have a namespace before them.
                    host.rsplit_once('/')
                        .map_or(host.clone(), |(_, host)| host.to_owned())
                });
                let hosts: Vec<String> = hosts.collect();
                if let Some(name) = server["tls"]["credentialName"].as_str() {
                    let of_name = served.certificates.entry(name.to_owned()).or_default();
                    of_name.extend(hosts.iter().cloned());
                }
                served.hosts.entry(port).or_default().extend(hosts);
            }
        }
        served
    }

    /// The hosts whose certificate Envoy has not, by the Secret that would hold it.
    fn without_certificate(
        &self,
        usable: Option<&BTreeSet<String>>,
    ) -> BTreeMap<&str, &BTreeSet<String>> {
        let Some(usable) = usable else {
            return BTreeMap::new();
        };
        let lost = self.certificates.iter();
        let lost = lost.filter(|(name, _)| !usable.contains(*name));
        let lost = lost.map(|(name, hosts)| {
            let secret = name.split_once("://").map_or(&**name, |(_, secret)| secret);
            (secret, hosts)
        });
        lost.collect()
    }
}

impl std::fmt::Display for Served {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let many = |count: usize, one: &str, more: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {more}"),
        };
        let hosts: BTreeSet<&String> = self.hosts.values().flatten().collect();
        let (served, all) = (self.ingresses.len(), self.all);
        let ingresses = match served == all {
            true => many(all, "Ingress", "Ingresses"),
            false => format!("{served} of {}", many(all, "Ingress", "Ingresses")),
        };
        write!(f, "{ingresses}, {}", many(hosts.len(), "host", "hosts"))
    }
}

/// Hosts in words.
fn names(hosts: &BTreeSet<String>) -> String {
    let all: Vec<&str> = hosts.iter().map(String::as_str).collect();
    match all[..] {
        ["*"] => "every host".to_owned(),
        _ if all.len() <= NAMED => all.join(", "),
        _ => format!("{} and {} more", all[..NAMED].join(", "), all.len() - NAMED),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_derived_from_ingresses_is_served() {
        let from = json!([{ "kind": "Ingress", "namespace": "shop", "name": "front" }]);
        let server = |port: u16, host: &str| json!({ "port": { "number": port }, "hosts": [host] });
        let gateways = json!([
            { "derived": { "from": from }, "spec": { "servers": [server(80, "*/a.com"), server(443, "a.com")] } },
            { "spec": { "servers": [server(80, "written.com")] } },
        ]);
        let served = Served::of(&json!([{}, {}]), &gateways, &json!([]));
        assert_eq!(served.to_string(), "1 of 2 Ingresses, 1 host");
        assert_eq!(served.hosts.len(), 2);
    }

    #[test]
    fn a_host_without_its_certificate_has_no_https() {
        let from = json!([{ "kind": "Ingress", "namespace": "shop", "name": "front" }]);
        let server = |host: &str, secret: &str| {
            let name = format!("kubernetes-gateway://shop/{secret}");
            json!({ "port": { "number": 443 }, "hosts": [host], "tls": { "credentialName": name } })
        };
        let servers = [server("a.com", "a"), server("b.com", "b")];
        let gateways = json!([{ "derived": { "from": from }, "spec": { "servers": servers } }]);
        let served = Served::of(&json!([{}]), &gateways, &json!([]));
        let lost = |usable: Option<&BTreeSet<String>>| {
            let lost = served.without_certificate(usable).into_iter();
            let lost = lost.map(|(secret, hosts)| (secret.to_owned(), hosts.len()));
            lost.collect::<Vec<_>>()
        };
        assert!(lost(None).is_empty());
        let usable = BTreeSet::from(["kubernetes-gateway://shop/a".to_owned()]);
        assert_eq!(lost(Some(&usable)), [("shop/b".to_owned(), 1)]);
    }

    #[test]
    fn many_hosts_are_counted() {
        let hosts: BTreeSet<String> = (0..9).map(|n| format!("{n}.com")).collect();
        assert!(names(&hosts).ends_with("5.com and 3 more"));
        assert_eq!(names(&BTreeSet::from(["*".to_owned()])), "every host");
    }
}
