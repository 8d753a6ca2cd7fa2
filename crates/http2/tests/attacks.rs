//! Known attacks: each ends early or costs little. What it costs in time, `examples/attack-cost.rs` measures.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::time::Duration;

use attacks::{Outcome, attacks};
use pilothouse_http2::Reason;

#[path = "support/attacks.rs"]
mod attacks;
#[path = "support/frames.rs"]
mod frames;
#[path = "support/wire.rs"]
mod wire;

/// What becomes of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// It ends so, at the latest after so many frames.
    Ends(Reason, u32),
    /// It goes on, at the cost of what it says.
    Stands,
}

/// By name: what becomes of it, and the most that may be kept for it, in octets.
#[rustfmt::skip] // A table.
const CEILINGS: &[(&str, Fate, usize)] = {
    use Fate::{Ends, Stands};
    use Reason::{EnhanceYourCalm, FlowControl, Protocol, StreamClosed};
    const IDLE: Fate = Ends(EnhanceYourCalm, 10_100);
    &[
        ("rapid reset", Ends(EnhanceYourCalm, 402), 4 << 10),
        ("rapid reset between calls that end", Ends(EnhanceYourCalm, 603), 4 << 10),
        ("resets that we are made to send (window)", Ends(EnhanceYourCalm, 402), 4 << 10),
        ("resets that we are made to send (priority)", Ends(EnhanceYourCalm, 402), 4 << 10),
        ("resets that we are made to send (data)", Ends(EnhanceYourCalm, 402), 4 << 10),
        ("more streams than there may be", Ends(EnhanceYourCalm, 201), 4 << 10),
        ("calls without end", Ends(EnhanceYourCalm, 2_001), 4 << 10),
        ("CONTINUATION, empty", Ends(EnhanceYourCalm, 16), 4 << 10),
        ("CONTINUATION, full", Ends(EnhanceYourCalm, 4), 128 << 10),
        ("HPACK bomb", Ends(EnhanceYourCalm, 201), 8 << 10),
        ("HPACK table churn", Ends(EnhanceYourCalm, 2_001), 8 << 10),
        ("cookie crumbs", Ends(EnhanceYourCalm, 2_001), 8 << 10),
        ("fields without a name", Ends(EnhanceYourCalm, 201), 4 << 10),
        ("trailers", Ends(EnhanceYourCalm, 4_002), 8 << 10),
        ("thousands of fields", Ends(EnhanceYourCalm, 201), 8 << 10),
        ("empty data", IDLE, 4 << 10),
        ("data of one octet", IDLE, 32 << 10),
        ("pings", IDLE, 4 << 10),
        ("pings between data", IDLE, 32 << 10),
        ("pings, answers not read", Stands, 64 << 10),
        ("settings", IDLE, 4 << 10),
        ("settings, answers not read", Stands, 64 << 10),
        ("windows of 100 streams, up and down", IDLE, 4 << 10),
        ("thousands of settings in a frame", Ends(EnhanceYourCalm, 1), 4 << 10),
        ("priorities", IDLE, 4 << 10),
        ("window updates", IDLE, 4 << 10),
        ("a window that overflows", Ends(FlowControl, 1), 4 << 10),
        ("frames of no kind", IDLE, 4 << 10),
        ("the end, again and again", IDLE, 4 << 10),
        ("pushes", Ends(Protocol, 1), 4 << 10),
        ("the last stream there is", Ends(StreamClosed, 1), 4 << 10),
        ("no room in 100 windows", Stands, 16 << 10),
        ("room octet by octet", IDLE, 16 << 10),
        ("100 large responses, not read", Stands, 256 << 10),
        ("100 calls with small responses, not read", Stands, 64 << 10),
        ("data that no call takes", Stands, 320 << 10),
        ("half a frame", Stands, 40 << 10),
    ]
};

#[test]
fn each_attack_ends_early_or_costs_little() {
    let all = attacks();
    let names: Vec<&str> = all.iter().map(|attack| attack.name).collect();
    let ceilings: Vec<&str> = CEILINGS.iter().map(|c| c.0).collect();
    assert_eq!(names, ceilings);
    let mut wrong = Vec::new();
    for (attack, (name, fate, ceiling)) in all.into_iter().zip(CEILINGS) {
        let outcome = attack.run();
        let Outcome {
            end,
            frames,
            octets,
            kept,
            took,
        } = &outcome;
        let fits = match fate {
            Fate::Stands => end.is_none(),
            Fate::Ends(reason, most) => *end == Some(*reason) && frames <= most,
        };
        // What it says is three megabytes at most; a machine on which that takes so long does something else.
        let slow = *octets > 4 << 20 || *took > Duration::from_secs(60);
        if !fits || slow || kept > ceiling {
            wrong.push(format!("{name}: {outcome:?}, not {fate:?} with {ceiling}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_page_names_every_attack() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http2-attacks.md");
    let page = std::fs::read_to_string(page).unwrap();
    for attack in attacks() {
        let row = format!("| {} |", attack.name);
        assert!(page.contains(&row), "no row of {}", attack.name);
    }
}
