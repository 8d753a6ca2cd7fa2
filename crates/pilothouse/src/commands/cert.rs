//! `pilothouse cert`: the certificates that a proxy or a service account gets, and who issued them.

use std::io::Write;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use ca::Certificate;
use clap::{Args, ValueEnum};
use model::civil::timestamp;
use serde_json::{Value, json};

use super::flags::ServerFlag;
use super::proxy_config::debug_page;
use super::text::entry;

/// Flags of `pilothouse cert`.
#[derive(Args, Debug)]
pub(crate) struct CertOptions {
    /// A connected proxy (NAME.NAMESPACE or NAME), or a service account (NAMESPACE/ACCOUNT). Default: every service account
    /// that has a certificate.
    #[arg(value_name = "PROXY|NAMESPACE/ACCOUNT")]
    of: Option<String>,

    /// Namespace of the proxy, if its name has none.
    #[arg(long, short = 'n', value_name = "NAMESPACE", default_value = "default")]
    namespace: String,

    /// The server that is asked.
    #[command(flatten)]
    server: ServerFlag,

    /// How to print.
    #[arg(long, short = 'o', value_enum, default_value = "table")]
    output: Format,
}

/// How certificates are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Format {
    Table,
    Json,
}

/// Certificates that belong together, under the name of their secret or identity.
struct Group {
    name: String,
    /// The proxies that have them, where that is known.
    proxies: Vec<String>,
    /// The leaf, and what leads from it to a root; or roots.
    certificates: Vec<Certificate>,
    are_roots: bool,
}

/// Prints the certificates.
///
/// # Errors
///
/// When the server does not answer, or knows nobody of that name.
pub(crate) async fn run(options: &CertOptions, out: &mut dyn Write) -> anyhow::Result<()> {
    let (head, groups) = match options.of.as_deref() {
        Some(proxy) if !proxy.contains('/') => {
            let name = match proxy.contains(['.', '~']) {
                true => proxy.to_owned(),
                false => format!("{proxy}.{}", options.namespace),
            };
            let path = format!("/debug/certz?proxyID={name}");
            let page = debug_page(&options.server.http_addr, &path).await?;
            of_proxy(&page)?
        }
        of => {
            let page = debug_page(&options.server.http_addr, "/debug/certz").await?;
            (None, of_accounts(&page, of)?)
        }
    };
    match options.output {
        Format::Json => {
            let list: Vec<Value> = groups.iter().map(Group::json).collect();
            writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
        }
        Format::Table => table(out, head.as_deref(), &groups, SystemTime::now())?,
    }
    Ok(())
}

/// What a proxy gets, and a sentence on where its own certificate comes from.
fn of_proxy(page: &Value) -> anyhow::Result<(Option<String>, Vec<Group>)> {
    let proxy = page["proxy"].as_str().unwrap_or_default();
    let head = match (page["source"].as_str(), page["identity"].as_str()) {
        (Some("ads"), Some(identity)) => format!("{proxy} is {identity}."),
        (Some("agent"), _) => {
            format!("{proxy} has an agent, which asks for its certificate and keeps it.")
        }
        (Some(_), _) => format!("{proxy} has no certificate of its own."),
        (None, _) => format!("{proxy} waits until the configuration has been read."),
    };
    let secrets = page["secrets"].as_array().into_iter().flatten();
    let groups = secrets.map(|secret| {
        let name = secret["name"].as_str().unwrap_or_default();
        let roots = secret["roots"].as_str();
        Group::read(name, secret["chain"].as_str().or(roots), roots.is_some())
    });
    Ok((Some(head), groups.collect::<Result<_, _>>()?))
}

/// What service accounts have: one, or all of them.
fn of_accounts(page: &Value, of: Option<&str>) -> anyhow::Result<Vec<Group>> {
    let path = match of {
        Some(of) => {
            let (namespace, account) = of.split_once('/').context("NAMESPACE/ACCOUNT")?;
            Some(format!("/ns/{namespace}/sa/{account}"))
        }
        None => None,
    };
    let mut groups = Vec::new();
    for made in page["certificates"].as_array().into_iter().flatten() {
        let identity = made["identity"].as_str().unwrap_or_default();
        if path.as_ref().is_none_or(|path| identity.ends_with(path)) {
            let mut group = Group::read(identity, made["chain"].as_str(), false)?;
            let names = made["names"].as_array().into_iter().flatten();
            group.proxies = names.filter_map(|n| Some(n.as_str()?.to_owned())).collect();
            groups.push(group);
        }
    }
    if let (Some(of), true) = (of, groups.is_empty()) {
        bail!("no proxy of {of} gets its certificate from the server");
    }
    if let Some(roots) = page["roots"].as_str() {
        groups.push(Group::read("ROOTCA", Some(roots), true)?);
    }
    Ok(groups)
}

impl Group {
    fn read(name: &str, pem: Option<&str>, are_roots: bool) -> anyhow::Result<Self> {
        let certificates = Certificate::from_pem(pem.unwrap_or_default().as_bytes());
        Ok(Self {
            name: name.to_owned(),
            proxies: Vec::new(),
            certificates: certificates.with_context(|| format!("{name} cannot be read"))?,
            are_roots,
        })
    }

    fn json(&self) -> Value {
        let certificates = self.certificates.iter().map(|c| {
            json!({
                "names": c.names(),
                "subject": c.subject(),
                "issuer": c.issuer(),
                "serial": c.serial(),
                "fingerprint": c.fingerprint(),
                "notBefore": time(c.not_before()),
                "notAfter": time(c.not_after()),
                "pem": c.pem(),
            })
        });
        let certificates: Vec<Value> = certificates.collect();
        let field = if self.are_roots { "roots" } else { "chain" };
        json!({ "name": self.name, "proxies": self.proxies, field: certificates })
    }
}

fn table(
    out: &mut dyn Write,
    head: Option<&str>,
    groups: &[Group],
    now: SystemTime,
) -> std::io::Result<()> {
    if let Some(head) = head {
        writeln!(out, "{head}")?;
    }
    if groups.is_empty() {
        return writeln!(out, "The server has no certificates for it.");
    }
    for group in groups {
        writeln!(out, "\n{}", group.name)?;
        for (at, certificate) in group.certificates.iter().enumerate() {
            let label = match (group.are_roots, at) {
                (true, _) => "  root",
                (false, 0) => "  certificate",
                (false, _) => "  signed by",
            };
            let names = certificate.names();
            let name = names.first().cloned();
            let mut details: Vec<String> = names.into_iter().skip(1).collect();
            details.push(validity(certificate, now));
            details.push(format!("issued by {}", certificate.issuer()));
            details.push(format!("serial {}", certificate.serial()));
            let name = name.unwrap_or_else(|| certificate.subject());
            entry(out, label, &name, &details)?;
        }
        if !group.proxies.is_empty() {
            entry(out, "  proxies", &group.proxies.join(", "), &[])?;
        }
    }
    Ok(())
}

/// From when to when a certificate is valid, and how long still.
fn validity(certificate: &Certificate, now: SystemTime) -> String {
    let (from, until) = (certificate.not_before(), certificate.not_after());
    let left = match (now.duration_since(from), until.duration_since(now)) {
        (Err(_), _) => "not valid yet".to_owned(),
        (_, Ok(left)) => format!("expires in {}", rough(left)),
        (_, Err(past)) => format!("expired {} ago", rough(past.duration())),
    };
    format!("{left}: valid {} to {}", time(from), time(until))
}

/// A time in its two largest units.
fn rough(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

fn time(at: SystemTime) -> String {
    let since = at.duration_since(SystemTime::UNIX_EPOCH);
    timestamp(since.map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EC: &str = include_str!("../../../model/src/x509/keys/ec.crt");

    fn page() -> Value {
        json!({
            "certificates": [
                {"identity": "spiffe://t/ns/shop/sa/cart", "chain": EC, "proxies": 1, "names": ["cart-0.shop"]},
                {"identity": "spiffe://t/ns/shop/sa/other", "chain": EC, "proxies": 0, "names": []},
            ],
            "roots": EC,
        })
    }

    #[test]
    fn a_service_account_has_its_certificate_and_the_roots() {
        let groups = of_accounts(&page(), Some("shop/cart")).unwrap();
        let names: Vec<&str> = groups.iter().map(|g| &*g.name).collect();
        assert_eq!(names, ["spiffe://t/ns/shop/sa/cart", "ROOTCA"]);
        assert_eq!(of_accounts(&page(), None).unwrap().len(), 3);
        assert!(of_accounts(&page(), Some("shop/nobody")).is_err());
        let json = groups[0].json();
        assert_eq!(json["chain"][0]["notAfter"], "2046-11-18T04:47:37Z");
        assert_eq!(json["proxies"][0], "cart-0.shop");

        let mut out = Vec::new();
        let now = groups[0].certificates[0].not_after() - Duration::from_secs(90);
        table(&mut out, None, &groups, now).unwrap();
        let out = String::from_utf8(out).unwrap();
        for words in [
            "expires in 1 min 30 s",
            "ec.example.com",
            "  root",
            "cart-0.shop",
        ] {
            assert!(out.contains(words), "{words}: {out}");
        }
        assert!(out.lines().all(|line| line.len() <= 80), "{out}");
    }

    #[test]
    fn where_a_proxy_has_its_certificate_from_is_said() {
        let head = |source: Value, identity: Value| {
            let page = json!({"proxy": "a.b", "source": source, "identity": identity});
            of_proxy(&page).unwrap().0.unwrap()
        };
        assert_eq!(
            head("ads".into(), "spiffe://x".into()),
            "a.b is spiffe://x."
        );
        assert!(head("agent".into(), Value::Null).contains("agent"));
        assert!(head("none".into(), Value::Null).contains("no certificate"));
    }
}
