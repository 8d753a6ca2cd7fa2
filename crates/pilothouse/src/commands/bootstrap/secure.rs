//! How the proxy and the control plane prove to each other who they are.
//!
//! Envoy reads files that a bootstrap names when it starts. Tokens and certificates are short-lived: the token is read by a
//! filter of the control plane's cluster for each stream, and files of TLS are followed where a folder is given for the
//! resources that tell Envoy so (SDS from files).

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};

const TYPES: &str = "type.googleapis.com/envoy.extensions";
/// The secrets that are read from files, by the end of the file that says so.
const ROOT: &str = "root";
const CERTIFICATE: &str = "certificate";

/// Flags of the connection to the control plane.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SecureOptions {
    /// PEM file with the roots by which the server is judged: connect over TLS. `pilothouse root-cert` prints it.
    #[arg(long, value_name = "FILE")]
    root_cert: Option<PathBuf>,

    /// Copy the roots into the bootstrap. Without it Envoy reads the file.
    #[arg(long, requires = "root_cert", conflicts_with = "sds_dir")]
    inline_root: bool,

    /// The name in the server's certificate.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "istiod.istio-system.svc",
        requires = "root_cert"
    )]
    server_name: String,

    /// File with the bearer token of the proxy's service account. It is read for each stream.
    #[arg(long, value_name = "FILE", requires = "root_cert")]
    token_file: Option<PathBuf>,

    /// PEM file with the proxy's client certificate and those between it and a root.
    #[arg(
        long,
        value_name = "FILE",
        requires = "root_cert",
        requires = "client_key"
    )]
    client_cert: Option<PathBuf>,

    /// PEM file with the key of --client-cert.
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,

    /// Folder for small files that make Envoy read --root-cert, --client-cert and --client-key again when they are replaced,
    /// by a rename in their folder as Kubernetes does it. Without it Envoy reads them when it starts.
    #[arg(long, value_name = "DIR", requires = "root_cert")]
    sds_dir: Option<PathBuf>,
}

impl SecureOptions {
    /// Whether the connection is secured.
    pub(crate) fn is_used(&self) -> bool {
        self.root_cert.is_some()
    }

    /// Whether the proxy proves who it is.
    pub(crate) fn proves_identity(&self) -> bool {
        self.token_file.is_some() || self.client_cert.is_some()
    }

    /// How a gRPC library connects: the credentials of its channel, and those of its calls if there are any. It verifies that
    /// the certificate is for the host that it connects to, and reads all files again when they are replaced.
    ///
    /// # Errors
    ///
    /// When it is asked for what such a library cannot do.
    pub(super) fn credentials(&self) -> anyhow::Result<(Value, Option<Value>)> {
        if self.inline_root {
            bail!("gRPC reads roots from a file: --inline-root is for Envoys");
        }
        if self.sds_dir.is_some() {
            bail!("gRPC reads files again by itself: --sds-dir is for Envoys");
        }
        let Some(root) = &self.root_cert else {
            return Ok((json!({ "type": "insecure" }), None));
        };
        let mut config = json!({ "ca_certificate_file": text(&absolute(root)?)? });
        if let (Some(chain), Some(key)) = (&self.client_cert, &self.client_key) {
            config["certificate_file"] = text(&absolute(chain)?)?.into();
            config["private_key_file"] = text(&absolute(key)?)?.into();
        }
        let token = self.token_file.as_deref().map(|file| {
            let file = text(&absolute(file)?)?;
            let config = json!({ "jwt_token_file": file });
            anyhow::Ok(json!({ "type": "jwt_token_file", "config": config }))
        });
        Ok((
            json!({ "type": "tls", "config": config }),
            token.transpose()?,
        ))
    }

    /// The filters that requests to the server pass, if there are any.
    pub(super) fn filters(&self) -> anyhow::Result<Option<Value>> {
        let Some(file) = &self.token_file else {
            return Ok(None);
        };
        let code = format!(
            "function envoy_on_request(handle)\n\
             \u{20} local file = io.open({}, \"r\")\n\
             \u{20} if file == nil then\n\
             \u{20}   handle:logWarn(\"the token cannot be read\")\n\
             \u{20}   return\n\
             \u{20} end\n\
             \u{20} local token = file:read(\"*a\"):gsub(\"%s+$\", \"\")\n\
             \u{20} file:close()\n\
             \u{20} handle:headers():replace(\"authorization\", \"Bearer \" .. token)\n\
             end\n",
            lua(&text(&absolute(file)?)?)
        );
        Ok(Some(json!([
            {
                "name": "envoy.filters.http.lua",
                "typed_config": {
                    "@type": format!("{TYPES}.filters.http.lua.v3.Lua"),
                    "default_source_code": { "inline_string": code },
                },
            },
            {
                "name": "envoy.filters.http.upstream_codec",
                "typed_config": {
                    "@type": format!("{TYPES}.filters.http.upstream_codec.v3.UpstreamCodec"),
                },
            },
        ])))
    }

    /// TLS to the server, if it is wanted.
    pub(super) fn transport_socket(&self, proxy: &str) -> anyhow::Result<Option<Value>> {
        let Some(root) = &self.root_cert else {
            return Ok(None);
        };
        let is_address = self.server_name.parse::<IpAddr>().is_ok();
        let mut validation = json!({
            "match_typed_subject_alt_names": [{
                "san_type": if is_address { "IP_ADDRESS" } else { "DNS" },
                "matcher": { "exact": self.server_name },
            }],
        });
        let mut common = json!({ "alpn_protocols": ["h2"] });
        if self.sds_dir.is_some() {
            common["combined_validation_context"] = json!({
                "default_validation_context": validation,
                "validation_context_sds_secret_config": self.secret(proxy, ROOT)?,
            });
        } else {
            validation["trusted_ca"] = match self.inline_root {
                true => json!({ "inline_string": read(root)? }),
                false => file(root)?,
            };
            common["validation_context"] = validation;
        }
        match (&self.client_cert, &self.client_key) {
            (Some(_), Some(_)) if self.sds_dir.is_some() => {
                common["tls_certificate_sds_secret_configs"] =
                    json!([self.secret(proxy, CERTIFICATE)?]);
            }
            (Some(chain), Some(key)) => {
                common["tls_certificates"] =
                    json!([{ "certificate_chain": file(chain)?, "private_key": file(key)? }]);
            }
            _ => {}
        }
        let mut context = json!({
            "@type": format!("{TYPES}.transport_sockets.tls.v3.UpstreamTlsContext"),
            "common_tls_context": common,
        });
        if !is_address {
            context["sni"] = self.server_name.clone().into();
        }
        Ok(Some(
            json!({ "name": "envoy.transport_sockets.tls", "typed_config": context }),
        ))
    }

    /// Writes the files by which Envoy follows others.
    ///
    /// # Errors
    ///
    /// When one cannot be written.
    pub(super) fn write_files(&self, proxy: &str) -> anyhow::Result<()> {
        let (Some(dir), Some(root)) = (&self.sds_dir, &self.root_cert) else {
            return Ok(());
        };
        std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let validation = json!({ "trusted_ca": file(root)?, "watched_directory": folder(root)? });
        self.write(proxy, ROOT, "validation_context", &validation)?;
        if let (Some(chain), Some(key)) = (&self.client_cert, &self.client_key) {
            let pair = json!({
                "certificate_chain": file(chain)?,
                "private_key": file(key)?,
                "watched_directory": folder(chain)?,
            });
            self.write(proxy, CERTIFICATE, "tls_certificate", &pair)?;
        }
        Ok(())
    }

    fn write(&self, proxy: &str, name: &str, field: &str, content: &Value) -> anyhow::Result<()> {
        let path = self.path(proxy, name)?;
        let resources = json!({ "resources": [{
            "@type": format!("{TYPES}.transport_sockets.tls.v3.Secret"),
            "name": name,
            field: content,
        }]});
        let text = serde_json::to_string_pretty(&resources)?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    fn secret(&self, proxy: &str, name: &str) -> anyhow::Result<Value> {
        let path = text(&self.path(proxy, name)?)?;
        Ok(json!({
            "name": name,
            "sds_config": { "path_config_source": { "path": path }, "resource_api_version": "V3" },
        }))
    }

    fn path(&self, proxy: &str, name: &str) -> anyhow::Result<PathBuf> {
        let dir = self.sds_dir.as_deref().context("there is no --sds-dir")?;
        Ok(absolute(dir)?.join(format!("{proxy}.{name}.json")))
    }
}

/// A file as Envoy's DataSource.
fn file(path: &Path) -> anyhow::Result<Value> {
    Ok(json!({ "filename": text(&absolute(path)?)? }))
}

/// The folder of a file as Envoy's WatchedDirectory.
fn folder(path: &Path) -> anyhow::Result<Value> {
    let path = absolute(path)?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    Ok(json!({ "path": text(folder)? }))
}

pub(super) fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("{} is no path", path.display()))
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

pub(super) fn text(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str();
    let text = text.with_context(|| format!("{} is not in UTF-8", path.display()))?;
    Ok(text.to_owned())
}

/// A text as a literal of Lua.
fn lua(text: &str) -> String {
    let mut literal = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => literal.extend(['\\', c]),
            c if c.is_ascii_control() => literal.push_str(&format!("\\{:03}", u32::from(c))),
            c => literal.push(c),
        }
    }
    literal.push('"');
    literal
}
