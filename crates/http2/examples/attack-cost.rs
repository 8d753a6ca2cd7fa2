//! Prints what each attack costs on one connection, as `docs/http2-attacks.md` has it:
//! `cargo run --release -p pilothouse-http2 --example attack-cost`.

use attacks::attacks;

#[path = "../tests/support/attacks.rs"]
mod attacks;
#[path = "../tests/support/frames.rs"]
mod frames;
#[path = "../tests/support/wire.rs"]
mod wire;

fn main() {
    println!("| attack | ends after frames | octets read | ms | ns a frame | kept, kB |");
    println!("|---|---|---|---|---|---|");
    for attack in attacks() {
        let name = attack.name;
        let outcome = attack.run();
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
