//! What a request asks for.

use super::world::{RESOURCES, Resource};

/// A request: its path and the parameters that matter.
pub(super) struct Asked {
    pub(super) path: String,
    parameters: Vec<(String, String)>,
    /// Only metadata is wanted.
    pub(super) metadata_only: bool,
    pub(super) is_get: bool,
}

impl Asked {
    /// From the head of a request.
    pub(super) fn read(head: &str) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let mut first = lines.next()?.split(' ');
        let (method, target) = (first.next()?, first.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let parameters = query.split('&').filter_map(|p| p.split_once('='));
        let parameters = parameters.map(|(k, v)| (k.to_owned(), v.to_owned()));
        let accept = lines.find(|l| l.to_ascii_lowercase().starts_with("accept:"));
        Some(Self {
            path: path.to_owned(),
            parameters: parameters.collect(),
            metadata_only: accept.is_some_and(|a| a.contains("as=PartialObjectMetadata")),
            is_get: method == "GET",
        })
    }

    /// A parameter; empty where it is missing.
    pub(super) fn parameter(&self, name: &str) -> &str {
        let found = self.parameters.iter().find(|(k, _)| k == name);
        found.map_or("", |(_, v)| v)
    }

    /// Whether a parameter is true.
    pub(super) fn is(&self, name: &str) -> bool {
        matches!(self.parameter(name), "true" | "1")
    }

    /// The collection that is asked for, the namespace, and the name of one object; each may be empty.
    pub(super) fn collection(&self) -> Option<(&'static Resource, &str, &str)> {
        let mut parts = self.path.strip_prefix('/')?.split('/');
        let group = match parts.next()? {
            "api" => "",
            "apis" => parts.next()?,
            _ => return None,
        };
        let version = parts.next()?;
        let mut plural = parts.next()?;
        let rest: Vec<&str> = parts.collect();
        let (namespace, name) = match (plural, rest.as_slice()) {
            ("namespaces", [namespace, of, name @ ..]) => {
                plural = of;
                (*namespace, name.first().copied().unwrap_or_default())
            }
            (_, name) => ("", name.first().copied().unwrap_or_default()),
        };
        let mut all = RESOURCES.iter();
        let found = all.find(|r| (r.group, r.version, r.plural) == (group, version, plural))?;
        Some((found, namespace, name))
    }
}
