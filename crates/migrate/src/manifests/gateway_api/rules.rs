//! The rules of a host, as they are derived from Ingresses, with what the Gateway API can say of them.

use std::collections::BTreeSet;

use model::kinds::kube::Ingress;
use model::{Namespace, Object};
use proto_istio::networking::{HttpMatchRequest, HttpRewrite, HttpRoute, VirtualService};
use serde_json::{Value, json};

use super::arrange::arrange;
use super::does::Doing;
use super::rewrite::{self, Prefix, Rewritten};
use super::rule::{Asked, Does, Path, Rule, asked, is_plain};
use super::services::Services;
use super::{is_host, lost, path_of_service};
use crate::manifests::lost::{GATEWAY_API, Lost, of as lost_of};
use crate::manifests::matched;
use crate::{World, name_of};

/// The path with its query, as Envoy has it among headers.
const PATH: &str = ":path";

/// Reads the rules of hosts.
pub(super) struct Reading<'a> {
    world: &'a World,
    services: &'a Services,
    /// The names of routes that are of Ingresses for gRPC.
    grpc: BTreeSet<String>,
}

/// The rules of a host at a listener.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Rules {
    /// In the order in which they are asked.
    pub(super) rules: Vec<Rule>,
    /// What is left out, and why.
    pub(super) left_out: Vec<(String, Vec<Lost>)>,
    /// What else there is to say.
    pub(super) notes: Vec<String>,
}

impl Rules {
    /// Closes all of them.
    pub(super) fn close(&mut self, why: &[Lost]) {
        let why = why.iter().filter(|why| why.closes);
        for rule in &mut self.rules {
            rule.does = Does::default();
            rule.lost.extend(why.clone().copied());
            rule.lost.dedup();
        }
    }

    /// Takes away redirects before one of everything that redirects alike.
    pub(super) fn compress(&mut self) {
        let Some(last) = self.rules.last().cloned() else {
            return;
        };
        let is_all = matches!(&last.path, Path::Prefix(path) if path == "/");
        let only = [Asked::default()];
        if !is_all || last.asked != only || last.does.filters.is_empty() {
            return;
        }
        let redirects = last.does.backends.is_empty();
        while redirects && self.rules.len() > 1 {
            let before = &self.rules[self.rules.len() - 2];
            if before.does != last.does || !before.lost.is_empty() {
                break;
            }
            self.rules.pop();
        }
        let count = self.rules.len();
        self.rules[count - 1] = last;
    }
}

impl<'a> Reading<'a> {
    pub(super) fn new(world: &'a World, services: &'a Services) -> Self {
        let home = &world.snapshot.settings.features.edge_namespace;
        let grpc = world.ingresses.iter().filter(|ingress| is_grpc(ingress));
        let names = grpc.map(|ingress| match ingress.meta.name.namespace == *home {
            true => ingress.meta.name.name.to_string(),
            false => ingress.meta.name.to_string(),
        });
        Self {
            world,
            services,
            grpc: names.collect(),
        }
    }

    /// The ports without TLS and with it.
    pub(super) fn ports(&self) -> (u32, u32) {
        let features = &self.world.snapshot.settings.features;
        (
            features.edge_http_port.get().into(),
            features.edge_https_port.get().into(),
        )
    }

    /// The rules of a host at a port, in their order.
    pub(super) fn rules(&self, service: &Object<VirtualService>, port: u32) -> Rules {
        let mut rules = Rules::default();
        let home = self.home(service);
        for (at, http) in service.spec.http.iter().enumerate() {
            let derived = service.meta.derived.as_ref();
            let edge = derived.and_then(|derived| derived.edge.get(&at));
            let lost = edge.map(|edge| lost_of(edge, &GATEWAY_API));
            let lost = lost.unwrap_or_default();
            for matched in &http.r#match {
                if matched.port == 0 || matched.port == port {
                    self.rule(http, matched, lost.clone(), &home, &mut rules);
                }
            }
        }
        arrange(&mut rules.rules);
        rules
    }

    /// The namespace of routes whose name tells none.
    fn home(&self, service: &Object<VirtualService>) -> Namespace {
        let derived = service.meta.derived.as_ref();
        let first = derived.and_then(|derived| derived.from.first());
        match first {
            Some(first) => first.name.namespace.clone(),
            None => service.meta.name.namespace.clone(),
        }
    }

    fn rule(
        &self,
        http: &HttpRoute,
        matched: &HttpMatchRequest,
        mut lost: Vec<Lost>,
        home: &Namespace,
        rules: &mut Rules,
    ) {
        let namespace = match http.name.split_once('/') {
            Some((namespace, _)) => Namespace::from(namespace),
            None => home.clone(),
        };
        let doing = Doing {
            world: self.world,
            services: self.services,
            home: &namespace,
        };
        let does = doing.of(http, &mut lost);
        if refuses_slashes(http, matched) {
            let refusal = ("paths with escaped slashes".to_owned(), vec![lost::SLASHES]);
            if !rules.left_out.contains(&refusal) {
                rules.left_out.push(refusal);
            }
            return;
        }
        let name = format!("{}, {}", http.name, self::matched(http));
        rules.notes.extend(note(http, &name));
        if matched.headers.contains_key(PATH) {
            lost.push(lost::CONDITION);
            rules.left_out.push((name, lost));
            return;
        }
        if matched.without_headers.contains_key(PATH) {
            lost.push(lost::EXCEPTION);
        }
        let asked = asked(matched, &mut lost);
        let Some(asked) = asked.filter(|asked| !asked.is_empty()) else {
            lost.push(lost::CONDITION);
            rules.left_out.push((name, lost));
            return;
        };
        let ingress = http.name.strip_suffix("-default").unwrap_or(&http.name);
        let mut rule = Rule {
            name,
            namespace,
            path: Path::of(matched),
            asked,
            does,
            lost: distinct(lost),
            is_guard: false,
            is_grpc: self.grpc.contains(ingress),
        };
        let rewrite = http.rewrite.as_ref();
        let Some(rewrite) = rewrite.filter(|_| !rule.does.backends.is_empty()) else {
            rules.rules.push(closed(rule));
            return;
        };
        let mut url = json!({});
        if !rewrite.authority.is_empty() {
            match is_host(&rewrite.authority) && !rewrite.authority.starts_with('*') {
                true => url["hostname"] = (&*rewrite.authority).into(),
                false => rule.lost.push(lost::AUTHORITY),
            }
        }
        rules.rules.extend(rewritten(rule, rewrite, url));
    }

    /// Where the connections of a host are passed on to, and the namespace of the route.
    pub(super) fn passed(
        &self,
        service: &Object<VirtualService>,
    ) -> Option<(Namespace, Vec<Value>)> {
        let routes = &service.spec.tls.first()?.route;
        let home = self.home(service);
        let mut backends = Vec::new();
        for to in routes {
            let destination = to.destination.as_ref()?;
            let name = path_of_service(self.world, &destination.host)?;
            let port = destination.port.as_ref()?.number;
            let mut backend = json!({ "name": &*name.name, "port": port });
            if name.namespace != home {
                backend["namespace"] = (&*name.namespace).into();
            }
            if routes.len() > 1 {
                backend["weight"] = to.weight.max(0).into();
            }
            backends.push(backend);
        }
        (!backends.is_empty()).then_some((home, backends))
    }
}

fn is_grpc(ingress: &Object<Ingress>) -> bool {
    let mut annotations = ingress.meta.annotations.iter();
    annotations.any(|(key, value)| {
        let value = value.trim().to_ascii_uppercase();
        name_of(key) == Some("backend-protocol") && matches!(&*value, "GRPC" | "GRPCS")
    })
}

fn distinct(lost: Vec<Lost>) -> Vec<Lost> {
    let mut all: Vec<Lost> = Vec::with_capacity(lost.len());
    for lost in lost {
        if !all.contains(&lost) {
            all.push(lost);
        }
    }
    all
}

/// Whether a route answers 400 to paths whose escaped slashes lead below what is protected.
fn refuses_slashes(http: &HttpRoute, matched: &HttpMatchRequest) -> bool {
    let status = http.direct_response.as_ref().map(|answer| answer.status);
    status == Some(400) && matched.headers.contains_key(PATH)
}

/// Why a route served no request before.
fn note(http: &HttpRoute, name: &str) -> Option<String> {
    let answer = http.direct_response.as_ref()?;
    let headers = http.headers.as_ref().and_then(|h| h.response.as_ref());
    match headers.and_then(|headers| headers.set.get(convert::edge::REASON)) {
        Some(reason) => Some(format!("Closed is {name}: {reason}.")),
        None if answer.status == 503 => Some(format!("Without a backend is {name}.")),
        None => None,
    }
}

/// The rule, with nothing that it does where it has to be closed.
fn closed(mut rule: Rule) -> Rule {
    if rule.lost.iter().any(|lost| lost.closes) {
        rule.does = Does::default();
    }
    rule
}

/// The rules of a route that changes paths.
fn rewritten(mut rule: Rule, rewrite: &HttpRewrite, mut url: Value) -> Vec<Rule> {
    let changed = match (&rewrite.uri_regex_rewrite, &*rewrite.uri) {
        // No query stands in the path of the API.
        (Some(regex), _) if regex.rewrite.contains('?') => Rewritten::No,
        (Some(regex), _) => {
            let is_of_path = *rule.path.text() == *regex.r#match;
            match rewrite::of(&regex.r#match, &regex.rewrite) {
                Rewritten::Prefix(_) if !is_of_path => Rewritten::No,
                found => found,
            }
        }
        (None, "") => Rewritten::Not,
        (None, uri) => by_text(&rule.path, uri),
    };
    if rule.lost.iter().any(|lost| lost.closes) {
        return vec![closed(rule)];
    }
    let full = |path: &str| json!({ "type": "ReplaceFullPath", "replaceFullPath": path });
    let filter = |url: Value| json!({ "type": "URLRewrite", "urlRewrite": url });
    match changed {
        Rewritten::No => {
            rule.close(lost::REWRITE);
            vec![rule]
        }
        Rewritten::Not => {
            if url.as_object().is_some_and(|url| !url.is_empty()) {
                rule.does.filters.push(filter(url));
            }
            vec![rule]
        }
        Rewritten::Whole(path) => {
            url["path"] = full(&path);
            rule.does.filters.push(filter(url));
            vec![rule]
        }
        Rewritten::Prefix(prefix) => {
            let mut before = Vec::new();
            let mut behind = Vec::new();
            let Prefix {
                path,
                by,
                bare,
                guards,
            } = prefix;
            if let Some(bare) = bare {
                let mut exact = rule.clone();
                exact.path = Path::Exact(path.clone());
                let mut url = url.clone();
                url["path"] = full(&bare);
                exact.does.filters.push(filter(url));
                before.push(exact);
            }
            for (path, why) in guards {
                let list = match path {
                    Path::Exact(_) => &mut before,
                    _ => &mut behind,
                };
                list.push(Rule {
                    path,
                    does: Does::default(),
                    lost: vec![why],
                    is_guard: true,
                    ..rule.clone()
                });
            }
            rule.path = Path::Prefix(path);
            url["path"] = json!({ "type": "ReplacePrefixMatch", "replacePrefixMatch": by });
            rule.does.filters.push(filter(url));
            rule.does.by_prefix = true;
            before.push(rule);
            before.extend(behind);
            before
        }
    }
}

/// What becomes of what matched, replaced by a text.
fn by_text(path: &Path, uri: &str) -> Rewritten {
    match path {
        Path::Exact(_) if is_plain(uri) => Rewritten::Whole(uri.to_owned()),
        Path::Prefix(path) if is_plain(uri) && path != "/" => {
            let by = match uri.trim_end_matches('/') {
                "" => "/",
                by => by,
            };
            Rewritten::Prefix(Prefix {
                path: path.clone(),
                by: by.to_owned(),
                ..Prefix::default()
            })
        }
        _ => Rewritten::No,
    }
}
