//! The few messages of xDS that are sent and read, encoded by hand.

use bytes::Bytes;

/// Clusters.
pub const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
/// Endpoints.
pub const ENDPOINT: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
/// Listeners.
pub const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
/// Routes.
pub const ROUTE: &str = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
/// Configurations of extensions.
pub const EXTENSION: &str = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig";

fn varint(mut n: u64, out: &mut Vec<u8>) {
    while n >= 128 {
        out.push((n % 128) as u8 | 128);
        n /= 128;
    }
    out.push(n as u8);
}

/// A field of text, bytes or a message.
pub fn field(tag: u32, value: &[u8], out: &mut Vec<u8>) {
    varint(u64::from(tag) << 3 | 2, out);
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// An entry of `google.protobuf.Struct` whose value is encoded.
fn entry(key: &str, value: &[u8], out: &mut Vec<u8>) {
    let mut pair = Vec::with_capacity(key.len() + value.len() + 8);
    field(1, key.as_bytes(), &mut pair);
    field(2, value, &mut pair);
    field(1, &pair, out);
}

/// Who a client says it is.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// `sidecar~IP~NAME.NAMESPACE~DOMAIN`.
    pub id: String,
    /// The service that it belongs to, by its own word.
    pub cluster: String,
    /// Texts of the metadata.
    pub metadata: Vec<(String, String)>,
    /// `LABELS` of the metadata.
    pub labels: Vec<(String, String)>,
}

impl Node {
    /// A proxy as in a cluster: a number, a namespace, and a workload of that name.
    pub fn of(number: usize, namespace: &str, app: &str) -> Self {
        let ip = format!(
            "10.{}.{}.{}",
            128 + (number >> 16),
            number >> 8 & 255,
            number & 255
        );
        let name = format!("{app}-6d8f7c9b5d-{number:05}");
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        Self {
            id: format!("sidecar~{ip}~{name}.{namespace}~{namespace}.svc.cluster.local"),
            cluster: format!("{app}.{namespace}"),
            metadata: vec![
                pair("NAMESPACE", namespace),
                pair("INSTANCE_IPS", &ip),
                pair("CLUSTER_ID", "Kubernetes"),
                pair("ISTIO_VERSION", "1.32.0"),
                pair("WORKLOAD_NAME", app),
                pair("NAME", &name),
            ],
            labels: vec![
                pair("app", app),
                pair("version", "v1"),
                pair("pod-template-hash", "6d8f7c9b5d"),
            ],
        }
    }

    /// Encoded as `envoy.config.core.v3.Node`.
    pub fn encode(&self) -> Vec<u8> {
        let text = |value: &str| {
            let mut out = Vec::new();
            field(3, value.as_bytes(), &mut out);
            out
        };
        let mut metadata = Vec::new();
        for (key, value) in &self.metadata {
            entry(key, &text(value), &mut metadata);
        }
        let mut labels = Vec::new();
        for (key, value) in &self.labels {
            entry(key, &text(value), &mut labels);
        }
        let mut value = Vec::new();
        field(5, &labels, &mut value);
        entry("LABELS", &value, &mut metadata);
        let mut out = Vec::new();
        field(1, self.id.as_bytes(), &mut out);
        field(2, self.cluster.as_bytes(), &mut out);
        field(3, &metadata, &mut out);
        out
    }
}

/// A `DeltaDiscoveryRequest`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// The encoded node; empty for none.
    pub node: &'a [u8],
    /// The type.
    pub ty: &'a str,
    /// Names to add.
    pub subscribe: &'a [String],
    /// The nonce that is answered; empty for none.
    pub nonce: &'a [u8],
    /// Why the response is refused; empty if it is not.
    pub refusal: &'a str,
}

impl Request<'_> {
    /// The gRPC message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.node.is_empty() {
            field(1, self.node, &mut out);
        }
        field(2, self.ty.as_bytes(), &mut out);
        for name in self.subscribe {
            field(3, name.as_bytes(), &mut out);
        }
        if !self.nonce.is_empty() {
            field(6, self.nonce, &mut out);
        }
        if !self.refusal.is_empty() {
            let mut status = vec![1 << 3, 3];
            field(2, self.refusal.as_bytes(), &mut status);
            field(7, &status, &mut out);
        }
        super::wire::message(&out)
    }
}

/// A `DeltaDiscoveryResponse`, as far as it is read.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// The type.
    pub ty: Bytes,
    /// What an answer must say.
    pub nonce: Bytes,
    /// Names and encoded resources.
    pub resources: Vec<(Bytes, Bytes)>,
}

impl Response {
    /// Reads one; `None` for what is none.
    pub fn read(data: Bytes) -> Option<Self> {
        let (mut out, mut whole) = (Self::default(), true);
        each(data, |tag, value| match tag {
            2 => {
                let (mut name, mut body) = (Bytes::new(), Bytes::new());
                let read = each(value, |tag, value| match tag {
                    2 => body = value,
                    3 => name = value,
                    _ => {}
                });
                whole &= read.is_some();
                out.resources.push((name, body));
            }
            4 => out.ty = value,
            5 => out.nonce = value,
            _ => {}
        })?;
        whole.then_some(out)
    }
}

/// Calls back for each field of bytes.
fn each(mut data: Bytes, mut on: impl FnMut(u32, Bytes)) -> Option<()> {
    while !data.is_empty() {
        let key = read_varint(&mut data)?;
        match key & 7 {
            0 => {
                read_varint(&mut data)?;
            }
            1 => drop((data.len() >= 8).then(|| data.split_to(8))?),
            2 => {
                let len = usize::try_from(read_varint(&mut data)?).ok()?;
                let value = (len <= data.len()).then(|| data.split_to(len))?;
                on(u32::try_from(key >> 3).ok()?, value);
            }
            5 => drop((data.len() >= 4).then(|| data.split_to(4))?),
            _ => return None,
        }
    }
    Some(())
}

fn read_varint(data: &mut Bytes) -> Option<u64> {
    let mut out = 0;
    for at in 0..10 {
        let octet = *data.get(at)?;
        out |= u64::from(octet & 127) << (7 * at);
        if octet < 128 {
            let _ = data.split_to(at + 1);
            return Some(out);
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test that cannot go on fails.
mod tests {
    use super::*;

    #[test]
    fn responses_are_read() {
        let mut resource = Vec::new();
        field(3, b"name", &mut resource);
        field(2, b"body", &mut resource);
        let mut wire = Vec::new();
        field(2, &resource, &mut wire);
        field(4, CLUSTER.as_bytes(), &mut wire);
        field(5, b"7", &mut wire);
        let read = Response::read(wire.clone().into()).unwrap();
        assert_eq!(
            (&read.ty[..], &read.nonce[..]),
            (CLUSTER.as_bytes(), &b"7"[..])
        );
        assert_eq!(read.resources, [("name".into(), "body".into())]);
        wire.pop();
        assert!(Response::read(wire.into()).is_none());
    }
}
