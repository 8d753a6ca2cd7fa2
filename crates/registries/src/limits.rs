//! How much of what a registry says is taken. What is over is left out, and told.

/// Limits of one registry.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Services.
    pub services: usize,
    /// Instances of one service; the first by address.
    pub instances: usize,
    /// Pairs of metadata of one instance; the first by key.
    pub pairs: usize,
    /// Bytes of a key of metadata.
    pub key_bytes: usize,
    /// Bytes of a value of metadata.
    pub value_bytes: usize,
    /// Bytes of the host of a service.
    pub host_bytes: usize,
    /// Bytes of all services together.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            services: 20_000,
            instances: 4_000,
            pairs: 64,
            key_bytes: 256,
            value_bytes: 1_024,
            host_bytes: 512,
            bytes: 256 << 20,
        }
    }
}
