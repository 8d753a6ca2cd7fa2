//! Who a client is, and whether it may be the proxy that it says it is.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use ads::server::{Client, Proven};
use ads::{Code, Status};
use http::HeaderMap;
use identity::{Caller, Evidence, Refusal};
use model::node::{Identity, Node};

use super::held::held_until;
use crate::exporting::Admitted;
use crate::own::Own;
use crate::secure::Trust;

/// As [`prove`]; a client that is `admitted` by its address is let in where it proves nothing, and is nobody.
pub(super) async fn prove_or_admit(
    trust: Trust,
    client: Client,
    headers: HeaderMap,
    admitted: bool,
) -> Result<Proven, Status> {
    match prove(trust, client, headers).await {
        Err(_) if admitted => Ok(Proven {
            caller: Some(Arc::new(Admitted)),
            until: None,
        }),
        proven => proven,
    }
}

/// Who a client is, by its certificate or what it shows with its call.
async fn prove(trust: Trust, client: Client, headers: HeaderMap) -> Result<Proven, Status> {
    let starting = || Status::new(Code::Unavailable, "the server is starting");
    let authenticators = trust.authenticators().ok_or_else(starting)?;
    let evidence = Evidence {
        peer: client.peer,
        certificates: client.certificates.as_deref().unwrap_or_default(),
        headers: &headers,
    };
    let caller = authenticators.authenticate(&evidence).await;
    let caller = caller.map_err(|refusal| refused(&refusal))?;
    Ok(Proven {
        until: held_until(&caller, client.peer, SystemTime::now()),
        caller: Some(caller),
    })
}

/// The identity that a proxy, which connects from `peer`, has proven, which must be the one that it says it has.
pub(super) fn authorize(
    trust: &Trust,
    proven: &Proven,
    node: &Node,
    peer: SocketAddr,
) -> Result<Option<Identity>, Status> {
    let Some(caller) = &proven.caller else {
        return Ok(None);
    };
    if let Some(identity) = caller.downcast_ref::<Identity>() {
        return Ok(Some(identity.clone()));
    }
    if caller.is::<Own>() {
        return Ok(Own::identity(node));
    }
    if caller.is::<Admitted>() {
        let why = "this address is admitted to read configuration; a proxy has to prove who it is";
        return Err(Status::new(Code::Unauthenticated, why));
    }
    let caller = caller.downcast_ref::<Caller>();
    match caller.zip(trust.authenticators()) {
        Some((caller, authenticators)) => {
            let authorized = authenticators.authorize(caller, node, peer);
            authorized.map(Some).map_err(|refusal| refused(&refusal))
        }
        None => Ok(None),
    }
}

/// What a client is told that is refused.
fn refused(refusal: &Refusal) -> Status {
    let code = match refusal.code {
        identity::Code::Unauthenticated => Code::Unauthenticated,
        identity::Code::PermissionDenied => Code::PermissionDenied,
        identity::Code::Unavailable => Code::Unavailable,
    };
    Status::new(code, refusal.message)
}
