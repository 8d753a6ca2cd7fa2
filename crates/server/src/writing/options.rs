//! The flags of what is written into an API.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use clap::builder::BoolishValueParser;

use crate::config::duration;

/// The shortest lease: a renewal takes a round trip, and there have to be a few in one.
const SHORTEST_LEASE: Duration = Duration::from_secs(3);
/// The longest lease: others wait that long for a leader that is gone.
const LONGEST_LEASE: Duration = Duration::from_secs(600);

/// Flags of what is written into a Kubernetes API.
#[derive(Args, Clone, Debug)]
pub struct WriteOptions {
    /// Write into the cluster that objects come from: what the other flags say, the CA's Secret, roots, leases, and
    /// WorkloadEntries of machines. Default: on, except for a cluster that --kubeconfig names, which is only read.
    #[arg(long, env = "PILOTHOUSE_WRITE", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub write: Option<bool>,

    /// Write statuses and addresses of ServiceEntries into the Kubernetes API that objects come from (a cluster, or the
    /// store of --data). With `false` none are.
    #[arg(long, alias = "enableStatus", env = "PILOT_ENABLE_STATUS", value_name = "BOOL", default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub write_status: bool,

    /// Write the statuses of the Gateway API's kinds. With `false`, or without --write-status, none are.
    #[arg(long, env = "PILOT_ENABLE_GATEWAY_API_STATUS", value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub write_gateway_status: bool,

    /// Write what analysis and generation find into the status of Istio's kinds: `validationMessages` and `observedGeneration`.
    #[arg(long, env = "PILOT_ENABLE_ANALYSIS", value_name = "BOOL", default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub write_analysis: bool,

    /// Say in an Event beside each Ingress what of it is not served as it is written. Without --write-status none is.
    #[arg(long, env = "PILOTHOUSE_WRITE_INGRESS_EVENTS", value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub write_ingress_events: bool,

    /// Elect a leader among the replicas, which alone writes. With `false` this is taken to be the only replica.
    #[arg(long, env = "ENABLE_LEADER_ELECTION", value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub leader_election: bool,

    /// How long a replica leads that does not renew its lease: from 3s to 10m, the same for all replicas.
    #[arg(long, env = "PILOTHOUSE_LEASE_DURATION", value_name = "DURATION", default_value = "30s", value_parser = lease)]
    pub lease_duration: Duration,

    /// The name of this replica in leases, which no other replica may have. Default: the host's name and a random part.
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub pod_name: Option<String>,

    /// Most statuses read and written at the same time.
    #[arg(long, env = "PILOT_STATUS_MAX_WORKERS", value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub status_workers: u16,

    /// Statuses read and written per second, after a burst.
    #[arg(long, env = "PILOT_STATUS_QPS", value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub status_qps: u32,

    /// Statuses that may be read and written at once after a quiet time.
    #[arg(long, env = "PILOT_STATUS_BURST", value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub status_burst: u32,
}

fn machine() -> String {
    let system = rustix::system::uname();
    system.nodename().to_string_lossy().into_owned()
}

impl WriteOptions {
    /// The name of this replica.
    pub fn identity(&self) -> Arc<str> {
        match self.pod_name.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => name.into(),
            None => {
                let host = machine();
                // Two processes of one machine are two replicas.
                let parts = std::hash::RandomState::new();
                let part = std::hash::BuildHasher::hash_one(&parts, std::process::id());
                format!("{host}_{part:016x}").into()
            }
        }
    }

    /// The name of the pod; of the machine where it is in none.
    pub fn host(&self) -> String {
        let pod = self.pod_name.clone().filter(|name| !name.is_empty());
        pod.unwrap_or_else(machine)
    }

    /// How fast statuses are written.
    pub fn pace(&self) -> writeback::status::Options {
        writeback::status::Options {
            per_second: f64::from(self.status_qps),
            burst: self.status_burst,
            workers: usize::from(self.status_workers),
            ..writeback::status::Options::default()
        }
    }
}

fn lease(text: &str) -> Result<Duration, String> {
    let found = duration(text)?;
    match (SHORTEST_LEASE..=LONGEST_LEASE).contains(&found) {
        true => Ok(found),
        false => Err(format!("{text} is not from 3s to 10m")),
    }
}
