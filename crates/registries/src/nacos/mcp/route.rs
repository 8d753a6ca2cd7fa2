//! What a server of MCP becomes: an Ingress, as somebody would write it who had read its documents.
// Higress: registry/nacos/mcpserver/watcher.go buildVirtualServiceForMcpServer, 2.1. Unlike there a server that is off is not served,
// and one that speaks no MCP is not either.

use std::sync::Arc;

use model::kinds::kube::{
    Ingress, IngressBackend, IngressPath, IngressPaths, IngressRule, PathType, ResourceRef,
};
use model::object::Origin;
use model::{Age, Labels, Meta, Namespace, Object, ObjectName, Owner};

use super::document::{Server, Transport};
use crate::nacos::names::Key;
use crate::service::{NAME_LABEL, TYPE_LABEL};

/// How servers of one registry are made into objects.
#[derive(Clone, PartialEq, Debug)]
pub struct Making {
    /// Whose the objects are.
    pub owner: Owner,
    /// Their namespace: that of the edge.
    pub home: Namespace,
    /// The class by which they are served.
    pub class: Arc<str>,
    /// The kind of the registry.
    pub kind: Arc<str>,
    /// Its name.
    pub registry: Arc<str>,
    /// What the namespace of Nacos is called in hosts.
    pub namespace: Arc<str>,
    /// What paths begin with; empty or `/` for nothing.
    pub base: Arc<str>,
    /// The hosts on which servers are reached; none for all.
    pub domains: Vec<Arc<str>>,
}

impl Making {
    /// The name of the object of a server.
    pub(super) fn name(&self, id: &str) -> ObjectName {
        let name = format!("mcp-{}-{id}", self.registry);
        let lower = name.to_ascii_lowercase().replace('_', "-");
        ObjectName::new(self.home.clone(), lower)
    }

    /// The object of a server.
    pub(super) fn make(&self, id: &str, server: &Server) -> Arc<Object<Ingress>> {
        let path: Arc<str> = format!("{}/{}", self.base.trim_end_matches('/'), server.name).into();
        let key = Key {
            group: server.group.clone(),
            service: server.service.clone(),
        };
        let upstream = match server.transport {
            Transport::Events => "sse",
            Transport::Streamable => "streamable",
        };
        let host = key.host(&self.namespace);
        let annotations = [
            ("higress.io/destination", &*host),
            ("higress.io/mcp-server", "true"),
            ("higress.io/mcp-server-upstream-type", upstream),
            ("higress.io/mcp-server-match-rule-type", "prefix"),
            ("higress.io/mcp-server-match-rule-value", &path),
            ("higress.io/mcp-server-enable-path-rewrite", "true"),
            ("higress.io/mcp-server-path-rewrite-prefix", "/"),
            ("higress.io/ssl-redirect", "false"),
        ];
        let every = [Arc::from("")];
        let hosts = if self.domains.is_empty() {
            &every[..]
        } else {
            &self.domains
        };
        let rule = |host: &Arc<str>| IngressRule {
            host: if **host == *"*" {
                "".into()
            } else {
                host.clone()
            },
            http: Some(IngressPaths {
                paths: vec![IngressPath {
                    path: path.clone(),
                    path_type: Some(PathType::Prefix),
                    backend: IngressBackend {
                        resource: Some(Box::new(ResourceRef {
                            api_group: "networking.higress.io".into(),
                            kind: "McpBridge".into(),
                            name: "default".into(),
                            ..ResourceRef::default()
                        })),
                        ..IngressBackend::default()
                    },
                }],
            }),
        };
        let labels = [(TYPE_LABEL, &*self.kind), (NAME_LABEL, &*self.registry)];
        Arc::new(Object {
            meta: Meta {
                labels: labels.into_iter().collect(),
                annotations: annotations.into_iter().collect::<Labels>(),
                // The rules of an Ingress that somebody wrote count before it.
                created: Age::Last,
                ..Meta::new(self.name(id), Origin::Source(self.owner.source.clone()))
            },
            spec: Ingress {
                ingress_class_name: Some(self.class.clone()),
                rules: hosts.iter().map(rule).collect(),
                ..Ingress::default()
            },
            status: Default::default(),
        })
    }
}
