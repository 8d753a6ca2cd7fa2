//! A model of how ingress-nginx chooses: a server by host, a location of it by path, and a backend or its canary.
//!
//! It is written after what ingress-nginx says and does, and knows nothing of how annotations are read here: where both
//! choose alike, two programs agree.
//!
//! ingress-nginx: internal/ingress/controller/{controller,location,util}.go and rootfs/etc/nginx/template, 1.12.

mod canary;
mod location;
mod servers;

use std::collections::BTreeMap;

use super::{Choice, Chosen, Request};
use crate::World;
use location::{Backend, Location};

/// The server of requests for no known host.
const DEFAULT: &str = "_";

/// What ingress-nginx would be configured with.
pub struct Nginx {
    servers: BTreeMap<String, Server>,
    /// Further names of servers.
    aliases: BTreeMap<String, String>,
    /// Hosts that are sent to another: with `www.` or without.
    redirects: BTreeMap<String, String>,
}

/// A server.
#[derive(Debug, Default)]
pub(super) struct Server {
    /// In the order in which Ingresses name them.
    locations: Vec<Location>,
    /// Clients without TLS can be redirected: it has a certificate, be it the default one.
    has_certificate: bool,
    /// Connections over TLS go to the backend of its root as they are.
    passes: bool,
}

impl Nginx {
    /// What it would make of the Ingresses.
    pub fn of(world: &World) -> Self {
        servers::of(world)
    }

    /// Where a request goes.
    pub fn choose(&self, request: &Request) -> Chosen {
        let known = self.server(&request.host);
        if let (None, Some(other)) = (known, self.redirects.get(&request.host)) {
            return Chosen {
                choice: Choice::Redirect {
                    status: 308,
                    location: format!("{}://{other}{}", request.scheme(), request.path),
                },
                by: format!("{}: from-to-www-redirect", request.host),
            };
        }
        let (name, server) = match known.or_else(|| self.servers.get_key_value(DEFAULT)) {
            Some((name, server)) => (name.as_str(), server),
            None => {
                return Chosen {
                    choice: Choice::Answer(404),
                    by: "no server".to_owned(),
                };
            }
        };
        // By the name of the server alone: not by its aliases, and not by a wildcard.
        if request.tls && server.passes && name == request.host {
            return Chosen {
                choice: server.passed(),
                by: format!("{name}: ssl-passthrough"),
            };
        }
        let path = location::normalised(request.bare_path());
        let (location, choice) = match location::find(&server.locations, &path) {
            Ok(Some(found)) => (found.to_string(), found.serve(server, request, &path)),
            Ok(None) => ("no location".to_owned(), Choice::Answer(404)),
            Err(why) => ("no location".to_owned(), Choice::Unknown(why)),
        };
        Chosen {
            choice,
            by: format!("{name} {location}"),
        }
    }

    /// The server of a host: by its name, an alias, or the longest wildcard.
    fn server(&self, host: &str) -> Option<(&String, &Server)> {
        let by_name = |name: &str| {
            let name = self.aliases.get(name).map_or(name, String::as_str);
            self.servers.get_key_value(name)
        };
        by_name(host).or_else(|| {
            let dots = host.match_indices('.').map(|(at, _)| at);
            dots.filter_map(|at| by_name(&format!("*{}", &host[at..])))
                .next()
        })
    }
}

impl Server {
    /// Where connections go that pass as they are.
    fn passed(&self) -> Choice {
        let root = self.locations.iter().find(|location| location.path == "/");
        match root.and_then(|root| root.backend.as_ref()) {
            Some(Backend::Service(to)) => Choice::Backends(vec![(to.clone(), 100)]),
            Some(Backend::Absent(why)) => Choice::Refused(why.clone()),
            None => Choice::Refused("no rule of the host leads from / to a Service".to_owned()),
        }
    }
}
