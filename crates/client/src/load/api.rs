//! Changes made through the Kubernetes API of the server under load, as `kubectl apply --server-side` makes them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Where the API is served, over plain HTTP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Api(pub(super) SocketAddr);

/// Objects that are applied, as their address names them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Applied {
    /// The group and its version.
    group: &'static str,
    plural: &'static str,
}

impl Applied {
    pub(super) const SERVICE_ENTRIES: Self = Self::of("networking.istio.io/v1", "serviceentries");
    pub(super) const VIRTUAL_SERVICES: Self = Self::of("networking.istio.io/v1", "virtualservices");
    pub(super) const INGRESSES: Self = Self::of("networking.k8s.io/v1", "ingresses");
    pub(super) const HTTP_ROUTES: Self = Self::of("gateway.networking.k8s.io/v1", "httproutes");

    const fn of(group: &'static str, plural: &'static str) -> Self {
        Self { group, plural }
    }
}

impl Api {
    /// Applies an object that is written as YAML.
    pub(super) fn apply(
        &self,
        namespace: &str,
        of: Applied,
        name: &str,
        yaml: &str,
    ) -> io::Result<()> {
        let query = "?fieldManager=load&force=true";
        self.send("PATCH", namespace, of, &format!("{name}{query}"), yaml)
    }

    /// Deletes an object.
    pub(super) fn delete(&self, namespace: &str, of: Applied, name: &str) -> io::Result<()> {
        self.send("DELETE", namespace, of, name, "")
    }

    /// Every object of a kind and every change of one from here on, each a line of JSON, until the server ends.
    pub(super) fn watch(&self, of: Applied) -> io::Result<impl BufRead + use<>> {
        let mut socket = TcpStream::connect(self.0)?;
        let Applied { group, plural } = of;
        // Without version 1.1 nothing is cut into chunks.
        write!(
            socket,
            "GET /apis/{group}/{plural}?watch=true HTTP/1.0\r\nHost: localhost\r\n\r\n"
        )?;
        Ok(BufReader::new(socket))
    }

    fn send(
        &self,
        method: &str,
        namespace: &str,
        of: Applied,
        name: &str,
        body: &str,
    ) -> io::Result<()> {
        let Applied { group, plural } = of;
        let mut socket = TcpStream::connect(self.0)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        let request = format!(
            "{method} /apis/{group}/namespaces/{namespace}/{plural}/{name} HTTP/1.1\r\nHost: localhost\r\n\
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
