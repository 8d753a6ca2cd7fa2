//! Whose rules send a request where: those of ingress-nginx, by a model of them, and what is served in their place.

mod log;
mod nginx;
mod ours;
mod request;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use simulate::Resources;

use crate::World;

pub use log::{LogFormat, of_access_log};
pub use nginx::Nginx;
pub use request::{Request, Unreadable, of_list};

/// Where a request goes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Choice {
    /// To backends, `namespace/name:port`, each with its share in hundred.
    Backends(Vec<(String, u32)>),
    /// Elsewhere.
    Redirect {
        /// The status.
        status: u16,
        /// The `Location`.
        location: String,
    },
    /// Nowhere: it is answered.
    Answer(u16),
    /// Nowhere: there is no connection that it could be sent over; why not.
    Refused(String),
    /// That is not known; why not.
    Unknown(String),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backends(all) => {
                for (index, (to, percent)) in all.iter().enumerate() {
                    if index > 0 {
                        f.write_str(", ")?;
                    }
                    f.write_str(to)?;
                    if *percent != 100 {
                        write!(f, " {percent} %")?;
                    }
                }
                Ok(())
            }
            Self::Redirect { status, location } => write!(f, "{status} to {location}"),
            Self::Answer(status) => write!(f, "{status}"),
            Self::Refused(why) => write!(f, "no connection: {why}"),
            Self::Unknown(why) => write!(f, "not known: {why}"),
        }
    }
}

impl Choice {
    /// Whether clients are served alike. Redirects that differ in their status alone are: 308 says what 301 says, and
    /// keeps the method too.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Redirect { status, location },
                Self::Redirect {
                    status: s,
                    location: l,
                },
            ) => location == l && is_permanent(*status) == is_permanent(*s),
            (Self::Refused(_), Self::Refused(_)) => true,
            _ => self == other,
        }
    }
}

fn is_permanent(status: u16) -> bool {
    matches!(status, 301 | 308)
}

/// What chooses, and what by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Chosen {
    /// What is chosen.
    pub choice: Choice,
    /// The server and location, or the route.
    pub by: String,
}

/// Requests that fare alike.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Row {
    /// How many requests.
    pub requests: u64,
    /// `GET https://shop.com/items/*`.
    pub request: String,
    /// Whether both choose alike.
    pub same: bool,
    /// What ingress-nginx chooses.
    pub nginx: Chosen,
    /// What is chosen here.
    pub here: Chosen,
}

/// What became of all requests.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Comparison {
    /// How many requests there were.
    pub requests: u64,
    /// How many of them fare differently.
    pub different: u64,
    /// Requests by host and pattern of path: those that fare differently first, then the most frequent.
    pub rows: Vec<Row>,
    /// Lines that are no requests.
    pub unreadable: usize,
}

/// Where a gateway with these resources sends a request.
pub fn here(world: &World, resources: &Resources, request: &Request) -> Chosen {
    ours::choose(resources, &world.snapshot.settings.domain, request)
}

/// Compares. `resources` are those of a gateway that serves what is derived.
pub fn compare(world: &World, resources: &Resources, requests: Vec<Request>) -> Comparison {
    let nginx = Nginx::of(world);
    let mut counted: BTreeMap<Request, u64> = BTreeMap::new();
    for request in requests {
        *counted.entry(request).or_default() += 1;
    }
    let mut rows: BTreeMap<(String, Choice, Choice), Row> = BTreeMap::new();
    for (request, count) in counted {
        let chosen = nginx.choose(&request);
        let here = here(world, resources, &request);
        let pattern = request.pattern();
        let same = chosen.choice.is_like(&here.choice);
        let key = (
            pattern.clone(),
            generalised(&chosen.choice),
            generalised(&here.choice),
        );
        let row = rows.entry(key).or_insert_with(|| Row {
            requests: 0,
            request: pattern,
            same,
            nginx: chosen,
            here,
        });
        row.requests += count;
    }
    let mut rows: Vec<Row> = rows.into_values().collect();
    rows.sort_by(|a, b| (a.same, b.requests, &a.request).cmp(&(b.same, a.requests, &b.request)));
    let different = rows.iter().filter(|row| !row.same);
    Comparison {
        requests: rows.iter().map(|row| row.requests).sum(),
        different: different.map(|row| row.requests).sum(),
        rows,
        unreadable: 0,
    }
}

/// A choice without what each request has of its own.
fn generalised(choice: &Choice) -> Choice {
    match choice {
        Choice::Redirect { status, .. } => Choice::Redirect {
            status: *status,
            location: String::new(),
        },
        other => other.clone(),
    }
}
