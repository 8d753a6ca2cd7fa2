//! Which sources there are to be, of all that flags and the mesh config name.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use mcp_client::TlsOptions;
use model::{Diagnostic, Owner, Severity};
use proto_istio::mesh::ConfigSource;
use proto_istio::networking::ClientTlsSettings;
use proto_istio::networking::client_tls_settings::TlSmode;
use validate::mesh::{SourceAddress, tls_fault};

use super::code;
use crate::config::ServeOptions;

/// Precedence of the first source; folders of `--config-dir` win over it.
const RANK: u8 = 50;
/// Most sources: what comes after them has ranks of its own.
const MOST: u8 = 40;

/// Where a source is. The configured cluster is read by the start.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Place {
    /// A folder.
    Folder(PathBuf),
    /// Another control plane, by `HOST:PORT`.
    Peer(String),
}

/// A source that there is to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wanted {
    /// Whose objects it tells.
    pub(super) owner: Owner,
    /// How it is reached, if it is a control plane.
    pub(super) tls: Option<TlsOptions>,
}

/// What there is to be, and what is wrong with it.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) wanted: BTreeMap<Place, Wanted>,
    pub(super) found: Vec<Diagnostic>,
}

/// Those of the flags come first. What no source is, is told where the mesh config is read.
pub(super) fn plan(options: &ServeOptions, mesh: &[ConfigSource]) -> Plan {
    let mut plan = Plan::default();
    let stated = &options.config_sources;
    for address in &stated.config_source {
        plan.add(options, "--config-source", address.clone(), stated.tls());
    }
    for (n, source) in mesh.iter().enumerate() {
        let whose = format!("configSources[{n}] of the mesh config");
        let tls = source.tls_settings.as_ref();
        if tls.and_then(tls_fault).is_some() {
            continue;
        }
        if let Ok(address) = SourceAddress::parse(&source.address) {
            plan.add(options, &whose, address, tls.and_then(of_settings));
        }
    }
    plan
}

impl Plan {
    fn add(
        &mut self,
        options: &ServeOptions,
        whose: &str,
        address: SourceAddress,
        tls: Option<TlsOptions>,
    ) {
        let place = match address {
            SourceAddress::Folder(dir) => Place::Folder(dir),
            SourceAddress::Peer(authority) => Place::Peer(authority),
            // It is read with all that goes with it, from the start on.
            SourceAddress::Cluster if options.reads_cluster() => return,
            SourceAddress::Cluster => {
                let why = "is not read: whether a cluster is read is known at the start, by flags or by the file of --mesh-config";
                return self.say(Severity::Error, whose, why);
            }
        };
        if self.wanted.contains_key(&place) {
            return self.say(Severity::Warning, whose, "is not used: it is named before");
        }
        let rank = u8::try_from(self.wanted.len()).ok();
        let Some(rank) = rank.filter(|rank| *rank < MOST) else {
            let why = format!("is not used: at most {MOST} sources are read");
            return self.say(Severity::Error, whose, &why);
        };
        let name = match &place {
            Place::Folder(dir) if options.config_dir.contains(dir) => {
                let why = "is not used: --config-dir names the folder";
                return self.say(Severity::Warning, whose, why);
            }
            Place::Folder(dir) => format!("files:{}", dir.display()),
            Place::Peer(authority) => {
                self.judge(options, whose, authority, tls.as_ref());
                format!("xds:{authority}")
            }
        };
        let owner = Owner::new(RANK + rank, name);
        self.wanted.insert(place, Wanted { owner, tls });
    }

    /// Says what is not as safe as it could be.
    fn judge(
        &mut self,
        options: &ServeOptions,
        whose: &str,
        authority: &str,
        tls: Option<&TlsOptions>,
    ) {
        if tls.is_some() || is_loopback(authority) {
            return;
        }
        let token = match options.config_sources.config_source_token_file {
            Some(_) => ", and no token is shown to it",
            None => "",
        };
        let why = format!(
            "xds://{authority} is reached in plaintext: whoever is on the way decides about the mesh{token}"
        );
        self.say(Severity::Warning, whose, &why);
    }

    fn say(&mut self, severity: Severity, whose: &str, why: &str) {
        let said = format!("{whose}: {why}");
        self.found
            .push(Diagnostic::new(code::SOURCE, severity, said));
    }
}

/// How a control plane of the mesh config is reached; nothing for plaintext.
fn of_settings(tls: &ClientTlsSettings) -> Option<TlsOptions> {
    let stated = |text: &String| (!text.is_empty()).then(|| text.clone());
    let is_mutual = match tls.mode() {
        TlSmode::Disable => return None,
        TlSmode::Simple => false,
        TlSmode::Mutual | TlSmode::IstioMutual => true,
    };
    let identity = (tls.client_certificate.clone(), tls.private_key.clone());
    Some(TlsOptions {
        roots: stated(&tls.ca_certificates).map(Into::into),
        identity: is_mutual.then(|| (identity.0.into(), identity.1.into())),
        server_name: stated(&tls.sni),
        names: tls.subject_alt_names.clone(),
    })
}

fn is_loopback(authority: &str) -> bool {
    let host = authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: ServeOptions,
    }

    fn planned(flags: &[&str], mesh: &[ConfigSource]) -> Plan {
        let line = Line::parse_from(["serve"].iter().chain(flags));
        plan(&line.options, mesh)
    }

    fn source(address: &str, tls: Option<ClientTlsSettings>) -> ConfigSource {
        ConfigSource {
            address: address.to_owned(),
            tls_settings: tls,
            ..ConfigSource::default()
        }
    }

    #[test]
    fn sources_have_ranks_in_the_order_in_which_they_are_named() {
        let flags = [
            "--config-source",
            "xds://127.0.0.1:1",
            "--config-dir",
            "/etc/a",
        ];
        let mesh = [
            source("fs:///etc/b", None),
            source("ftp://nope", None),
            source("fs:///etc/a", None),
            source("xds://127.0.0.1:1", None),
            source("xds://127.0.0.1:2", None),
            source("k8s://", None),
        ];
        let plan = planned(&flags, &mesh);
        let mut owners: Vec<_> = plan.wanted.values().map(|w| &w.owner.source).collect();
        owners.sort();
        let named: Vec<_> = owners.iter().map(|s| (s.rank, &*s.name)).collect();
        let wanted = [
            (50, "xds:127.0.0.1:1"),
            (51, "files:/etc/b"),
            (52, "xds:127.0.0.1:2"),
        ];
        assert_eq!(named, wanted);
        let found: Vec<String> = plan.found.iter().map(ToString::to_string).collect();
        for (said, words) in found
            .iter()
            .zip(["--config-dir", "named before", "a cluster is read"])
        {
            assert!(
                said.contains("PIL0052") && said.contains(words),
                "{found:#?}"
            );
        }
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn control_planes_are_reached_as_the_mesh_config_says() {
        let mutual = ClientTlsSettings {
            mode: TlSmode::Mutual.into(),
            client_certificate: "/c".into(),
            private_key: "/k".into(),
            ca_certificates: "/r".into(),
            subject_alt_names: vec!["istiod".into()],
            ..ClientTlsSettings::default()
        };
        let unsafe_one = ClientTlsSettings {
            mode: TlSmode::Simple.into(),
            insecure_skip_verify: Some(true),
            ..ClientTlsSettings::default()
        };
        let mesh = [
            source("xds://a:1", Some(mutual)),
            source("xds://b:1", Some(unsafe_one)),
            source("xds://c:1", None),
        ];
        let plan = planned(&["--config-source-token-file", "/t"], &mesh);
        let of = |host: &str| plan.wanted.get(&Place::Peer(format!("{host}:1")));
        let tls = TlsOptions {
            roots: Some("/r".into()),
            identity: Some(("/c".into(), "/k".into())),
            server_name: None,
            names: vec!["istiod".into()],
        };
        assert_eq!(of("a").unwrap().tls.as_ref(), Some(&tls));
        assert!(of("b").is_none(), "nobody is asked who could be anybody");
        assert_eq!(of("c").unwrap().tls, None);
        let said = plan.found[0].to_string();
        assert!(
            said.contains("plaintext") && said.contains("no token"),
            "{said}"
        );
    }
}
