//! The server's usage over a run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::process::{Process, Usage};

/// How often the server's usage is looked at.
const SAMPLING: Duration = Duration::from_millis(200);

/// The server at one moment of the run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// Seconds of the run.
    pub at_s: f64,
    /// What it had used.
    #[serde(flatten)]
    pub usage: Usage,
}

/// Looks at the server's usage until it is told to end.
pub(super) struct Sampling {
    samples: Arc<Mutex<Vec<Sample>>>,
    done: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Sampling {
    pub(super) fn start(server: Arc<Process>, start: Instant) -> Self {
        let samples = Arc::new(Mutex::new(Vec::new()));
        let done = Arc::new(AtomicBool::new(false));
        let watching = watch(server, start, Arc::clone(&samples), Arc::clone(&done));
        Self {
            samples,
            done,
            task: tokio::spawn(watching),
        }
    }

    pub(super) async fn finish(self) -> Vec<Sample> {
        self.done.store(true, Ordering::Relaxed);
        // It ends by itself; a panic of it costs the picture.
        let _ = self.task.await;
        std::mem::take(&mut *self.samples.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn watch(
    server: Arc<Process>,
    start: Instant,
    samples: Arc<Mutex<Vec<Sample>>>,
    done: Arc<AtomicBool>,
) {
    while !done.load(Ordering::Relaxed) {
        let sample = Sample {
            at_s: start.elapsed().as_secs_f64(),
            usage: server.usage(),
        };
        samples
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(sample);
        sleep(SAMPLING).await;
    }
}

/// The slope of the line that fits memory best, from the sixth minute on.
pub(super) fn growth(samples: &[Sample]) -> Option<f64> {
    const WARM: f64 = 300.0;
    let late: Vec<(f64, f64)> = samples
        .iter()
        .filter(|s| s.at_s >= WARM)
        .map(|s| (s.at_s / 60.0, s.usage.rss_bytes as f64))
        .collect();
    let (first, last) = (late.first()?, late.last()?);
    if last.0 - first.0 < 1.0 {
        return None;
    }
    let count = late.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| late.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let rise: f64 = late.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let run: f64 = late.iter().map(|p| (p.0 - x).powi(2)).sum();
    (run > 0.0).then(|| rise / run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_the_slope_after_the_first_five_minutes() {
        let sample = |second: usize, rss_bytes| Sample {
            at_s: second as f64,
            usage: Usage {
                cpu_s: 0.0,
                rss_bytes,
            },
        };
        // Steep at first, then 6,000 bytes a minute.
        let run = |seconds| {
            (0..seconds).map(|s| sample(s, if s < 300 { 1000 * s } else { 100 * s } as u64))
        };
        let grown = growth(&run(900).collect::<Vec<_>>()).unwrap();
        assert!((grown - 6_000.0).abs() < 1e-3, "{grown}");
        assert_eq!(growth(&run(330).collect::<Vec<_>>()), None);
        assert_eq!(growth(&[]), None);
    }
}
