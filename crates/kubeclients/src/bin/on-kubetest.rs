//! Runs a command on real API servers that hold the objects of a scenario, as `../shared/tools/clusters` does with `kubefake`.
//!
//! `../shared/tools/conformance` starts it for each scenario. It takes API servers from a pool, starting those that are missing, so
//! that a scenario costs a second and not ten: what the scenario before left is taken away. What the API refuses is written
//! to `POOL/refused/SCENARIO`, a line for each object.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, TryLockError};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, Subcommand};
use known_differences::Known;
use kubeclients::corpus;
use kubeclients::kubetest::Options;
use kubeclients::real::{RealApi, Refused};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Parser)]
#[command(about = "Runs a command on real API servers that hold the objects of a scenario")]
struct Arguments {
    #[command(subcommand)]
    act: Act,
}

#[derive(Subcommand)]
enum Act {
    /// Run a command; `{kubeconfig}` in it is replaced, and $KUBECONFIG set
    Run {
        /// Folder with the API servers
        #[arg(long)]
        pool: PathBuf,
        /// Folder of the objects; folders in `../clusters` are remote clusters
        #[arg(long)]
        config: PathBuf,
        /// Folder with definitions of custom kinds
        #[arg(long)]
        crds: PathBuf,
        /// The command
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Hold what was refused against a list
    Judge {
        /// Folder with the API servers
        #[arg(long)]
        pool: PathBuf,
        /// The list: reasons, and below each, indented, SCENARIO KIND NAMESPACE/NAME
        list: PathBuf,
    },
    /// Stop the API servers of a pool
    Stop {
        /// Folder with the API servers
        #[arg(long)]
        pool: PathBuf,
    },
}

/// An API server of the pool that nobody else uses as long as this is held.
struct Slot {
    dir: PathBuf,
    _lock: File,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().act {
        Act::Run {
            pool,
            config,
            crds,
            command,
        } => run(&pool, &config, &crds, command).await,
        Act::Judge { pool, list } => judge(&pool, &list),
        Act::Stop { pool } => {
            stop(&pool)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn run(
    pool: &Path,
    config: &Path,
    crds: &Path,
    command: Vec<String>,
) -> anyhow::Result<ExitCode> {
    let scenario = config.parent().context("the folder has none above it")?;
    let remotes = remotes(&scenario.join("clusters"))?;
    let slots = take(pool, remotes.len() + 1).await?;
    let mut refused = Vec::new();
    let mut objects = corpus::read(config)?;
    for ((name, dir), slot) in remotes.iter().zip(&slots[1..]) {
        let api = ready(slot, crds).await?;
        api.hide_itself().await?;
        let of_remote = api.apply(corpus::read(dir)?).await?;
        refused.extend(of_remote.into_iter().map(|r| Refused {
            object: format!("{} of {name}", r.object),
            ..r
        }));
        objects.push(remote_secret(name, &kubeconfig(slot))?);
    }
    let api = ready(&slots[0], crds).await?;
    api.hide_itself().await?;
    refused.extend(api.apply(objects).await?);
    note(pool, scenario, &refused)?;
    execute(command, &kubeconfig(&slots[0])).await
}

fn remotes(dir: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    if dir.is_dir() {
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            found.push((
                entry.file_name().to_string_lossy().into_owned(),
                entry.path(),
            ));
        }
    }
    found.sort();
    Ok(found)
}

fn kubeconfig(slot: &Slot) -> PathBuf {
    slot.dir.join("kubeconfig")
}

/// As `istioctl create-remote-secret` makes it.
fn remote_secret(name: &str, kubeconfig: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(kubeconfig)?;
    Ok(
        json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": format!("istio-remote-secret-{name}"), "namespace": "istio-system",
            "labels": {"istio/multiCluster": "true"}, "annotations": {"networking.istio.io/cluster": name}},
        "stringData": {name: text}}),
    )
}

/// So many slots of the pool. Who takes several takes them at once, so that two never wait for each other.
async fn take(pool: &Path, count: usize) -> anyhow::Result<Vec<Slot>> {
    std::fs::create_dir_all(pool.join("refused"))?;
    let gate = File::create(pool.join("gate"))?;
    gate.lock()?;
    let mut taken = Vec::new();
    loop {
        for n in 0..4 {
            let dir = pool.join(format!("slot-{n}"));
            std::fs::create_dir_all(&dir)?;
            let lock = File::create(dir.join("lock"))?;
            match lock.try_lock() {
                Ok(()) => taken.push(Slot { dir, _lock: lock }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
            if taken.len() == count {
                return Ok(taken);
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The API of a slot, with definitions and nothing else.
async fn ready(slot: &Slot, crds: &Path) -> anyhow::Result<RealApi> {
    let process = slot.dir.join("pid");
    if process.exists() {
        let api = RealApi::connect(&kubeconfig(slot)).await?;
        api.empty().await?;
        let_read_secrets(&api).await?;
        return Ok(api);
    }
    let mut options = Options::new(&slot.dir);
    // Holds every address of the scenarios' Services, and takes none of them for the API itself.
    options.flags = vec![
        "--service-cluster-ip-range=10.64.0.0/10,fd00:10:96::/108".into(),
        "--disable-admission-plugins=ServiceAccount".into(),
    ];
    let kubetest = options.start()?;
    let mut api = RealApi::connect(&kubetest.kubeconfig()).await?;
    api.define(&definitions(crds)?).await?;
    std::fs::write(&process, kubetest.leave().to_string())?;
    let_read_secrets(&api).await?;
    Ok(api)
}

/// The accounts of proxies may read Secrets, as wherever the recordings were made.
async fn let_read_secrets(api: &RealApi) -> anyhow::Result<()> {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let (version, name) = (format!("{GROUP}/v1"), "proxies-read-secrets");
    let secrets =
        json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]});
    let accounts = json!({"apiGroup": GROUP, "kind": "Group", "name": "system:serviceaccounts"});
    api.write(&json!({"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": [secrets]}))
        .await?;
    let role = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": name});
    api.write(
        &json!({"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": role, "subjects": [accounts]}),
    )
    .await
}

fn definitions(dir: &Path) -> anyhow::Result<Vec<Value>> {
    let files = [
        "istio-api.customresourcedefinitions.gen",
        "gateway-api-crd.istio-vendored",
        "gateway-api-inference-extension-crd",
    ];
    let mut all = Vec::new();
    for file in files {
        let text =
            std::fs::read_to_string(dir.join(format!("{file}.yaml"))).with_context(|| file)?;
        for document in model::parse::to_json(&text) {
            let document = document.map_err(anyhow::Error::msg).context(file)?;
            if document["kind"] == "CustomResourceDefinition" {
                all.push(document);
            }
        }
    }
    Ok(all)
}

fn note(pool: &Path, scenario: &Path, refused: &[Refused]) -> anyhow::Result<()> {
    let name = scenario.file_name().context("a scenario without a name")?;
    let lines: String = refused
        .iter()
        .map(|r| format!("{}\t{}\n", r.object, r.why))
        .collect();
    std::fs::write(pool.join("refused").join(name), lines)?;
    Ok(())
}

/// Exactly what is listed of the scenarios that ran was refused.
fn judge(pool: &Path, list: &Path) -> anyhow::Result<ExitCode> {
    let known = Known::parse(&std::fs::read_to_string(list)?).map_err(anyhow::Error::msg)?;
    let (mut ran, mut found, mut why) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
    for entry in std::fs::read_dir(pool.join("refused"))? {
        let entry = entry?;
        let scenario = entry.file_name().to_string_lossy().into_owned();
        for line in std::fs::read_to_string(entry.path())?.lines() {
            let (object, reason) = line.split_once('\t').unwrap_or((line, ""));
            let case = format!("{scenario} {object}");
            why.insert(case.clone(), reason.to_owned());
            found.insert(case);
        }
        ran.insert(scenario);
    }
    anyhow::ensure!(!ran.is_empty(), "no scenario was run");
    let wrong = known.judge(&found, |case| {
        ran.contains(case.split(' ').next().unwrap_or_default())
    });
    for line in &wrong {
        println!("refused: {line}");
    }
    for (case, reason) in why.iter().filter(|(case, _)| known.reason(case).is_none()) {
        println!("  {case}: {reason}");
    }
    Ok(ExitCode::from(u8::from(!wrong.is_empty())))
}

/// Runs the command to its end, or until this program is told to stop.
async fn execute(command: Vec<String>, kubeconfig: &Path) -> anyhow::Result<ExitCode> {
    let path = kubeconfig.to_string_lossy();
    let words: Vec<String> = command
        .iter()
        .map(|w| w.replace("{kubeconfig}", &path))
        .collect();
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .env("KUBECONFIG", kubeconfig)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| words[0].clone())?;
    let (mut term, mut int) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let status = tokio::select! {
        status = child.wait() => status?,
        _ = async { tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} } } => {
            if let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw) {
                rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
            }
            child.wait().await?
        }
    };
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn stop(pool: &Path) -> anyhow::Result<()> {
    for n in 0..4 {
        let file = pool.join(format!("slot-{n}/pid"));
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        let id: i32 = text.trim().parse()?;
        if let Some(id) = rustix::process::Pid::from_raw(id) {
            // It may have ended by itself.
            let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        }
        std::fs::remove_file(file)?;
    }
    Ok(())
}
