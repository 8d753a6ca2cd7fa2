//! Changes made through the Kubernetes API of the server under load, as `kubectl apply --server-side` makes them.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Where the API is served, over plain HTTP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Api(pub(super) SocketAddr);

impl Api {
    /// Applies an object of Istio's networking group, written as YAML.
    pub(super) fn apply(
        &self,
        namespace: &str,
        plural: &str,
        name: &str,
        yaml: &str,
    ) -> io::Result<()> {
        let query = "?fieldManager=load&force=true";
        self.send("PATCH", namespace, plural, &format!("{name}{query}"), yaml)
    }

    /// Deletes an object of Istio's networking group.
    pub(super) fn delete(&self, namespace: &str, plural: &str, name: &str) -> io::Result<()> {
        self.send("DELETE", namespace, plural, name, "")
    }

    fn send(
        &self,
        method: &str,
        namespace: &str,
        plural: &str,
        name: &str,
        body: &str,
    ) -> io::Result<()> {
        let mut socket = TcpStream::connect(self.0)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        let request = format!(
            "{method} /apis/networking.istio.io/v1/namespaces/{namespace}/{plural}/{name} HTTP/1.1\r\nHost: localhost\r\n\
             Connection: close\r\nContent-Type: application/apply-patch+yaml\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(request.as_bytes())?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        match answer.starts_with("HTTP/1.1 20") {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "{method} {plural}/{name}: {answer}"
            ))),
        }
    }
}
