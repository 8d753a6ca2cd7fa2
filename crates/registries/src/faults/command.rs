//! How real registries are started.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::server::{Kind, tls_port};
use crate::backends::{CERTIFICATE, certificate};

fn cache() -> PathBuf {
    let given = std::env::var_os("BACKENDS_CACHE").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var("HOME").unwrap()).join(".cache/mesh-test-backends");
    given.unwrap_or_else(home)
}

fn java(name: &str, own: &[&str]) -> Command {
    let home = cache().join(name);
    let jars = std::fs::read_to_string(home.join("classpath")).expect("it is installed");
    let classes = format!("{}:{}", home.join("classes").display(), jars.trim());
    let mut command = Command::new("java");
    command.args([
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        "-Xmx384m",
    ]);
    command.args(own).arg("-cp").arg(classes);
    command
}

/// What starts a server in a folder. `root` is the token that may do everything.
pub(super) fn command(kind: Kind, home: &Path, port: u16, root: &str) -> Command {
    match kind {
        Kind::Consul => consul(home, port, root),
        Kind::ConsulTls => {
            let mut command = consul(home, port, root);
            serves_tls(&mut command, home, port);
            command
        }
        Kind::ZooKeeper => {
            let settings = format!(
                "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\ntickTime=500\nmaxClientCnxns=0\n",
                home.display()
            );
            std::fs::write(home.join("zoo.cfg"), settings).unwrap();
            let mut command = java("zookeeper", &["-Dzookeeper.forceSync=no"]);
            command
                .arg("org.apache.zookeeper.server.ZooKeeperServerMain")
                .arg(home.join("zoo.cfg"));
            command
        }
        Kind::Nacos => {
            let own = format!("-Dnacos.home={}", home.display());
            let more = [
                "-Dnacos.standalone=true",
                "-Dnacos.server.ip=127.0.0.1",
                "-Dnacos.core.auth.enabled=false",
                "-Dnacos.core.auth.system.type=nacostest",
                "-Dnacostest.auth=",
                "-Dnacos.core.auth.server.identity.key=nacostest",
                "-Dnacos.core.auth.server.identity.value=nacostest",
                &own,
            ];
            let mut command = java("nacos", &more);
            command
                .arg("nacostest.NacosTest")
                .arg(format!("--server.port={port}"));
            command.args([
                "--server.address=127.0.0.1",
                "--server.servlet.contextPath=/nacos",
            ]);
            command
        }
        Kind::Eureka | Kind::StandIn => {
            let mut command = java("eureka", &[]);
            command
                .arg("eurekatest.EurekaTest")
                .arg(format!("--server.port={port}"));
            command.args([
                "--server.address=127.0.0.1",
                "--eureka.client.register-with-eureka=false",
                "--eureka.client.fetch-registry=false",
                "--eureka.server.enable-self-preservation=false",
                "--eureka.server.wait-time-in-ms-when-sync-empty=0",
                // Its cache says of changes what is older than what it says of all.
                "--eureka.server.use-read-only-response-cache=false",
            ]);
            command
        }
    }
}

fn consul(home: &Path, port: u16, root: &str) -> Command {
    let acl = format!(
        r#"performance {{ raft_multiplier = 1 }} acl {{ enabled = true default_policy = "deny" tokens {{ initial_management = "{root}" agent = "{root}" }} }}"#
    );
    let mut command = Command::new(cache().join("consultest"));
    command.args([
        "-server",
        "-bootstrap-expect=1",
        "-bind=127.0.0.1",
        "-client=127.0.0.1",
    ]);
    command.args([
        "-log-level=warn",
        "-disable-host-node-id",
        "-grpc-port=-1",
        "-grpc-tls-port=-1",
        "-dns-port=-1",
    ]);
    command.arg("-data-dir").arg(home).arg("-hcl").arg(acl);
    for (n, name) in ["http", "server", "serf-lan", "serf-wan"]
        .iter()
        .enumerate()
    {
        command.arg(format!("-{name}-port={}", port + n as u16));
    }
    command
}

/// Lets a Consul speak TLS too, with a certificate that this process trusts if it has not read its roots yet.
fn serves_tls(command: &mut Command, home: &Path, port: u16) {
    // Beside what may be wiped.
    let folder = home.parent().unwrap();
    let [cert, key] = if folder.join(CERTIFICATE[0]).exists() {
        CERTIFICATE.map(|name| folder.join(name))
    } else {
        let made = certificate(folder);
        let roots = std::env::var_os("SSL_CERT_FILE").expect("$SSL_CERT_FILE is ours to write");
        let mut roots = OpenOptions::new()
            .create(true)
            .append(true)
            .open(roots)
            .unwrap();
        roots.write_all(&std::fs::read(&made[0]).unwrap()).unwrap();
        made
    };
    let [cert, key] = [cert.display(), key.display()];
    command.arg(format!("-https-port={}", tls_port(port)));
    command.arg("-hcl").arg(format!(
        r#"tls {{ defaults {{ cert_file = "{cert}" key_file = "{key}" }} }}"#
    ));
}
