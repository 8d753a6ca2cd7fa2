//! Ceilings: what an attack may take of the server's memory and processor time, and that everyone else is served
//! meanwhile. Each attack runs for a few seconds, a tenth of what the program makes of it.
//!
//! The server is the program that `PILOTHOUSE` names, or one that is built. The ceilings hold for a debug build; those of
//! memory are stated with each attack.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use attack::attack::Scale;
use attack::attacks;
use attack::run::{Options, run};

/// The server's program.
static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    if let Some(program) = std::env::var_os("PILOTHOUSE") {
        return program.into();
    }
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "-p", "pilothouse"])
        .status()
        .unwrap();
    assert!(status.success(), "the server cannot be built");
    Path::new(env!("CARGO_BIN_EXE_pilothouse-attack")).with_file_name("pilothouse")
});

/// How many attacks run at a time: they wait more than they compute. More would take the processors from each other.
const AT_A_TIME: usize = 4;

/// How many more may run now.
static TURNS: (Mutex<usize>, Condvar) = (Mutex::new(AT_A_TIME), Condvar::new());

/// Those that make the server compute until the others have to wait: beside other attacks their own delays say nothing.
const ALONE: &[&str] = &["invented-namespaces"];

/// The turns that an attack takes.
struct Turn(usize);

impl Turn {
    fn take(name: &str) -> Self {
        let wanted = if ALONE.contains(&name) { AT_A_TIME } else { 1 };
        let left = TURNS.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = TURNS.1.wait_while(left, |left| *left < wanted);
        *left.unwrap_or_else(PoisonError::into_inner) -= wanted;
        Self(wanted)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *TURNS.0.lock().unwrap_or_else(PoisonError::into_inner) += self.0;
        TURNS.1.notify_all();
    }
}

fn holds(name: &str) {
    let attack = attacks::named(name).unwrap();
    let options = Options {
        program: PROGRAM.clone(),
        attacker: env!("CARGO_BIN_EXE_pilothouse-attack").into(),
        proxies: 20,
        before: Duration::from_secs(1),
        during: Duration::from_secs(4),
        every: Duration::from_millis(100),
        floor: Duration::ZERO,
        // Tests of other packages may run at the same time.
        nice: 0,
        scale: Scale::Short,
    };
    let _turn = Turn::take(name);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let row = runtime.block_on(run(attack, &options)).unwrap();
    let table = attack::report::text(std::slice::from_ref(&row));
    println!("{table}");
    assert!(row.faults.is_empty(), "{name}, {}:\n{table}", attack.about);
}

/// Attacks that only the program runs: what they find, those of their kind that are run here find as well.
const BY_HAND: &[&str] = &[
    "canary-hosts",
    "hoard-entries",
    "hoard-extensions",
    "hoard-gateways",
    "hoard-ingresses",
    "hoard-listeners",
    "hoard-patches",
    "hoard-plain-ingresses",
    "hoard-policies",
    "hoard-rules",
    "hoard-services",
    "hoard-settings",
    "hoard-sidecars",
    "hoard-slices",
    "hoard-small-gateways",
    "hoard-small-rules",
    "hoard-small-services",
    "hoard-small-slices",
    "hoard-telemetry",
    "hoard-wildcards",
    "hoard-workloads",
];

macro_rules! ceilings {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                holds($name);
            }
        )*

        #[test]
        fn every_attack_has_a_test() {
            let here = [$($name),*];
            for attack in attacks::ALL {
                let is_run = here.contains(&attack.name);
                assert_ne!(is_run, BY_HAND.contains(&attack.name), "{}", attack.name);
            }
        }
    };
}

ceilings! {
    an_empty_token_lets_nobody_in: "empty-token",
    every_request_is_recorded: "audit-bypass",
    names_have_a_limit: "names-flood",
    names_of_all_streams_have_a_budget: "names-hoard",
    views_do_not_collide: "colliding-views",
    partial_messages_have_a_budget: "partial-messages",
    nodes_have_a_limit: "huge-nodes",
    nodes_of_all_streams_are_kept_small: "nodes-hoard",
    views_have_a_budget: "invented-namespaces",
    new_streams_are_admitted_at_a_rate: "stream-flood",
    connections_that_dribble_cost_nothing: "dribble",
    idle_connections_leave_room_for_readiness: "idle-connections",
    delegates_have_a_limit: "delegate-bomb",
    hidden_folders_are_not_read: "hidden-folder",
    a_fifo_holds_nothing_up: "fifo",
    links_do_not_leave_the_folder: "link",
    silence_after_the_handshake_costs_nothing: "silent-tls",
    bodies_of_nobody_are_not_kept: "anonymous-bodies",
    a_tarpit_holds_up_no_other_keys: "jwks-tarpit",
    debug_pages_answer_to_no_web_page: "rebinding",
    versions_make_no_labels_without_end: "version-labels",
    refusals_do_not_fill_the_log: "nack-logs",
    patterns_are_compiled_once: "patterns",
    pings_are_counted: "ping-flood",
    an_octet_earns_no_pings: "octet-then-pings",
    settings_are_counted: "settings-flood",
    empty_frames_are_counted: "empty-frames",
    resets_are_counted: "reset-flood",
    what_makes_the_server_reset_is_counted: "made-you-reset",
    heads_end: "continuation-flood",
    heads_have_a_size_when_unpacked: "hpack-bomb",
    closed_windows_hold_little: "zero-window",
    handshakes_end: "half-handshakes",
    handshakes_hold_up_no_stream: "handshake-flood",
    chains_of_certificates_have_a_size: "certificate-chains",
    what_is_no_tls_is_closed: "tls-garbage",
    new_keys_hold_up_no_stream: "key-updates",
    modules_are_fetched_within_bounds: "modules",
    a_directory_of_certificates_is_asked_within_bounds: "endless-directory",
    values_of_secrets_are_bounded: "templates",
    canaries_have_a_budget: "canary-bomb",
    hosts_of_rules_have_a_budget: "hoard-rule-hosts",
    delegates_have_a_budget: "hoard-delegates",
    endpoints_have_a_budget: "hoard-endpoints",
    routes_have_a_budget: "hoard-routes",
}
