//! Where the servers of a Nacos are: as told, or as an address server says.
// Higress: registry/nacos/address/address_discovery.go, 2.1. Unlike there, an address may have a port.

use http::{HeaderName, Uri};

use super::credentials::escaped;
use crate::address::Address;
use crate::http::{Ask, ask_once};

/// The port of a server that says none.
pub const PORT: u16 = 8848;
/// The largest list of servers.
const LARGEST: usize = 64 << 10;
/// More servers than this are not tried.
const MOST: usize = 64;

/// Asks an address server for the servers of a namespace.
pub(super) async fn ask(
    address_server: &str,
    namespace: &str,
    port: u16,
) -> Result<Vec<Address>, String> {
    let wrong = || format!("{address_server:?} is no http URL of an address server");
    let url = match address_server.contains("://") {
        true => address_server.to_owned(),
        false => format!("http://{address_server}"),
    };
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let host = uri.host().filter(|_| uri.scheme_str() == Some("http"));
    let authority = format!(
        "{}:{}",
        host.ok_or_else(wrong)?,
        uri.port_u16().unwrap_or(80)
    );
    let below = uri.path().trim_end_matches('/');
    let target = format!("{below}/nacos/serverlist?namespace={}", escaped(namespace));
    let ask = Ask {
        target: &target,
        form: None,
        headers: &[(HeaderName::from_static("request-module"), "Naming")],
    };
    let (status, body) = ask_once(&authority, ask, LARGEST)
        .await
        .map_err(|e| e.to_string())?;
    if !status.is_success() {
        return Err(format!("the address server answers {}", status.as_u16()));
    }
    let servers = list(&String::from_utf8_lossy(&body), port);
    servers.ok_or_else(|| "the address server names no servers".to_owned())
}

/// The servers of a list, one a line. None where something of it is no address.
fn list(text: &str, port: u16) -> Option<Vec<Address>> {
    let servers: Option<Vec<Address>> = text
        .split_whitespace()
        .map(|line| Address::parse(line, port).filter(Address::is_ip))
        .take(MOST)
        .collect();
    servers.filter(|s| !s.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_of_addresses_alone() {
        let read =
            |text| list(text, 1).map(|l| l.iter().map(Address::authority).collect::<Vec<_>>());
        assert_eq!(
            read("1.1.1.1\n 2.2.2.2:3\n").unwrap(),
            ["1.1.1.1:1", "2.2.2.2:3"]
        );
        for text in ["", "\n", "1.1.1.1\nbad", "<html>"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    /// Higress's own cases: `TestGetNacosAddress` of its registry table. What the servers there answer was not recorded; it is
    /// what the name of a case says.
    #[tokio::test]
    async fn an_address_server_is_asked_as_higress_asks() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        for (answer, wanted) in [
            (
                "200 OK\r\ncontent-length: 15\r\n\r\n1.1.1.1\n2.2.2.2",
                vec!["1.1.1.1:8848", "2.2.2.2:8848"],
            ),
            ("200 OK\r\ncontent-length: 3\r\n\r\nbad", vec![]),
            ("404 Not Found\r\ncontent-length: 7\r\n\r\n1.1.1.1", vec![]),
            ("200 OK\r\ncontent-length: 99999999\r\n\r\n1.1.1.1", vec![]),
        ] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let serve = async {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut head = vec![0; 4096];
                let n = socket.read(&mut head).await.unwrap();
                let head = String::from_utf8_lossy(&head[..n]).to_lowercase();
                assert!(
                    head.starts_with("get /nacos/serverlist?namespace=n%2fs http"),
                    "{head}"
                );
                assert!(head.contains("request-module: naming"), "{head}");
                let answer = format!("HTTP/1.1 {answer}");
                socket.write_all(answer.as_bytes()).await.unwrap();
            };
            let (got, ()) = tokio::join!(ask(&address, "n/s", PORT), serve);
            let got: Vec<String> = got
                .unwrap_or_default()
                .iter()
                .map(Address::authority)
                .collect();
            assert_eq!(got, wanted);
        }
    }
}
