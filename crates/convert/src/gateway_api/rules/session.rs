//! How the requests of a rule keep sessions with an endpoint.
//!
//! The cookie or header names the endpoint, by Envoy's `stateful_session`. Istio does this for Services alone, which ask for it
//! with labels, and leaves `sessionPersistence` of rules out.

use std::sync::Arc;

use model::ObjectKey;
use model::kinds::gateway_api::{CookieLifetime, SessionPersistence, SessionType, short_hash};
use model::session::Session;
use model::settings::Features;

use super::{RouteError, reason};

/// What becomes of sessions.
#[derive(Default)]
pub(super) struct Kept {
    pub(super) session: Option<Arc<Session>>,
    /// What of it cannot be done.
    pub(super) error: Option<RouteError>,
}

/// How a rule of a route keeps sessions.
pub(super) fn kept(
    stated: Option<&SessionPersistence>,
    route: &ObjectKey,
    rule: &str,
    features: &Features,
) -> Kept {
    let Some(stated) = stated else {
        return Kept::default();
    };
    let unsupported = |why: &str| Some(RouteError::new(reason::UNSUPPORTED_VALUE, why));
    match session(stated, route, rule, features) {
        Err(why) => Kept {
            session: None,
            error: unsupported(why),
        },
        Ok(session) => {
            let ends = matches!(&session, Session::Cookie { lifetime, .. } if lifetime.is_some());
            let error = match stated.absolute_timeout {
                Some(_) if !ends => unsupported(
                    "absoluteTimeout ends only sessions in cookies with the lifetime Permanent",
                ),
                _ => None,
            };
            Kept {
                session: Some(Arc::new(session)),
                error,
            }
        }
    }
}

/// What carries the endpoint of a session, or why nothing does.
fn session(
    stated: &SessionPersistence,
    route: &ObjectKey,
    rule: &str,
    features: &Features,
) -> Result<Session, &'static str> {
    if !features.persistent_session_filter {
        return Err(
            "sessionPersistence has no effect unless PILOT_ENABLE_PERSISTENT_SESSION_FILTER is set",
        );
    }
    match (stated.session_type, &stated.header) {
        (SessionType::Cookie, _) => Ok(cookie(stated, route, rule)),
        (SessionType::Header, Some(header)) => Ok(Session::Header(header.name.clone())),
        (SessionType::Header, None) => Err("a session that a header carries needs `header.name`"),
    }
}

fn cookie(stated: &SessionPersistence, route: &ObjectKey, rule: &str) -> Session {
    let cookie = stated.cookie.as_ref();
    let name = cookie.and_then(|cookie| cookie.name.clone());
    // The same from every replica, and another for each rule.
    let made = || format!("session-{}", short_hash(&format!("{route} {rule}"))).into();
    let is_permanent =
        cookie.is_some_and(|cookie| cookie.lifetime_type == CookieLifetime::Permanent);
    Session::Cookie {
        name: name.unwrap_or_else(made),
        path: cookie.map_or_else(|| "/".into(), |cookie| cookie.path.clone()),
        lifetime: stated
            .absolute_timeout
            .filter(|_| is_permanent)
            .map(|timeout| timeout.0),
    }
}
