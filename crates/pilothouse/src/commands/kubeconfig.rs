//! `pilothouse kubeconfig`: how kubectl finds the Kubernetes API.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};

/// `pilothouse kubeconfig`.
#[derive(Args)]
pub(crate) struct KubeconfigOptions {
    /// Address of the API. Default: where the server of the data folder serves it, else 127.0.0.1:6443.
    #[arg(long, env = "PILOTHOUSE_API_ADDR", value_name = "HOST:PORT")]
    api_addr: Option<String>,
    /// Data folder of the server, from which the CA and the admin token are taken. Required unless the server runs with
    /// --insecure-local, which is detected.
    #[arg(long, env = "PILOTHOUSE_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// Assume that the server runs with --insecure-local, instead of asking it.
    #[arg(long)]
    insecure_local: bool,
    /// The token of another user instead of the admin token.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Where the API is served unless flags say otherwise.
const DEFAULT: &str = "127.0.0.1:6443";

/// How long a server that was started a moment ago may take to make its certificates.
const START: Duration = Duration::from_secs(10);

/// How long the server may take to answer the question whether it speaks TLS.
const ANSWER: Duration = Duration::from_secs(3);

/// Prints a kubeconfig.
pub(crate) fn run(options: &KubeconfigOptions, out: &mut impl Write) -> anyhow::Result<()> {
    let stated = options.api_addr.as_deref();
    let address = stated.unwrap_or(DEFAULT);
    let (cluster, user) = match &options.data {
        Some(data) if !options.insecure_local => secured(options, data)?,
        _ => {
            if !options.insecure_local && !speaks_plain_http(address)? {
                bail!(
                    "the server at {address} speaks TLS: name its data folder, as in --data ./data"
                );
            }
            (json!({"server": format!("http://{address}")}), json!({}))
        }
    };
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "pilothouse",
        "clusters": [{"name": "pilothouse", "cluster": cluster}],
        "users": [{"name": "pilothouse", "user": user}],
        "contexts": [{"name": "pilothouse", "context": {"cluster": "pilothouse", "user": "pilothouse", "namespace": "default"}}],
    });
    writeln!(out, "{}", serde_json::to_string_pretty(&config)?)?;
    Ok(())
}

/// Cluster and user for a server with certificates in its data folder.
fn secured(options: &KubeconfigOptions, data: &Path) -> anyhow::Result<(Value, Value)> {
    let files = apiserver::pki::Files::of(data);
    let token = options
        .token_file
        .clone()
        .unwrap_or_else(|| files.admin_token());
    let deadline = Instant::now() + START;
    // In a script, `serve &` stands on the line before.
    while !(files.ca().exists() && token.exists()) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let ca = std::fs::canonicalize(files.ca()).with_context(|| {
        format!(
            "{} is not there: `pilothouse serve --data {}` makes it when it starts",
            files.ca().display(),
            data.display()
        )
    })?;
    let token = std::fs::read_to_string(&token).with_context(|| token.display().to_string())?;
    let address = match &options.api_addr {
        Some(stated) => stated.clone(),
        None => kept(&files).unwrap_or_else(|| DEFAULT.to_owned()),
    };
    let server = format!("https://{address}");
    Ok((
        json!({"server": server, "certificate-authority": ca}),
        json!({"token": token.trim()}),
    ))
}

/// Where the server of a data folder serves the API, as this machine reaches it.
fn kept(files: &apiserver::pki::Files) -> Option<String> {
    let text = std::fs::read_to_string(files.address()).ok()?;
    let mut address: SocketAddr = text.trim().parse().ok()?;
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    Some(address.to_string())
}

/// Whether the server answers HTTP without TLS. It does so on loopback only (--insecure-local).
fn speaks_plain_http(address: &str) -> anyhow::Result<bool> {
    let found = address
        .to_socket_addrs()
        .with_context(|| format!("{address} is not an address (--api-addr)"))?;
    let mut failure = None;
    for socket in found {
        if !socket.ip().to_canonical().is_loopback() {
            return Ok(false);
        }
        match asked(socket) {
            Ok(plain) => return Ok(plain),
            Err(error) => failure = Some(error),
        }
    }
    let error = failure.unwrap_or_else(|| ErrorKind::NotFound.into());
    Err(error).with_context(|| {
        format!(
            "no server answers at {address}: start it with `pilothouse serve --data DIR`, and name the folder here too"
        )
    })
}

fn asked(socket: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&socket, ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    // At once: a server that answers and closes after the first part of it would reset what follows.
    let request = format!("GET /version HTTP/1.1\r\nHost: {socket}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut begin = [0; 5];
    match stream.read_exact(&mut begin) {
        Ok(()) => Ok(begin == *b"HTTP/"),
        // One that waits for a TLS client may answer with an alert, or close.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A server that answers one connection with these bytes.
    fn server(answer: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).unwrap();
            assert!(request[..read].starts_with(b"GET /version "));
            stream.write_all(answer).unwrap();
        });
        address
    }

    fn printed(address: &str, data: Option<&Path>) -> anyhow::Result<Value> {
        let options = KubeconfigOptions {
            api_addr: (!address.is_empty()).then(|| address.to_owned()),
            data: data.map(Path::to_owned),
            insecure_local: false,
            token_file: None,
        };
        let mut out = Vec::new();
        run(&options, &mut out)?;
        Ok(serde_json::from_slice(&out)?)
    }

    #[test]
    fn without_a_data_folder_the_server_says_whether_one_is_needed() {
        let plain = server(b"HTTP/1.1 200 OK\r\n\r\n{}");
        let config = printed(&plain, None).unwrap();
        assert_eq!(
            config["clusters"][0]["cluster"]["server"],
            format!("http://{plain}")
        );
        // An alert of TLS, and a server that closes.
        for answer in [&b"\x15\x03\x03\0\x02\x02\x50"[..], b""] {
            let error = printed(&server(answer), None).unwrap_err();
            assert!(error.to_string().contains("speaks TLS"), "{error:#}");
        }
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = nobody.local_addr().unwrap().to_string();
        drop(nobody);
        let error = printed(&address, None).unwrap_err();
        assert!(error.to_string().contains("no server answers"), "{error:#}");
    }

    #[test]
    fn certificates_of_a_server_that_is_starting_are_waited_for() {
        let data = tempfile::tempdir().unwrap();
        let files = apiserver::pki::Files::of(data.path());
        let (ca, token) = (files.ca(), files.admin_token());
        let starting = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            std::fs::create_dir_all(ca.parent().unwrap()).unwrap();
            std::fs::write(ca, "certificate").unwrap();
            std::thread::sleep(Duration::from_millis(100));
            std::fs::write(token, "secret\n").unwrap();
        });
        let config = printed("127.0.0.1:1", Some(data.path())).unwrap();
        assert_eq!(config["users"][0]["user"]["token"], "secret");
        starting.join().unwrap();

        let server = |address: &str| {
            let config = printed(address, Some(data.path())).unwrap();
            config["clusters"][0]["cluster"]["server"].clone()
        };
        assert_eq!(server(""), "https://127.0.0.1:6443");
        files.keep_address("0.0.0.0:7443".parse().unwrap()).unwrap();
        assert_eq!(server(""), "https://127.0.0.1:7443");
        assert_eq!(server("127.0.0.1:1"), "https://127.0.0.1:1");
    }
}
