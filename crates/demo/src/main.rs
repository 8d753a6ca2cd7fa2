//! The demo: `./demo` at the root of the repository runs it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anstream::{eprintln, print, println};
use anyhow::Context;
use clap::Parser;
use demo::check::{self, Findings};
use demo::mesh::{Mesh, Setup, pilothouse_beside_us};
use demo::routed::{QUESTIONS, Routed, ask};
use demo::shop::{Block, HOST};
use demo::watch::{Edit, Watch};
use tokio::signal::unix::{SignalKind, signal};

const BOLD: &str = "\x1b[1m";
const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// Runs a small shop behind real Envoys and shows what is routed where, and each edit of its folder arriving.
#[derive(Parser)]
#[command(name = "demo", max_term_width = 110)]
struct Cli {
    /// Verify everything, an edit included, and exit: 0 if all is as it should be.
    #[arg(long)]
    check: bool,

    /// The repository.
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,

    /// The program `pilothouse`; the one beside this program unless said otherwise.
    #[arg(long, value_name = "FILE", env = "PILOTHOUSE")]
    pilothouse: Option<PathBuf>,
}

// One thread: the children are tied to the life of the thread that starts them.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("\n{RED}✗{PLAIN} {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> anyhow::Result<bool> {
    let (mut interrupt, mut terminate, mut hangup) = (
        signal(SignalKind::interrupt())?,
        signal(SignalKind::terminate())?,
        signal(SignalKind::hangup())?,
    );
    let mut mesh = None;
    let result = tokio::select! {
        result = demo(&cli, &mut mesh) => result,
        _ = interrupt.recv() => Ok(!cli.check),
        _ = terminate.recv() => Ok(!cli.check),
        _ = hangup.recv() => Ok(!cli.check),
    };
    if let Some(mesh) = mesh {
        println!("\n{DIM}Stopping everything.{PLAIN}");
        mesh.stop().await;
    }
    result
}

async fn demo(cli: &Cli, slot: &mut Option<Mesh>) -> anyhow::Result<bool> {
    let root = cli
        .root
        .canonicalize()
        .with_context(|| format!("there is no {}", cli.root.display()))?;
    let cache = root.join(".cache");
    let shop = root.join("examples/shop");
    let pilothouse = cli
        .pilothouse
        .clone()
        .map_or_else(pilothouse_beside_us, Ok)?;
    let envoy = envoy::program::find(&cache.join("envoy"))?;
    done(&format!("Envoy: {}", envoy.from));

    let run = cache.join("demo");
    if run.exists() {
        std::fs::remove_dir_all(&run).with_context(|| format!("cannot empty {}", run.display()))?;
    }
    // People edit the example itself; the check must find it as it was committed, and edits a copy.
    let config = if cli.check {
        let copy = run.join("shop");
        Block(0).copy(&shop, &copy)?;
        copy
    } else {
        shop
    };
    let shown = config
        .strip_prefix(&root)
        .unwrap_or(&config)
        .display()
        .to_string();
    let start = Instant::now();
    let setup = Setup {
        pilothouse,
        envoy,
        config: config.clone(),
        run: run.clone(),
        block: Block(0),
        flags: Vec::new(),
        variables: Vec::new(),
    };
    let mesh = slot.insert(Mesh::start(setup).await?);
    done(&format!("Pilothouse, serving {shown}"));
    mesh.start_shop(&mut |step| done(&step)).await?;
    println!(
        "  {DIM}All up in {:.1} s. Logs: {}{PLAIN}\n",
        start.elapsed().as_secs_f64(),
        run.display()
    );

    let mut results = Vec::new();
    for question in QUESTIONS {
        let routed = ask(mesh.block(), *question).await?;
        println!("{routed}");
        results.push(routed);
    }
    if cli.check {
        verify(mesh, &results).await
    } else {
        watch(mesh, results, &shown).await
    }
}

async fn verify(mesh: &Mesh, results: &[Routed]) -> anyhow::Result<bool> {
    let mut findings = Findings::default();
    check::shop(results, &mut findings);
    let (edit, after) = check::canary(mesh, &mut findings).await?;
    print_edit(&edit);
    println!("\n{after}");
    findings.note(
        "no Envoy has refused anything",
        check::nothing_refused(mesh).await,
    );
    for (sentence, result) in &findings.0 {
        match result {
            Ok(()) => done(sentence),
            Err(reason) => println!("{RED}✗{PLAIN} {sentence}: {reason}"),
        }
    }
    Ok(findings.is_good())
}

/// Shows edits until the program is told to end.
async fn watch(mesh: &Mesh, mut results: Vec<Routed>, shown: &str) -> anyhow::Result<bool> {
    let block = mesh.block();
    // Before anybody is asked to edit: an edit that follows at once must not be taken for how things were.
    let mut watch = Watch::new(&mesh.setup().config, block).await?;
    println!(
        "{BOLD}Now edit a file in {shown}{PLAIN}: say, the weights in reviews.yaml. Or send requests:\n  \
         curl -H 'Host: {HOST}' http://{gateway}/\n  \
         curl -H 'Host: {HOST}' -H 'end-user: jason' http://{gateway}/\n\
         Pilothouse's pages: http://{pages}/debug   the gateway Envoy's: http://{admin}\n\
         {DIM}Ctrl-C stops everything.{PLAIN}",
        gateway = block.gateway(),
        pages = block.pages(),
        admin = block.gateway_admin(),
    );
    loop {
        let edit = watch.next().await?;
        print_edit(&edit);
        if edit.arrivals.is_empty() {
            continue;
        }
        let mut same = true;
        for result in &mut results {
            let after = ask(block, result.question()).await?;
            if !after.agrees(result) {
                same = false;
                print!("\n{after}");
            }
            *result = after;
        }
        if same {
            println!("  {DIM}Requests go where they went before.{PLAIN}");
        }
    }
}

fn print_edit(edit: &Edit) {
    println!(
        "\n{BOLD}{}{PLAIN} {}",
        clock(edit.at),
        edit.files.join(", ")
    );
    for finding in &edit.findings {
        println!("  {YELLOW}!{PLAIN} {finding}");
    }
    for arrival in &edit.arrivals {
        let name = arrival.proxy.split('.').next().unwrap_or_default();
        let types = arrival.types.join(", ");
        match (&arrival.refused, arrival.took) {
            (Some(reason), _) => println!("  {RED}✗{PLAIN} {name:<12} refused {types}: {reason}"),
            (None, Some(took)) => {
                println!(
                    "  {GREEN}✓{PLAIN} {name:<12} has {types:<10} {:>8.1} ms",
                    took.as_secs_f64() * 1e3
                );
            }
            (None, None) => {
                println!("  {YELLOW}?{PLAIN} {name:<12} was sent {types} and has not answered")
            }
        }
    }
    if edit.arrivals.is_empty() {
        println!("  {DIM}No proxy is concerned: nothing was sent.{PLAIN}");
    }
}

/// Time of day in UTC.
fn clock(at: std::time::SystemTime) -> String {
    let ms = at
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_millis());
    format!(
        "{:02}:{:02}:{:02}.{:03}",
        ms / 3_600_000 % 24,
        ms / 60_000 % 60,
        ms / 1000 % 60,
        ms % 1000
    )
}

fn done(what: &str) {
    println!("{GREEN}✓{PLAIN} {what}");
}
