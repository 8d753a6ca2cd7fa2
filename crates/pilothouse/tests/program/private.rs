//! What holds secrets is its owner's alone, whatever the umask.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{PORTS, Server, until};

/// The program, under a umask that takes nothing away.
fn program(umask: &str, args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(format!("umask {umask}; exec \"$0\" \"$@\""))
        .arg(env!("CARGO_BIN_EXE_pilothouse"))
        .args(args)
        .stdin(Stdio::null());
    command
}

fn serve(umask: &str, data: &Path, more: &[&str]) -> Server {
    let data = ["serve", "--data", data.to_str().unwrap()];
    let api = ["--api-addr", "127.0.0.1:0"];
    let args = [&data[..], &PORTS, &api, more].concat();
    Server::run(program(umask, &args))
}

/// Every file and folder below, with its mode.
fn modes(at: &Path, found: &mut Vec<(String, bool, u32)>) {
    let metadata = fs::symlink_metadata(at).unwrap();
    let mode = metadata.permissions().mode() & 0o7777;
    found.push((at.display().to_string(), metadata.is_dir(), mode));
    if metadata.is_dir() {
        for entry in fs::read_dir(at).unwrap() {
            modes(&entry.unwrap().path(), found);
        }
    }
}

/// Waits until the server of a data folder can be asked.
fn wait_for(data: &Path) {
    until("the server starts", || data.join("api.sock").exists());
    std::thread::sleep(Duration::from_millis(100));
}

fn run(umask: &str, args: &[&str]) {
    let output = program(umask, args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
}

#[test]
fn all_that_is_made_is_its_owners_alone_under_any_umask() {
    for umask in ["000", "022", "077"] {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let data = dir.path().join("data");
        let server = serve(umask, &data, &["--api-audit-log", &at("audit")]);
        wait_for(&data);
        run(umask, &["backup", &at("backup"), "--data", &at("data")]);
        run(umask, &["export", &at("export"), "--data", &at("data")]);
        drop(server);
        run(umask, &["backup", &at("offline"), "--data", &at("data")]);
        run(
            umask,
            &["restore", &at("backup"), "--data", &at("restored")],
        );
        let mut found = Vec::new();
        for name in ["data", "backup", "export", "offline", "restored", "audit"] {
            modes(&dir.path().join(name), &mut found);
        }
        for name in [
            "data/store.redb",
            "data/pki/admin.token",
            "data/pki/ca.key",
            "restored/store.redb",
            "export/_cluster",
        ] {
            assert!(
                found.iter().any(|(path, ..)| path.ends_with(name)),
                "{name}"
            );
        }
        for (path, is_folder, mode) in found {
            let wanted = if is_folder { 0o700 } else { 0o600 };
            assert_eq!(mode, wanted, "umask {umask}: {path} has mode {mode:o}");
        }
    }
}

#[test]
fn a_data_folder_that_others_can_read_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::write(data.join("letter"), "of somebody").unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
    let output = program(
        "022",
        &[
            "serve",
            "--data",
            data.to_str().unwrap(),
            "--api-addr",
            "127.0.0.1:0",
            "--grpc-addr",
            "127.0.0.1:0",
            "--http-addr",
            "127.0.0.1:0",
        ],
    )
    .output()
    .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("chmod 700"),
        "{said}"
    );
    let left = fs::read_dir(&data).unwrap().count();
    assert_eq!(left, 1, "nothing is written beside the letter");
}

#[test]
fn what_is_refused_at_the_start_leaves_nothing_in_the_data_folder() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("bad.yaml"), "users: 7").unwrap();
    let pem = "-----BEGIN CERTIFICATE-----\nbm8=\n-----END CERTIFICATE-----\n";
    fs::write(at("bad.pem"), pem).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (users, pem, absent) = (at("bad.yaml"), at("bad.pem"), at("absent.pem"));
    let cases: [&[&str]; 8] = [
        &["--api-access", &users],
        &["--api-tls-cert", &pem, "--api-tls-key", &pem],
        &["--api-client-ca", &absent],
        &["--insecure-local", "--api-addr", "0.0.0.0:0"],
        &["--jwks-roots", &pem],
        &["--api-addr", &address],
        &["--http-addr", &address],
        &["--grpc-addr", &address],
    ];
    for (n, flags) in cases.into_iter().enumerate() {
        let data = dir.path().join(format!("data-{n}"));
        fs::create_dir(&data).unwrap();
        let mut args = vec!["serve", "--data", data.to_str().unwrap()];
        let ports = ["--api-addr", "--grpc-addr", "--http-addr"];
        for port in ports.into_iter().filter(|port| !flags.contains(port)) {
            args.extend([port, "127.0.0.1:0"]);
        }
        args.extend(flags);
        let output = program("022", &args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{flags:?}: {said}");
        let left: Vec<_> = fs::read_dir(&data).unwrap().flatten().collect();
        assert!(left.is_empty(), "{flags:?}: {left:?}");
    }
}

#[test]
fn an_empty_token_of_the_operator_lets_nobody_in() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::create_dir(data.join("pki")).unwrap();
    let token = data.join("pki/admin.token");
    fs::write(&token, "").unwrap();
    let _server = serve("022", &data, &[]);
    until("the token is made anew", || {
        fs::read_to_string(&token).unwrap().len() >= 32
    });
}

#[test]
fn tokens_are_issued_by_the_server_or_from_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("token"));
    let folder = ["--data", data.to_str().unwrap()];
    let token = |more: &[&str]| {
        let args = [&["token", "-n", "shop", "web"], &folder[..], more].concat();
        let output = program("000", &args).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        (
            output.status.success(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let server = serve("000", &data, &[]);
    wait_for(&data);
    let (good, _, error) = token(&[]);
    assert!(!good && error.contains("--create"), "{error}");
    let (good, served, error) = token(&["--create", "--ttl", "10m"]);
    assert!(good && served.split('.').count() == 3, "{error}");
    drop(server);
    let (good, _, error) = token(&["--ttl", "1m"]);
    assert!(!good && error.contains("10 minutes"), "{error}");
    let (good, said, error) = token(&["--audience", "a", "-o", file.to_str().unwrap()]);
    assert!(good && said.is_empty(), "{error}");
    let written = fs::read_to_string(&file).unwrap();
    // Both are signed by the same key.
    assert_eq!(written.split('.').next(), served.split('.').next());
    let mut found = Vec::new();
    modes(&file, &mut found);
    modes(&data.join("pki/sa.key"), &mut found);
    assert!(found.iter().all(|(_, _, mode)| *mode == 0o600), "{found:?}");
}
