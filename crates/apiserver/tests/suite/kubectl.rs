//! Scripts of kubectl commands with their outcomes, which for `commands.txt` are those of a real kube-apiserver as well.
//!
//! `commands.txt` holds the commands and `outcomes.txt` what they print, without what differs in each run; `gitops.txt` and
//! `gitops-outcomes.txt` are how people edit and pipelines deploy, `tokens.txt` and `tokens-outcomes.txt` how service accounts get
//! tokens. With `UPDATE_GOLDEN=1` outcomes are written anew; with
//! `PILOTHOUSE_KUBECTL_CONFIG` naming a kubeconfig they are taken from that server into the folder `PILOTHOUSE_KUBECTL_OUT`,
//! to be compared. Without kubectl on the path nothing is run.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use apiserver::http::{Security, serve};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::World;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubectl")
}

/// Runs every command and writes what became of it.
fn outcomes(script: &str, config: &Path) -> String {
    let home = tempfile::tempdir().unwrap();
    let commands = std::fs::read_to_string(folder().join(script)).unwrap();
    let mut all = String::new();
    for command in commands.lines() {
        let output = Command::new("sh")
            .args(["-c", &format!("{command} 2>&1")])
            .current_dir(folder())
            .env("KUBECONFIG", config)
            .env("HOME", home.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        writeln!(
            all,
            "$ {command}\n=> {}",
            output.status.code().unwrap_or(-1)
        )
        .unwrap();
        for line in text.lines().filter(|line| !is_noise(line)) {
            writeln!(all, "{}", plain(line)).unwrap();
        }
    }
    all
}

fn is_noise(line: &str) -> bool {
    line.starts_with("WARNING: version difference") || line.trim().is_empty()
}

/// A line without what differs in each run.
fn plain(line: &str) -> String {
    let rules = [
        (
            r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
            "UID",
        ),
        (r#"resourceVersion: "\d+""#, "resourceVersion: REVISION"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
        (r"\b\d+[smh]\b", "AGE"),
        (r" {2,}", "  "),
        (r"https?://[^/ ]+/", "SERVER/"),
        (r" +$", ""),
        (r#"^Context "\w+""#, "Context"),
    ];
    rules.iter().fold(line.to_owned(), |line, (pattern, with)| {
        regex::Regex::new(pattern)
            .unwrap()
            .replace_all(&line, *with)
            .into_owned()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_sees_what_it_sees_of_kubernetes() {
    run("commands.txt", "outcomes.txt").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn people_edit_and_pipelines_deploy() {
    run("gitops.txt", "gitops-outcomes.txt").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn service_accounts_get_tokens() {
    run("tokens.txt", "tokens-outcomes.txt").await;
}

async fn run(script: &'static str, golden: &'static str) {
    if Command::new("kubectl")
        .args(["version", "--client"])
        .output()
        .is_err()
    {
        println!("kubectl is not installed: skipped");
        return;
    }
    if let Ok(config) = std::env::var("PILOTHOUSE_KUBECTL_CONFIG") {
        let found = outcomes(script, Path::new(&config));
        let out = PathBuf::from(std::env::var("PILOTHOUSE_KUBECTL_OUT").unwrap());
        std::fs::write(out.join(golden), found).unwrap();
        return;
    }
    let world = World::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(serve(
        listener,
        Security::InsecureLocal,
        world.api.clone(),
        stop.clone(),
    ));
    let config = world.dir.path().join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{{name: a, cluster: {{server: 'http://{address}'}}}}]\nusers: [{{name: a, user: {{}}}}]\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n"
    );
    std::fs::write(&config, text).unwrap();
    let found = tokio::task::spawn_blocking(move || outcomes(script, &config))
        .await
        .unwrap();
    stop.cancel();
    let golden = folder().join(golden);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(golden, found).unwrap();
        return;
    }
    let wanted = std::fs::read_to_string(golden).unwrap();
    let differ: Vec<String> = sections(&found)
        .zip(sections(&wanted))
        .filter(|(found, wanted)| found != wanted)
        .map(|(found, wanted)| format!("found:\n{found}\nwanted:\n{wanted}"))
        .collect();
    assert!(
        differ.is_empty() && found.len() == wanted.len(),
        "{}",
        differ.join("\n")
    );
}

fn sections(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n$ ")
}
