//! Flags of registries.

use std::time::Duration;

use clap::Args;
use model::kinds::higress::Registry;
use registries::keeper::{Keep, Patience};

use super::url;
use crate::config::duration;

/// Flags of registries outside of Kubernetes.
#[derive(Args, Clone, Debug)]
pub struct RegistryOptions {
    /// A registry of services, as `KIND://HOST:PORT/?KEY=VALUE`, with the kinds and fields of McpBridge: for example
    /// `consul://127.0.0.1:8500/?tag=mesh`, `eureka://127.0.0.1:8761`, `static://10.0.0.1:80,10.0.0.2:80/?name=shop`,
    /// `dns://api.example.com:443/?name=api&protocol=https`. May be given several times.
    #[arg(long = "registry", env = "PILOTHOUSE_REGISTRIES", value_name = "URL", value_delimiter = ' ', value_parser = url::read)]
    pub stated: Vec<Registry>,

    /// Names of McpBridges that are read, besides `default`, in the namespace of Ingresses (--ingress-namespace).
    #[arg(
        long = "mcp-bridge",
        env = "PILOTHOUSE_MCP_BRIDGES",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub bridges: Vec<String>,

    /// How long a service keeps its last endpoints when its registry lists none that could get a request, or lists the
    /// service no more, as one that has lost its data: keep, drop, or after=DURATION.
    #[arg(long = "registry-empty", env = "PILOTHOUSE_REGISTRY_EMPTY", value_name = "HOW", default_value = "after=30m", value_parser = keep)]
    pub empty: Keep,

    /// How long services keep their last endpoints while their registry does not answer: keep, or after=DURATION.
    #[arg(long = "registry-outage", env = "PILOTHOUSE_REGISTRY_OUTAGE", value_name = "HOW", default_value = "keep", value_parser = outage)]
    pub outage: Keep,

    /// How long the start waits for a registry to be read.
    #[arg(long = "registry-start-timeout", env = "PILOTHOUSE_REGISTRY_START_TIMEOUT", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub start: Duration,
}

impl RegistryOptions {
    /// How long services stay that a registry does not tell of.
    pub fn patience(&self) -> Patience {
        Patience {
            empty: self.empty,
            outage: self.outage,
        }
    }
}

fn keep(text: &str) -> Result<Keep, String> {
    match text {
        "keep" => Ok(Keep::Forever),
        "drop" => Ok(Keep::For(Duration::ZERO)),
        _ => {
            let time = text.strip_prefix("after=");
            let time =
                time.ok_or_else(|| format!("{text:?} is not keep, drop or after=DURATION"))?;
            duration(time).map(Keep::For)
        }
    }
}

/// Without any patience each reconnect would take all endpoints away.
fn outage(text: &str) -> Result<Keep, String> {
    match keep(text)? {
        Keep::For(time) if time.is_zero() => Err("an outage may not drop services at once".into()),
        keep => Ok(keep),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_read() {
        assert_eq!(keep("keep"), Ok(Keep::Forever));
        assert_eq!(keep("drop"), Ok(Keep::For(Duration::ZERO)));
        assert_eq!(keep("after=5m"), Ok(Keep::For(Duration::from_secs(300))));
        assert!(keep("5m").is_err() && keep("after=x").is_err());
        assert!(outage("drop").is_err() && outage("after=0s").is_err());
        assert_eq!(outage("keep"), Ok(Keep::Forever));
    }
}
