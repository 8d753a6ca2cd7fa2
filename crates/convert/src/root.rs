//! What is derived from which objects: the list of translators.

use std::sync::Arc;

use incr::{Engine, RootId};
use model::{AnyObject, ObjectName};
use store::Snapshot;

use crate::ingress::{GatewayOf, RoutesOfHost, hosts};
use crate::outcome::Outcome;
use crate::reader::{Derivation, Derive};
use crate::strata::Routes;

/// A derivation whose objects go into the store.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Root {
    /// The Gateway of an Ingress.
    IngressGateway(ObjectName),
    /// The VirtualService of a host that Ingresses name.
    IngressHost(Arc<str>),
}

impl Root {
    /// Calls `emit` with each root that is there because of the object, which need not be there because of it alone.
    pub(crate) fn of(object: &AnyObject, emit: &mut dyn FnMut(Root)) {
        if let AnyObject::Ingress(ingress) = object {
            emit(Root::IngressGateway(ingress.meta.name.clone()));
            for host in hosts(&ingress.spec) {
                emit(Root::IngressHost(host));
            }
        }
    }

    /// Keeps the root up to date from here on.
    pub(crate) fn register(&self, engine: &mut Engine<Snapshot>) -> RootId {
        match self {
            Root::IngressGateway(name) => engine.root(&Derivation(GatewayOf(name.clone()))),
            Root::IngressHost(host) => engine.root(&Derivation(RoutesOfHost(host.clone()))),
        }
    }

    /// What it gives at the last commit.
    pub(crate) fn pull(
        &self,
        engine: &Engine<Snapshot>,
        snapshot: &Snapshot,
    ) -> Arc<Outcome<Routes>> {
        fn get<D: Derive>(
            engine: &Engine<Snapshot>,
            snapshot: &Snapshot,
            derivation: D,
        ) -> Arc<D::Value> {
            engine.get(snapshot, &Derivation(derivation))
        }
        match self {
            Root::IngressGateway(name) => get(engine, snapshot, GatewayOf(name.clone())),
            Root::IngressHost(host) => get(engine, snapshot, RoutesOfHost(host.clone())),
        }
    }
}
