//! Nacos 1, 2 and 3.
//!
//! A server that answers over gRPC (Nacos 2 and 3) pushes what changes of the services that are subscribed to; a server that
//! does not (Nacos 1) is asked for each of them. Which services there are is listed from time to time in both, for no
//! server tells of new ones. Of several servers one is read, and another when it does not answer.
//!
//! A service whose instances a server refuses to tell keeps those that were reported. Nothing here registers services.

mod catalog;
mod channel;
mod credentials;
pub mod mcp;
mod message;
mod names;
mod payload;
mod poll;
mod push;
mod servers;

#[cfg(test)]
mod real;
#[cfg(test)]
pub(crate) mod scale;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

pub use credentials::Credentials;
#[cfg(test)]
pub(crate) use credentials::escaped;
pub use servers::PORT;

use crate::address::Address;
use crate::outbox::Outbox;
use crate::report::{Reading, Registry, Report, Reports};
use crate::turns::{self, End, Servers};
use catalog::Catalog;
use channel::Channel;
use names::Key;
use payload::Frames;
use push::Session;

/// How many services a page of the list has.
const PAGE: usize = 50;
/// The least time between two lists of all services.
const LEAST_REFRESH: Duration = Duration::from_secs(10);
/// The group of services that say none.
pub(crate) const DEFAULT_GROUP: &str = "DEFAULT_GROUP";
/// The namespace of services that say none.
const PUBLIC: &str = "public";
/// How far the port of gRPC is above that of HTTP.
const GRPC: u16 = 1000;

/// Which Nacos is read, and what of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Addresses or names of servers, each with or without a port (that of HTTP; gRPC is 1,000 above).
    pub servers: Vec<Arc<str>>,
    /// An address server, asked for the servers instead: an `http` URL or `host:port`.
    pub address_server: Option<Arc<str>>,
    /// The port of servers that say none. 0 for 8848.
    pub port: u16,
    /// The id of the namespace. Empty for `public`.
    pub namespace_id: Arc<str>,
    /// What the namespace is called in hosts. Empty for its id.
    pub namespace: Arc<str>,
    /// The groups that are read. None for `DEFAULT_GROUP`.
    pub groups: Vec<Arc<str>>,
    /// How often services are listed. At least 10 s.
    pub refresh: Duration,
    /// How the registry is asked.
    pub credentials: Credentials,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            address_server: None,
            port: 0,
            namespace_id: "".into(),
            namespace: "".into(),
            groups: Vec::new(),
            refresh: Duration::from_secs(30),
            credentials: Credentials::default(),
        }
    }
}

impl Options {
    fn namespace_id(&self) -> &str {
        match &*self.namespace_id {
            "" => PUBLIC,
            id => id,
        }
    }

    pub(crate) fn name_in_hosts(&self) -> Arc<str> {
        match &*self.namespace {
            "" => self.namespace_id().into(),
            name => name.into(),
        }
    }

    fn groups(&self) -> Vec<Arc<str>> {
        match self.groups.is_empty() {
            true => vec![DEFAULT_GROUP.into()],
            false => self.groups.clone(),
        }
    }
}

/// A Nacos that is read.
#[derive(Debug)]
pub struct Nacos {
    options: Arc<Options>,
}

impl Nacos {
    /// A registry as options say.
    pub fn new(mut options: Options) -> Self {
        options.refresh = options.refresh.max(LEAST_REFRESH);
        Self {
            options: Arc::new(options),
        }
    }
}

/// What is reported where a server says these octets on its stream: lists of services, and pushes. Reading ends at what cannot
/// be read.
pub fn replay(octets: &[u8]) -> Vec<Report> {
    let (mut catalog, mut out) = (Catalog::new(PUBLIC.into()), Outbox::default());
    let group: Arc<str> = DEFAULT_GROUP.into();
    let mut frames = Frames::default();
    frames.push(Bytes::copy_from_slice(octets));
    while let Ok(Some(payload)) = frames.pop() {
        if let Ok(answer) = message::read::<message::Answer>(payload.json()) {
            let names = answer.service_names.iter();
            let keys = names.filter_map(|n| Key::read(n, &group)).collect();
            catalog.listed(&keys, &mut out);
        }
        if let Ok(request) = message::read::<message::Request>(payload.json())
            && let Some((key, instances)) = request.pushed()
        {
            catalog.pushed(&key, instances, &mut out);
        }
    }
    std::iter::from_fn(|| out.pop()).collect()
}

impl Servers for Nacos {
    type Server = Address;

    async fn servers(&self) -> Result<Vec<Address>, String> {
        let port = match self.options.port {
            0 => servers::PORT,
            port => port,
        };
        match &self.options.address_server {
            Some(asked) => servers::ask(asked, self.options.namespace_id(), port).await,
            None => Address::list(&self.options.servers, port),
        }
    }

    async fn session(
        &self,
        server: &Address,
        out: &mut Outbox,
        to: &Reports,
        stop: &CancellationToken,
    ) -> (End, bool) {
        let http = server.authority();
        let login = tokio::select! {
            () = stop.cancelled() => return (End::Stopped, false),
            login = self.options.credentials.login(&http) => login,
        };
        let token = match login {
            Ok(token) => token,
            Err(why) => return (End::Lost(why.into()), false),
        };
        let opened = match server.above(GRPC) {
            Some(authority) => tokio::select! {
                () = stop.cancelled() => return (End::Stopped, false),
                opened = Channel::open(&authority) => opened.map_err(|e| e.to_string()),
            },
            None => Err("its port leaves none for gRPC".to_owned()),
        };
        let why = match opened {
            Ok(channel) => {
                let mut session = Session::new(&self.options, http, channel, token, out);
                let end = session.run(to, stop).await;
                return (end, session.catalog.is_whole());
            }
            Err(why) => why,
        };
        match poll::Poll::open(&self.options, server, token).await {
            Ok(mut poll) => {
                let end = poll.run(out, to, stop).await;
                (end, poll.catalog.is_whole())
            }
            Err(_) => (End::Lost(why.into()), false),
        }
    }
}

impl Registry for Nacos {
    fn read(self: Box<Self>, to: Reports, stop: CancellationToken) -> Reading {
        Box::pin(async move { turns::read(&*self, &to, &stop).await })
    }
}
