//! A server in this process, from start to end.

use anyhow::{Context, bail};
use clap::Parser;
use server::config::ServeOptions;
use server::own::OwnProxies;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

/// A server in this process, on ports that the system chose.
pub(in crate::commands) struct OwnServer {
    /// Its pages.
    pub(in crate::commands) pages: String,
    /// Its xDS.
    pub(in crate::commands) xds: (String, u16),
    serving: JoinHandle<anyhow::Result<()>>,
    /// By which it knows our Envoy, which so gets Secrets.
    proxies: OwnProxies,
    // Ends it.
    _stop: DropGuard,
}

/// The flags of `serve`, read as it reads them.
#[derive(Parser)]
struct Serve {
    #[command(flatten)]
    options: ServeOptions,
}

impl OwnServer {
    /// Starts a server with flags of `serve`, and options that `adjust` sets over them; it is ready then.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub(in crate::commands) async fn start(
        flags: Vec<String>,
        adjust: impl FnOnce(&mut ServeOptions),
    ) -> anyhow::Result<Self> {
        let all = "serve --grpc-addr 127.0.0.1:0 --http-addr 127.0.0.1:0 --secure-grpc-addr off \
                   --shutdown-duration 1s";
        let all = all.split_whitespace().map(str::to_owned).chain(flags);
        let mut serve =
            Serve::try_parse_from(all).context("the environment of the server is wrong")?;
        adjust(&mut serve.options);
        let proxies = OwnProxies::new()?;
        serve.options.own_proxies = Some(proxies.clone());
        let stop = CancellationToken::new();
        let (tell, ready) = oneshot::channel();
        // Nobody listens any more where this fails: the command ends.
        let told = move |addresses| _ = tell.send(addresses);
        let serving = server::serve::serve_until(serve.options, stop.clone(), told);
        let mut serving = tokio::spawn(serving);
        let addresses = tokio::select! {
            ready = ready => ready.context("the server has not started")?,
            ended = &mut serving => {
                ended.context("the server panicked")??;
                bail!("the server ended before it was ready");
            }
        };
        Ok(Self {
            pages: addresses.http.to_string(),
            xds: (addresses.xds.ip().to_string(), addresses.xds.port()),
            serving,
            proxies,
            _stop: stop.drop_guard(),
        })
    }

    /// What it knows our Envoy by.
    pub(in crate::commands) fn token(&self) -> String {
        self.proxies.token().to_owned()
    }

    /// Resolves when it has ended.
    pub(in crate::commands) async fn ended(&mut self) -> anyhow::Result<()> {
        (&mut self.serving).await.context("the server panicked")?
    }
}
