//! One schedule: objects that change, and an API that fails.

use std::time::{Duration, Instant};

use kube::{Client, Config};
use kubeclients::draw::Draw;
use kubeclients::fake::{Blow, Fake, Id, Mishap, RESOURCES, World};

use kubernetes::source::{Options, Pace};
use model::Kind;
use source_api::backoff::Backoff;

use crate::observer::Observer;

/// After this, a connection on which nothing comes is taken for dead.
const SILENCE: Duration = Duration::from_millis(300);

/// Once nothing is wrong any more, everything is as it should be within this.
const PATIENCE: Duration = Duration::from_secs(60);

const KINDS: [&str; 5] = [
    "Service",
    "EndpointSlice",
    "ServiceEntry",
    "VirtualService",
    "DestinationRule",
];

/// Runs a schedule. Returns how long after the last fault everything was as the API has it.
pub(super) async fn run(seed: u64) -> Result<Duration, String> {
    let mut draw = Draw(seed);
    let mut world = World::new(draw.once_in(2));
    for _ in 0..draw.below(60) {
        world.put(&any_object(&mut draw));
    }
    let fake = Fake::start(world).await;
    if draw.once_in(6) {
        trouble(&mut draw, &fake);
    }
    let mut observer = Observer::start(client(&fake), options());
    play(&mut draw, &fake, &mut observer).await
}

async fn play(draw: &mut Draw, fake: &Fake, observer: &mut Observer) -> Result<Duration, String> {
    // Often it has seen everything before anything goes wrong.
    observe(fake, observer, Duration::from_millis(draw.below(3) * 40)).await?;
    for _ in 0..5 + draw.below(15) {
        match draw.below(6) {
            0 | 1 => trouble(draw, fake),
            2 => fake.mend(),
            _ => {}
        }
        for _ in 0..draw.below(5) {
            change(draw, fake);
        }
        observe(fake, observer, Duration::from_millis(draw.below(40))).await?;
    }
    fake.mend();
    let mended = Instant::now();
    change(draw, fake);
    loop {
        observe(fake, observer, Duration::from_millis(20)).await?;
        let differences = observer.differences(&fake.world());
        if differences.is_empty() {
            return Ok(mended.elapsed());
        }
        if mended.elapsed() > PATIENCE {
            return Err(format!(
                "{PATIENCE:?} after the last fault {}",
                differences.join(", ")
            ));
        }
    }
}

/// Takes in what the source tells, for a while.
async fn observe(fake: &Fake, observer: &mut Observer, time: Duration) -> Result<(), String> {
    let until = tokio::time::Instant::now() + time;
    loop {
        match tokio::time::timeout_at(until, observer.next(|| fake.world())).await {
            Ok(told) => told?,
            Err(_) => return Ok(()),
        }
    }
}

pub(super) fn any_object(draw: &mut Draw) -> Id {
    let kind = *draw.of(&KINDS);
    let namespace = *draw.of(&["default", "istio-system"]);
    Id::new(kind, namespace, &format!("o{}", draw.below(6)))
}

fn change(draw: &mut Draw, fake: &Fake) {
    let id = any_object(draw);
    let delete = draw.once_in(3);
    say(|| format!("{} {id:?}", if delete { "delete" } else { "put" }));
    fake.write(|world| match delete {
        true => world.delete(&id),
        false => world.put(&id),
    });
}

fn trouble(draw: &mut Draw, fake: &Fake) {
    let what = draw.below(9);
    say(|| format!("trouble {what}"));
    match what {
        0 => fake.down(true),
        1 => fake.restart(),
        2 => fake.partition(true),
        3 => fake.slow(Duration::from_millis(1 + draw.below(10))),
        4 => fake.behind(true),
        5 => fake.write(World::compact),
        6 => {
            // A restart, after which nobody knows what was.
            fake.write(World::compact);
            fake.restart();
        }
        7 => {
            let mishaps = (0..1 + draw.below(12)).map(|_| mishap(draw)).collect();
            fake.mishaps(mishaps);
        }
        _ => {
            for _ in 0..1 + draw.below(3) {
                fake.blow(blow(draw));
            }
        }
    }
}

fn mishap(draw: &mut Draw) -> Mishap {
    match draw.below(9) {
        0 => Mishap::Status(429, Some(1)),
        1 => Mishap::Status(429, None),
        2 => Mishap::Status(500, None),
        3 => Mishap::Status(503, Some(0)),
        4 => Mishap::Cut(usize::try_from(draw.below(3000)).unwrap()),
        5 => Mishap::Short,
        6 => Mishap::Garbage,
        7 => Mishap::Nonsense,
        _ => Mishap::Silence,
    }
}

fn blow(draw: &mut Draw) -> Blow {
    *draw.of(&[
        Blow::Reset,
        Blow::HalfAnEvent,
        Blow::Garbage,
        Blow::GarbledEvent,
        Blow::GarbledEvent,
        Blow::Expired,
        Blow::Failed,
        Blow::End,
        Blow::Bookmark,
        Blow::Bookmarks,
    ])
}

/// Says what happens where one schedule is looked at.
fn say(what: impl Fn() -> String) {
    if std::env::var_os("FAULT_SEED").is_some() {
        eprintln!("{}", what());
    }
}

pub(super) fn options() -> Options {
    Options {
        pace: Pace {
            backoff: Backoff {
                first: Duration::from_millis(5),
                longest: Duration::from_secs(1),
            },
            stream_patience: SILENCE,
        },
        kinds: Kind::ALL
            .iter()
            .copied()
            .filter(|k| RESOURCES.iter().any(|r| r.is(*k)))
            .collect(),
        ..Options::default()
    }
}

fn client(fake: &Fake) -> Client {
    let mut config = Config::new(fake.url().parse().unwrap());
    config.default_retry = false;
    config.connect_timeout = Some(SILENCE);
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    Client::try_from(config).unwrap()
}
