//! What happens in a schedule, drawn from its seed.

use super::proxy::Mode;
use super::server::Kind;

/// Services.
pub(super) const SERVICES: usize = 3;
/// The most instances of each.
pub(super) const INSTANCES: u64 = 4;

/// Numbers that are the same for the same seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }
}

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// An instance of a service is registered, or is another.
    Put(usize, u64),
    Remove(usize, u64),
    Weather(Mode),
    Reset,
    /// The server is killed and is down for some milliseconds; with its data or without when it is back.
    Kill {
        wipe: bool,
        down_ms: u64,
    },
    /// Our token is none for some milliseconds.
    Forget(u64),
    Wait(u64),
}

/// What happens, in order.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) first: Vec<(usize, u64)>,
    pub(super) steps: Vec<Step>,
    /// After how many milliseconds a service goes that has no instances; none is never.
    pub(super) empty_ms: Option<u64>,
    /// Whether there is another registry, which does not answer.
    pub(super) beside_a_dead_one: bool,
}

impl Schedule {
    pub(super) fn draw(kind: Kind, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut first = Vec::new();
        for service in 0..SERVICES {
            first.extend((0..1 + random.below(3)).map(|n| (service, n)));
        }
        let empty_ms = random.percent(20).then_some(2_000);
        let mut schedule = Self {
            first,
            steps: Vec::new(),
            empty_ms,
            beside_a_dead_one: random.percent(15),
        };
        for _ in 0..3 + random.below(4) {
            match random.below(100) {
                share if share < kind.kills() => schedule.kill(&mut random),
                share if share < 60 => schedule.fault(kind, &mut random),
                _ => schedule.change(&mut random),
            }
            schedule.steps.push(Step::Wait(random.below(400)));
        }
        schedule
    }

    fn change(&mut self, random: &mut Random) {
        let service = random.below(SERVICES as u64) as usize;
        let instance = random.below(INSTANCES);
        self.steps.push(match random.percent(60) {
            true => Step::Put(service, instance),
            false => Step::Remove(service, instance),
        });
    }

    fn kill(&mut self, random: &mut Random) {
        let wipe = random.percent(50);
        let down_ms = random.below(1_000);
        self.steps.push(Step::Kill { wipe, down_ms });
    }

    fn fault(&mut self, kind: Kind, random: &mut Random) {
        // What is noticed after half a minute is for real ones.
        let is_real = kind != Kind::StandIn;
        let wait = Step::Wait(100 + random.below(1_100));
        if kind.is_consul() && random.percent(10) {
            self.steps.push(Step::Forget(100 + random.below(1_500)));
            return;
        }
        if random.percent(15) {
            self.steps.push(Step::Reset);
            return;
        }
        let mode = match random.below(100) {
            0..12 => Mode::Delay(20 + random.below(400)),
            12..24 => Mode::Slow,
            24..36 => Mode::Silent,
            36..42 if is_real => Mode::HalfOpen,
            42..54 => Mode::Refuse,
            54..66 => Mode::Garbage,
            66..78 => Mode::Truncate,
            78..86 => Mode::Oversize,
            // What cannot be told from the truth: it may take away what is not kept.
            86..93 if is_real && kind.speaks_http() && self.empty_ms.is_none() => {
                Mode::Lie(random.one_of(&[
                    "{}",
                    "[]",
                    "null",
                    "\"\"",
                    "",
                    "<html>",
                    "[{}]",
                    "[null]",
                    r#"{"applications":{}}"#,
                    r#"{"a":["b"]}"#,
                ]))
            }
            _ if kind.speaks_http() => Mode::Status(random.one_of(&[404, 403, 429, 500, 503])),
            _ => Mode::Truncate,
        };
        self.steps.push(Step::Weather(mode));
        self.steps.push(wait);
        for _ in 0..random.below(3) {
            self.change(random);
            self.steps.push(Step::Wait(random.below(300)));
        }
        self.steps.push(Step::Weather(Mode::Pass));
    }
}
