//! Who is who in `examples/shop`: the workloads behind its YAML, which this crate starts.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use anyhow::Context;

/// Where requests from outside of the mesh say they want to go.
pub const HOST: &str = "shop.example.com";

/// Namespace of everything.
pub const NAMESPACE: &str = "shop";

/// Name of the gateway's proxy.
pub const GATEWAY: &str = "gateway";

/// Port of every service.
const SERVICE_PORT: u16 = 9080;

/// A workload: an application with a proxy beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workload {
    /// Its service, and its label `app`.
    pub app: &'static str,
    /// Its label `version`.
    pub version: &'static str,
    /// The last byte of its addresses; its application listens on port 19000 plus that.
    pub number: u8,
    /// The services it asks on every request, with the path.
    pub calls: &'static [(&'static str, &'static str)],
}

const RATINGS: &[(&str, &str)] = &[("ratings", "/ratings/7")];

/// All workloads of the shop.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        app: "front",
        version: "v1",
        number: 10,
        calls: &[("details", "/details/7"), ("reviews", "/reviews/7")],
    },
    Workload {
        app: "details",
        version: "v1",
        number: 20,
        calls: &[],
    },
    Workload {
        app: "reviews",
        version: "v1",
        number: 31,
        calls: &[],
    },
    Workload {
        app: "reviews",
        version: "v2",
        number: 32,
        calls: RATINGS,
    },
    Workload {
        app: "reviews",
        version: "v3",
        number: 33,
        calls: RATINGS,
    },
    Workload {
        app: "ratings",
        version: "v1",
        number: 40,
        calls: &[],
    },
];

impl Workload {
    /// `reviews-v2`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.app, self.version)
    }
}

/// The loopback addresses a mesh lives on, `127.BLOCK.0.0/16` and 100 ports of `127.0.0.1` for its applications: meshes
/// with different blocks do not meet. The files of `examples/shop` are written for block 0. Up to 130.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block(pub u8);

impl Block {
    /// A block that nothing listens in; different for every caller in this process.
    pub fn free() -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            // Processes that run side by side have neighbouring ids: keep them far apart.
            let turn = NEXT.fetch_add(1, Ordering::Relaxed);
            let number = std::process::id().wrapping_mul(37).wrapping_add(turn) % 130;
            let block = Self(u8::try_from(number + 1).expect("the remainder is below 130"));
            if TcpListener::bind(block.xds()).is_ok() {
                return block;
            }
        }
    }

    fn ip(self, third: u8, fourth: u8) -> IpAddr {
        Ipv4Addr::new(127, self.0, third, fourth).into()
    }

    /// Address of Pilothouse's xDS port.
    pub fn xds(self) -> SocketAddr {
        (self.ip(0, 1), 15010).into()
    }

    /// Address of Pilothouse's xDS port for TLS.
    pub fn secure_xds(self) -> SocketAddr {
        (self.ip(0, 1), 15012).into()
    }

    /// Where Pilothouse serves the Kubernetes API.
    pub fn api(self) -> SocketAddr {
        (self.ip(0, 1), 6443).into()
    }

    /// Where Pilothouse serves its pages.
    pub fn pages(self) -> SocketAddr {
        (self.ip(0, 1), 15014).into()
    }

    /// Where the gateway takes requests.
    pub fn gateway(self) -> SocketAddr {
        (self.ip(0, 1), 18080).into()
    }

    /// Where the admin page of the gateway's proxy is.
    pub fn gateway_admin(self) -> SocketAddr {
        (self.ip(0, 1), 15000).into()
    }

    /// Where the mesh knows a workload.
    pub fn proxy(self, workload: &Workload) -> SocketAddr {
        (self.ip(20, workload.number), SERVICE_PORT).into()
    }

    /// Where a workload's proxy takes the requests of its application.
    pub fn outbound(self, workload: &Workload) -> SocketAddr {
        (self.ip(21, workload.number), SERVICE_PORT).into()
    }

    /// Where the admin page of a workload's proxy is.
    pub fn admin(self, workload: &Workload) -> SocketAddr {
        (self.ip(20, workload.number), 15000).into()
    }

    /// Where the application of a workload listens.
    pub fn application(self, workload: &Workload) -> SocketAddr {
        let port = 19000 + 100 * u16::from(self.0) + u16::from(workload.number);
        (Ipv4Addr::LOCALHOST, port).into()
    }

    /// A file of the example with its addresses moved into this block.
    pub fn place(self, text: &str) -> String {
        // Istio takes no other address for an application than this one: there, ports differ.
        let (application, kept) = ("127.0.0.1:190", "<application>");
        text.replace(application, kept)
            .replace("127.0.", &format!("127.{}.", self.0))
            .replace(kept, &format!("127.0.0.1:{}", 190 + u16::from(self.0)))
    }

    /// Copies a folder of YAML files with their addresses moved into this block.
    ///
    /// # Errors
    ///
    /// When a file cannot be read or written.
    pub fn copy(self, from: &Path, to: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
        let entries =
            fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
        for entry in entries {
            let entry = entry?;
            if entry.path().extension().is_some_and(|e| e == "yaml") {
                let text = fs::read_to_string(entry.path())?;
                fs::write(to.join(entry.file_name()), self.place(&text))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_move_with_the_block() {
        let block = Block(7);
        assert_eq!(
            block.place("a 127.0.20.31, 127.0.0.1:19010"),
            "a 127.7.20.31, 127.0.0.1:19710"
        );
        assert_eq!(block.proxy(&WORKLOADS[2]).to_string(), "127.7.20.31:9080");
        assert_eq!(
            block.application(&WORKLOADS[0]).to_string(),
            "127.0.0.1:19710"
        );
    }

    #[test]
    fn two_meshes_get_two_blocks() {
        assert_ne!(Block::free(), Block::free());
    }
}
