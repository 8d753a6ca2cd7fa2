//! What a request for a debug type asks.

use ads::{Ask, Code, Request, Status};

use super::rights::Rights;

/// Pages about one proxy, which who is of its namespace may ask for.
const OF_PROXIES: [&str; 3] = ["config_dump", "ndsz", "edsz"];

/// A debug type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// How far each proxy is.
    Status,
    /// What one proxy should have.
    Dump,
    /// Any page, under its path.
    Page,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Status, Kind::Dump, Kind::Page];

    pub(super) fn type_url(self) -> &'static str {
        match self {
            Kind::Status => "istio.io/debug/syncz",
            Kind::Dump => "istio.io/debug/config_dump",
            Kind::Page => "istio.io/debug",
        }
    }

    pub(super) fn of(type_url: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.type_url() == type_url)
    }
}

/// How a nonce is written.
pub(super) fn nonce(number: u64) -> String {
    format!("debug-{number}")
}

/// What was asked last of a type.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The nonce of the answer.
    nonce: Option<u64>,
    names: Vec<String>,
}

impl Seen {
    /// The names that a request asks for, which is answered under `next`; `None` if it only acknowledges. Most clients acknowledge
    /// nothing, and some begin with a nonce that nobody has sent.
    pub(super) fn asks(&mut self, request: Request, next: u64) -> Option<Vec<String>> {
        let number = request.nonce.strip_prefix("debug-");
        let number = number.and_then(|n| n.parse::<u64>().ok());
        let answers = number.is_some() && number <= self.nonce;
        let (names, acknowledges) = match request.ask {
            Ask::Delta {
                subscribe,
                unsubscribe,
                ..
            } => {
                let nothing = subscribe.is_empty() && (answers || !unsubscribe.is_empty());
                (subscribe, nothing)
            }
            Ask::Sotw { names } => {
                let same = answers && names == self.names;
                (names, same)
            }
        };
        if acknowledges {
            return None;
        }
        self.nonce = Some(next);
        self.names.clone_from(&names);
        Some(names.into_iter().filter(|name| name != "*").collect())
    }
}

/// A question whose answer its asker may have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Question {
    /// How far the proxies are that the rights cover.
    Status(Rights),
    /// What a proxy should have, if the rights cover it.
    Dump {
        /// Its name with its namespace.
        proxy: String,
        /// Of the asker.
        rights: Rights,
    },
    /// A page, with what it says of proxies that the rights cover.
    Page {
        /// Its path and query.
        name: String,
        /// Of the asker.
        rights: Rights,
    },
}

impl Question {
    /// What is asked, if it may be.
    pub(super) fn new(kind: Kind, names: Vec<String>, rights: Rights) -> Result<Self, Status> {
        if kind == Kind::Status {
            return Ok(Question::Status(rights));
        }
        let type_url = kind.type_url();
        let one: Result<[String; 1], _> = names.try_into();
        let [name] = one.map_err(|names: Vec<String>| {
            let message = format!("{type_url} takes one resource name, not {}", names.len());
            Status::new(Code::InvalidArgument, message)
        })?;
        let may = match kind {
            Kind::Dump => rights.cover_named(&name),
            _ => rights == Rights::All || is_of_proxy(&name, &rights),
        };
        if !may {
            let message =
                format!("{type_url}: this identity may ask for proxies of its own namespace alone");
            return Err(Status::new(Code::PermissionDenied, message));
        }
        Ok(match kind {
            Kind::Dump => Question::Dump {
                proxy: name,
                rights,
            },
            _ => Question::Page { name, rights },
        })
    }
}

/// Whether a page is about a proxy that the rights cover. One that names none has nothing but words.
fn is_of_proxy(name: &str, rights: &Rights) -> bool {
    let (page, query) = name.split_once('?').unwrap_or((name, ""));
    let proxy = super::super::parameter(query, "proxyID");
    OF_PROXIES.contains(&page) && proxy.is_none_or(|proxy| rights.cover_named(proxy))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sotw(nonce: &str, names: &[&str]) -> Request {
        Request {
            node: None,
            type_url: Kind::Page.type_url().to_owned(),
            nonce: nonce.to_owned(),
            rejection: None,
            holds: false,
            ask: Ask::Sotw {
                names: names.iter().map(|name| (*name).to_owned()).collect(),
            },
        }
    }

    fn delta(nonce: &str, subscribe: &[&str]) -> Request {
        Request {
            ask: Ask::Delta {
                subscribe: subscribe.iter().map(|name| (*name).to_owned()).collect(),
                unsubscribe: Vec::new(),
                initial: Vec::new(),
            },
            ..sotw(nonce, &[])
        }
    }

    #[test]
    fn every_request_is_answered_and_no_acknowledgement() {
        let mut seen = Seen::default();
        let mut asks = |request, next| seen.asks(request, next).map(|names| names.len());
        assert_eq!(asks(sotw("2026-11-28T19:44:18Z", &["list"]), 1), Some(1));
        assert_eq!(asks(sotw("debug-1", &["list"]), 2), None);
        assert_eq!(asks(sotw("debug-1", &["syncz"]), 2), Some(1));
        assert_eq!(asks(sotw("2026-11-28T19:44:19Z", &["syncz"]), 3), Some(1));
        assert_eq!(asks(sotw("", &["syncz"]), 4), Some(1));

        let mut seen = Seen::default();
        let mut asks = |request, next| seen.asks(request, next).map(|names| names.len());
        assert_eq!(asks(delta("debug-9", &["*"]), 1), Some(0));
        assert_eq!(asks(delta("debug-1", &[]), 2), None);
        assert_eq!(asks(delta("debug-1", &["list"]), 2), Some(1));
        assert_eq!(asks(delta("debug-2", &[]), 3), None);
    }

    #[test]
    fn a_page_is_asked_for_by_one_name_that_the_asker_may_see() {
        let shop = Rights::Of(["shop".into()].into());
        let ask = |kind, names: &[&str], rights: &Rights| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let asked = Question::new(kind, names, rights.clone());
            asked.map(|_| ()).map_err(|status| status.code)
        };
        let (denied, invalid) = (Err(Code::PermissionDenied), Err(Code::InvalidArgument));
        assert_eq!(ask(Kind::Status, &[], &shop), Ok(()));
        assert_eq!(ask(Kind::Page, &["registryz"], &Rights::All), Ok(()));
        assert_eq!(ask(Kind::Page, &["registryz"], &shop), denied);
        assert_eq!(ask(Kind::Page, &["syncz"], &shop), denied);
        assert_eq!(ask(Kind::Page, &["edsz?proxyID=a.shop"], &shop), Ok(()));
        assert_eq!(ask(Kind::Page, &["edsz?proxyID=a.bank"], &shop), denied);
        assert_eq!(ask(Kind::Dump, &["a.shop"], &shop), Ok(()));
        assert_eq!(ask(Kind::Dump, &["a.bank"], &shop), denied);
        for kind in [Kind::Page, Kind::Dump] {
            assert_eq!(ask(kind, &[], &Rights::All), invalid);
            assert_eq!(ask(kind, &["a", "b"], &Rights::All), invalid);
        }
    }
}
