//! Which version of a controller deploys a Gateway: the larger number wins, and takes over what smaller ones did.
//!
//! Istio: pilot/pkg/config/kube/gatewaycommon/deploymentcontroller.go ManagedGatewayControllerVersion, 1.32.

use model::Labels;

/// The annotation of a Gateway with the version that deploys it.
pub const ANNOTATION: &str = "gateway.istio.io/controller-version";
/// Ours, which is that of istiod since 1.18.
pub const VERSION: i64 = 5;

/// Who deploys a Gateway.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Managed {
    /// We do, and the Gateway says so.
    Ours,
    /// We do from here on: the Gateway has yet to say so.
    TakenOver,
    /// A newer controller, or one that counts otherwise.
    Theirs,
}

/// Who deploys a Gateway with these annotations.
pub fn managed(annotations: &Labels) -> Managed {
    match annotations.get(ANNOTATION).map(str::parse) {
        None => Managed::TakenOver,
        Some(Ok(VERSION)) => Managed::Ours,
        Some(Ok(known)) if known < VERSION => Managed::TakenOver,
        Some(_) => Managed::Theirs,
    }
}
