//! How many ports the services of another namespace bind at a sidecar, the oldest first.
//!
//! Where nothing redirects connections, each port of a service that the sidecar may see is a socket for every worker of Envoy,
//! and a process that may open no more files ends. Redirected connections need no socket.

use std::collections::BTreeMap;
use std::sync::Arc;

use mesh::finding::{about_named, code};
use model::diagnostic::{Diagnostic, Severity};
use model::names::Namespace;
use model::object::ObjectKey;
use model::service::{Port, Service};

/// The ports that namespaces have bound.
#[derive(Default)]
pub(super) struct Bound {
    taken: BTreeMap<Namespace, usize>,
    refused: BTreeMap<ObjectKey, Refused>,
}

/// Ports of an object's services that are not bound.
struct Refused {
    first: u16,
    further: usize,
    most: usize,
}

impl Bound {
    /// Takes a port for a service, if its namespace may have so many.
    pub(super) fn take(&mut self, most: usize, service: &Service, port: &Port) -> bool {
        let taken = self.taken.entry(service.namespace.clone()).or_default();
        if *taken < most {
            *taken += 1;
            return true;
        }
        self.refused
            .entry(service.object.clone())
            .and_modify(|refused| refused.further += 1)
            .or_insert(Refused {
                first: port.number,
                further: 0,
                most,
            });
        false
    }

    /// What is told at proxies of a namespace.
    pub(super) fn findings(self, at: &Namespace) -> Arc<[Diagnostic]> {
        let told = self.refused.into_iter().map(|(object, refused)| {
            let Refused {
                first,
                further,
                most,
            } = refused;
            let others = match further {
                0 => String::new(),
                1 => " (nor for 1 further one)".to_owned(),
                _ => format!(" (nor for {further} further ones)"),
            };
            let why = format!(
                "sidecars of {at} that bind ports themselves have no listener for port {first}{others}: services of the namespace \
                 {} have {most} there, the oldest first, and may have no more",
                object.name.namespace
            );
            about_named(object.kind, &object.name, code::OVER_BUDGET, Severity::Error, why)
                .at("spec.ports")
                .help("let a Sidecar of the proxies list the ports, or raise PILOTHOUSE_NAMESPACE_PORTS")
        });
        told.collect()
    }
}
