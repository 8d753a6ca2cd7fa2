//! ZooKeeper, as Dubbo and Spring Cloud keep their services in it.
//!
//! Everything that is read is watched, so that a change is reported when the server tells of it and nothing is asked for
//! again and again. Of several servers one is read, and another when it does not answer. Nothing here writes.

mod dialogue;
mod dubbo;
mod instance;
mod jute;
mod session;
mod tree;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::address::Address;
use crate::outbox::Outbox;
use crate::report::{Reading, Registry, Report, Reports};
use crate::turns::{self, End, Servers};
use model::redacted::Redacted;
use session::Session;
use tree::Layout;

/// The port of servers that say none.
pub const PORT: u16 = 2181;
/// Where Dubbo keeps interfaces.
const DUBBO: &str = "/dubbo";
/// Where Spring Cloud, and Dubbo at application level, keep applications.
const APPLICATIONS: &str = "/services";

/// Which ZooKeeper is read, and what of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Addresses or names of servers, each with or without a port.
    pub servers: Vec<Arc<str>>,
    /// The port of servers that say none. 0 for 2181.
    pub port: u16,
    /// Where applications are, beside `/services`. Interfaces of Dubbo are below `/dubbo`.
    pub paths: Vec<Arc<str>>,
    /// User and password of the scheme `digest`.
    pub user: Option<(Arc<str>, Redacted)>,
    /// How long the server may hear nothing of us. It answers with what it grants.
    pub session: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            port: 0,
            paths: Vec::new(),
            user: None,
            session: Duration::from_secs(15),
        }
    }
}

impl Options {
    fn roots(&self) -> Vec<(Arc<str>, Layout)> {
        let mut roots = vec![
            (DUBBO.into(), Layout::Interfaces),
            (APPLICATIONS.into(), Layout::Applications),
        ];
        let more = self.paths.iter().filter(|p| {
            let words = p.trim_matches('/');
            words != &DUBBO[1..] && !words.split('/').any(|w| matches!(w, "" | "." | ".."))
                || words.is_empty()
        });
        roots.extend(more.map(|p| (p.clone(), Layout::Applications)));
        roots
    }
}

/// A ZooKeeper that is read.
#[derive(Debug)]
pub struct ZooKeeper {
    options: Options,
}

impl ZooKeeper {
    /// A registry as options say.
    pub fn new(options: Options) -> Self {
        Self { options }
    }
}

/// What is reported where a server, asked for everything, says these octets. Reading ends at what cannot be read.
pub fn replay(octets: &[u8]) -> Vec<Report> {
    let mut records = wire::Records::default();
    records.waiting.extend_from_slice(octets);
    let options = Options {
        paths: vec!["/".into()],
        ..Options::default()
    };
    let mut dialogue = dialogue::Dialogue::new(&options, records);
    let mut out = Outbox::default();
    dialogue.ask();
    if let Err(why) = dialogue.heard(&mut out) {
        out.lost(why.into());
    }
    std::iter::from_fn(|| out.pop()).collect()
}

impl Servers for ZooKeeper {
    type Server = Address;

    async fn servers(&self) -> Result<Vec<Address>, String> {
        let port = match self.options.port {
            0 => PORT,
            port => port,
        };
        Address::list(&self.options.servers, port)
    }

    async fn session(
        &self,
        server: &Address,
        out: &mut Outbox,
        to: &Reports,
        stop: &CancellationToken,
    ) -> (End, bool) {
        let server = server.authority();
        let opened = tokio::select! {
            () = stop.cancelled() => return (End::Stopped, false),
            opened = Session::open(&server, &self.options) => opened,
        };
        let mut session = match opened {
            Ok(session) => session,
            Err(why) => return (End::Lost(why.into()), false),
        };
        match session.run(out, to, stop).await {
            None => (End::Stopped, false),
            Some(why) => {
                let why = format!("{server}: {why}").into();
                (End::Lost(why), session.dialogue.tree.is_whole())
            }
        }
    }
}

impl Registry for ZooKeeper {
    fn read(self: Box<Self>, to: Reports, stop: CancellationToken) -> Reading {
        Box::pin(async move { turns::read(&*self, &to, &stop).await })
    }
}

#[cfg(test)]
pub(crate) mod real;
#[cfg(test)]
mod tests;
