//! What is passed on the way, as a step with what there is to say of it.

use proto_envoy::envoy::config::listener::v3::{FilterChain, Listener};
use proto_envoy::envoy::config::route::v3::{Route, RouteConfiguration, VirtualHost};

use crate::location::Location;
use crate::walk::{Part, Step};
use crate::{listener, notes};

pub(crate) fn of_listener(listener: &Listener, at: Location) -> Step {
    let address = listener.address.as_ref().and_then(listener::socket);
    Step {
        part: Part::Listener,
        name: listener.name.clone(),
        notes: address
            .map(|(a, p)| format!("at {a} port {p}"))
            .into_iter()
            .collect(),
        at: Some(at),
    }
}

pub(crate) fn of_chain(chain: &FilterChain, at: Location) -> Step {
    Step {
        part: Part::FilterChain,
        name: chain.name.clone(),
        notes: notes::of_chain(chain),
        at: Some(at),
    }
}

pub(crate) fn of_config(name: String, config: Option<&RouteConfiguration>, at: Location) -> Step {
    Step {
        part: Part::RouteConfiguration,
        notes: match config {
            None => vec!["the proxy has none of this name".to_owned()],
            Some(_) if name.is_empty() => vec!["in the listener".to_owned()],
            Some(_) => Vec::new(),
        },
        name,
        at: config.map(|_| at),
    }
}

pub(crate) fn of_host(host: &VirtualHost, domain: &str, at: Location) -> Step {
    Step {
        part: Part::VirtualHost,
        name: host.name.clone(),
        notes: vec![format!("by domain {domain}")],
        at: Some(at),
    }
}

pub(crate) fn of_route(route: &Route, at: Location) -> Step {
    Step {
        part: Part::Route,
        name: route.name.clone(),
        notes: notes::of_route(route),
        at: Some(at),
    }
}
