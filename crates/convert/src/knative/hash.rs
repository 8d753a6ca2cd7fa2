//! The hash by which probes know which version of an Ingress a proxy has.
//!
//! A probe asks with `K-Network-Hash: override`, and what it gets as an answer carries the hash of the Ingress that its
//! proxy serves. Knative computes the same, so the JSON is Go's of its types to the byte.
//!
//! Knative: networking/pkg/ingress/ingress.go ComputeHash, pkg/apis/networking/v1alpha1/ingress_types.go, 1.19.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use model::ObjectName;
use model::kinds::knative::{Ingress, IngressPath, IngressRule, IngressSplit, IngressTls};
use model::kinds::kube::IntOrString;

use super::name::hex;

/// The hash of an Ingress, in hexadecimal digits.
pub(super) fn of(spec: &Ingress, name: &ObjectName) -> String {
    let mut text = String::new();
    ingress(&mut text, spec);
    text.push_str(&name.namespace);
    text.push_str(&name.name);
    hex(digest(&SHA256, text.as_bytes()).as_ref())
}

fn ingress(out: &mut String, spec: &Ingress) {
    let mut fields = Fields::open(out);
    if !spec.tls.is_empty() {
        list(fields.name("tls"), &spec.tls, tls);
    }
    if !spec.rules.is_empty() {
        list(fields.name("rules"), &spec.rules, rule);
    }
    fields.text("httpOption", &spec.http_option);
    fields.close();
}

fn tls(out: &mut String, tls: &IngressTls) {
    let mut fields = Fields::open(out);
    if !tls.hosts.is_empty() {
        list(fields.name("hosts"), &tls.hosts, |out, host| {
            string(out, host)
        });
    }
    fields.text("secretName", &tls.secret_name);
    fields.text("secretNamespace", &tls.secret_namespace);
    fields.close();
}

fn rule(out: &mut String, rule: &IngressRule) {
    let mut fields = Fields::open(out);
    if !rule.hosts.is_empty() {
        list(fields.name("hosts"), &rule.hosts, |out, host| {
            string(out, host)
        });
    }
    let visibility = match &*rule.visibility {
        "" => "ExternalIP",
        stated => stated,
    };
    fields.text("visibility", visibility);
    if let Some(http) = &rule.http {
        let mut inner = Fields::open(fields.name("http"));
        needed(inner.name("paths"), &http.paths, path);
        inner.close();
    }
    fields.close();
}

fn path(out: &mut String, path: &IngressPath) {
    let mut fields = Fields::open(out);
    fields.text("path", &path.path);
    fields.text("rewriteHost", &path.rewrite_host);
    if !path.headers.is_empty() {
        let mut inner = Fields::open(fields.name("headers"));
        for (name, value) in &path.headers {
            let mut exact = Fields::open(inner.name(name));
            string(exact.name("exact"), &value.exact);
            exact.close();
        }
        inner.close();
    }
    let only = path.splits.len() == 1;
    needed(fields.name("splits"), &path.splits, |out, one| {
        split(out, one, only)
    });
    fields.texts("appendHeaders", &path.append_headers);
    fields.close();
}

fn split(out: &mut String, split: &IngressSplit, only: bool) {
    let mut fields = Fields::open(out);
    string(fields.name("serviceNamespace"), &split.service_namespace);
    string(fields.name("serviceName"), &split.service_name);
    let out = fields.name("servicePort");
    match &split.service_port {
        Some(IntOrString::String(name)) => string(out, name),
        Some(IntOrString::Int(number)) => out.push_str(&number.to_string()),
        None => out.push('0'),
    }
    let percent = match split.percent {
        0 if only => 100,
        stated => stated,
    };
    if percent != 0 {
        fields.name("percent").push_str(&percent.to_string());
    }
    fields.texts("appendHeaders", &split.append_headers);
    fields.close();
}

/// The fields of an object.
struct Fields<'o> {
    out: &'o mut String,
    first: bool,
}

impl<'o> Fields<'o> {
    fn open(out: &'o mut String) -> Self {
        out.push('{');
        Self { out, first: true }
    }

    fn name(&mut self, name: &str) -> &mut String {
        if !std::mem::take(&mut self.first) {
            self.out.push(',');
        }
        string(self.out, name);
        self.out.push(':');
        self.out
    }

    /// A text that is left out where it is empty.
    fn text(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            string(self.name(name), text);
        }
    }

    /// A map that is left out where it is empty.
    fn texts(&mut self, name: &str, texts: &BTreeMap<Arc<str>, Arc<str>>) {
        if texts.is_empty() {
            return;
        }
        let mut inner = Fields::open(self.name(name));
        for (name, text) in texts {
            string(inner.name(name), text);
        }
        inner.close();
    }

    fn close(self) {
        self.out.push('}');
    }
}

fn list<T>(out: &mut String, items: &[T], each: impl Fn(&mut String, &T)) {
    out.push('[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        each(out, item);
    }
    out.push(']');
}

/// A list that Go writes as `null` where there is none.
fn needed<T>(out: &mut String, items: &[T], each: impl Fn(&mut String, &T)) {
    match items.is_empty() {
        true => out.push_str("null"),
        false => list(out, items, each),
    }
}

/// A text as Go writes it, which keeps it harmless within HTML.
fn string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                // Writing into a String cannot fail.
                _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(spec: &Ingress) -> String {
        let mut text = String::new();
        ingress(&mut text, spec);
        text
    }

    #[test]
    fn texts_are_written_as_go_writes_them() {
        let mut out = String::new();
        string(&mut out, "a<b>&\"\\\n\u{1}\u{2028}é");
        assert_eq!(out, r#""a\u003cb\u003e\u0026\"\\\n\u0001\u2028é""#);
    }

    #[test]
    fn fields_stand_in_the_order_of_their_types_with_defaults() {
        let split = IngressSplit {
            service_namespace: "shop".into(),
            service_name: "a".into(),
            service_port: Some(IntOrString::Int(80)),
            ..IngressSplit::default()
        };
        let path = IngressPath {
            splits: vec![split],
            append_headers: [("B".into(), "2".into()), ("A".into(), "1".into())].into(),
            headers: [("T".into(), model::kinds::knative::HeaderMatch::default())].into(),
            ..IngressPath::default()
        };
        let rule = IngressRule {
            hosts: vec!["a.test".into()],
            visibility: "".into(),
            http: Some(model::kinds::knative::IngressPaths { paths: vec![path] }),
        };
        let spec = Ingress {
            rules: vec![rule, IngressRule::default()],
            http_option: "Enabled".into(),
            ..Ingress::default()
        };
        assert_eq!(
            json(&spec),
            concat!(
                r#"{"rules":[{"hosts":["a.test"],"visibility":"ExternalIP","http":{"paths":[{"headers":{"T":{"exact":""}},"#,
                r#""splits":[{"serviceNamespace":"shop","serviceName":"a","servicePort":80,"percent":100}],"#,
                r#""appendHeaders":{"A":"1","B":"2"}}]}},{"visibility":"ExternalIP"}],"httpOption":"Enabled"}"#
            )
        );
    }

    #[test]
    fn names_are_part_of_the_hash() {
        let of = |namespace: &str, name: &str| {
            of(&Ingress::default(), &ObjectName::new(namespace, name))
        };
        // printf '{}shopa' | sha256sum
        assert_eq!(
            of("shop", "a"),
            "d0e78056c83cd99ce0751cf3b3b465d240fc683e398566ac98ef0b3518742d38"
        );
        assert_ne!(of("shop", "a"), of("shop", "b"));
    }
}
