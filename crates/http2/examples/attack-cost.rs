//! Prints what each attack costs on one connection, as `docs/http2-attacks.md` has it, the quickest of some runs:
//! `cargo run --release -p pilothouse-http2 --example attack-cost`.

use attacks::{Outcome, attacks};

#[path = "../tests/support/attacks.rs"]
mod attacks;
#[path = "../tests/support/frames.rs"]
mod frames;
#[path = "../tests/support/wire.rs"]
mod wire;

/// Others have the processor between, so the quickest run tells most.
fn quickest() -> Vec<(&'static str, Outcome)> {
    let mut all: Vec<(&str, Outcome)> = Vec::new();
    for _ in 0..30 {
        for (at, attack) in attacks().into_iter().enumerate() {
            let (name, outcome) = (attack.name, attack.run());
            match all.get_mut(at) {
                Some((_, best)) if outcome.took < best.took => *best = outcome,
                Some(_) => {}
                None => all.push((name, outcome)),
            }
        }
    }
    all
}

fn main() {
    println!("| attack | ends after frames | octets read | ms | ns a frame | kept, kB |");
    println!("|---|---|---|---|---|---|");
    for (name, outcome) in quickest() {
        let end = match outcome.end {
            Some(_) => outcome.frames.to_string(),
            None => "goes on".to_owned(),
        };
        let nanoseconds = outcome.took.as_nanos() / u128::from(outcome.frames.max(1));
        println!(
            "| {name} | {end} | {} | {:.1} | {nanoseconds} | {:.1} |",
            outcome.octets,
            outcome.took.as_secs_f64() * 1000.0,
            outcome.kept as f64 / 1024.0,
        );
    }
}
