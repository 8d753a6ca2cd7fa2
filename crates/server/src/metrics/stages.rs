//! How long each stage of a push takes.

use prometheus::{Histogram, HistogramOpts, HistogramVec, Registry};

/// Seconds of each stage of a push, `pilothouse_stage_seconds`.
pub struct Stages {
    /// A source reads what changed.
    pub read: Histogram,
    /// The store takes a batch in.
    pub apply: Histogram,
    /// What the batch may affect is marked.
    pub dirty: Histogram,
    /// Derivations, and the encoding of resources.
    pub evaluate: Histogram,
    /// What changed is handed to the streams, and findings are gathered.
    pub publish: Histogram,
    /// A stream works out what its proxy lacks.
    pub merge: Histogram,
    /// A response is encoded, once for all streams that send the same.
    pub encode: Histogram,
    /// From a change until a response with it is given to the connection.
    pub write: Histogram,
    /// From a response until its acknowledgement.
    pub ack: Histogram,
}

impl Stages {
    pub(super) fn new(registry: &Registry) -> prometheus::Result<Self> {
        let stages = HistogramVec::new(
            HistogramOpts::new("pilothouse_stage_seconds", "Time of a push, by stage.").buckets(
                vec![
                    1e-6, 1e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1,
                    0.5, 1.0, 5.0,
                ],
            ),
            &["stage"],
        )?;
        registry.register(Box::new(stages.clone()))?;
        let stage = |name| stages.with_label_values(&[name]);
        Ok(Self {
            read: stage("read"),
            apply: stage("apply"),
            dirty: stage("dirty"),
            evaluate: stage("evaluate"),
            publish: stage("publish"),
            merge: stage("merge"),
            encode: stage("encode"),
            write: stage("write"),
            ack: stage("ack"),
        })
    }
}
