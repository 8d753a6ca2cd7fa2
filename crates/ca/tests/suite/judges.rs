//! Programs and libraries that judge certificates: openssl, Go, and rustls.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;

/// Runs a program; `None`, and loudly, where there is none.
pub(crate) fn run(command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => {
            let program = command.get_program().to_string_lossy().into_owned();
            eprintln!("SKIPPED: {program} cannot be run, so nothing was judged by it: {error}");
            None
        }
    }
}

pub(crate) fn text(output: &Output) -> String {
    let both = [&output.stdout, &output.stderr].map(|part| String::from_utf8_lossy(part));
    both.concat()
}

/// What is judged.
pub(crate) struct Case<'a> {
    pub(crate) chain: &'a [String],
    pub(crate) roots: &'a str,
    pub(crate) name: &'a str,
    pub(crate) at: SystemTime,
}

impl Case<'_> {
    fn seconds(&self) -> u64 {
        let since = self.at.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        since.as_secs()
    }

    fn write(&self, dir: &Path) {
        fs::write(dir.join("leaf.pem"), &self.chain[0]).unwrap();
        fs::write(dir.join("chain.pem"), self.chain[1..].concat()).unwrap();
        fs::write(dir.join("roots.pem"), self.roots).unwrap();
    }

    /// Whether openssl takes it as a server's and as a client's, and what it prints of the leaf.
    pub(crate) fn openssl(&self, dir: &Path) -> Option<(bool, String)> {
        self.write(dir);
        let judge = |purpose: &str| {
            let mut command = Command::new("openssl");
            command.current_dir(dir).args(["verify", "-x509_strict"]);
            command.args(["-purpose", purpose, "-attime", &self.seconds().to_string()]);
            command.args(["-CAfile", "roots.pem", "-no-CApath", "-no-CAstore"]);
            if self.chain.len() > 1 {
                command.args(["-untrusted", "chain.pem"]);
            }
            run(command.arg("leaf.pem"))
        };
        let taken = judge("sslserver")?.status.success() && judge("sslclient")?.status.success();
        let mut show = Command::new("openssl");
        show.current_dir(dir)
            .args(["x509", "-noout", "-text", "-in", "leaf.pem"]);
        Some((taken, text(&run(&mut show)?)))
    }

    /// Whether rustls takes it as a client's.
    pub(crate) fn rustls(&self) -> bool {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(self.roots.as_bytes()) {
            roots.add(root.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .unwrap();
        let chain: Vec<_> = self
            .chain
            .iter()
            .map(|pem| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
            .collect();
        let at = UnixTime::since_unix_epoch(Duration::from_secs(self.seconds()));
        verifier
            .verify_client_cert(&chain[0], &chain[1..], at)
            .is_ok()
    }
}

/// A program that judges a folder of cases with Go's crypto/x509, one line for each.
const GO: &str = r#"package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func judge(dir string) error {
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			panic(err)
		}
		return data
	}
	block, _ := pem.Decode(read("leaf.pem"))
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	roots, chain := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(read("roots.pem"))
	chain.AppendCertsFromPEM(read("chain.pem"))
	parts := strings.Fields(string(read("expected")))
	seconds, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return err
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		options := x509.VerifyOptions{
			Roots:         roots,
			Intermediates: chain,
			CurrentTime:   time.Unix(seconds, 0),
			KeyUsages:     []x509.ExtKeyUsage{usage},
		}
		if _, err := leaf.Verify(options); err != nil {
			return err
		}
	}
	if leaf.IsCA || leaf.KeyUsage != x509.KeyUsageDigitalSignature|x509.KeyUsageKeyEncipherment {
		return fmt.Errorf("usage %v, CA %v", leaf.KeyUsage, leaf.IsCA)
	}
	names := append([]string{}, leaf.DNSNames...)
	for _, uri := range leaf.URIs {
		names = append(names, uri.String())
	}
	if len(names) != 1 || names[0] != parts[0] {
		return fmt.Errorf("names %v, not %v", names, parts[0])
	}
	return nil
}

func main() {
	for _, dir := range os.Args[1:] {
		if err := judge(dir); err != nil {
			fmt.Printf("%s refused: %v\n", filepath.Base(dir), err)
		} else {
			fmt.Printf("%s taken\n", filepath.Base(dir))
		}
	}
}
"#;

/// What Go says of each case, in their order.
pub(crate) fn go(cases: &[Case<'_>]) -> Option<Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("main.go"), GO).unwrap();
    let mut command = Command::new("go");
    command
        .current_dir(dir.path())
        .env("GO111MODULE", "off")
        .env("GOTOOLCHAIN", "local")
        .args(["run", "main.go"]);
    for (index, case) in cases.iter().enumerate() {
        let name = format!("case{index:02}");
        let folder = dir.path().join(&name);
        fs::create_dir(&folder).unwrap();
        case.write(&folder);
        let expected = format!("{} {}", case.name, case.seconds());
        fs::write(folder.join("expected"), expected).unwrap();
        command.arg(folder);
    }
    let output = run(&mut command)?;
    assert!(output.status.success(), "{}", text(&output));
    let lines = String::from_utf8(output.stdout).unwrap();
    Some(lines.lines().map(str::to_owned).collect())
}
