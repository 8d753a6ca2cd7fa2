//! The heap profile, where the program was built for it.

use http::StatusCode;

use super::{Page, PageError};

/// How to get a profile.
#[cfg(not(feature = "heap-profile"))]
const BUILD: &str = "this program cannot profile its heap; one that can is built by\n\
    cargo build --release -p pilothouse --features heap-profile\n\
    and started with _RJEM_MALLOC_CONF=prof:true in its environment";
#[cfg(feature = "heap-profile")]
const START: &str =
    "heap profiling is off; start the program with _RJEM_MALLOC_CONF=prof:true in its environment";

/// Where memory that is in use was allocated, for `pprof`: a sample of one allocation in 512 KiB, unless the
/// environment says otherwise (`lg_prof_sample`).
#[cfg(feature = "heap-profile")]
pub(super) async fn page() -> Result<Page, PageError> {
    let off = || PageError::new(StatusCode::SERVICE_UNAVAILABLE, START);
    let control = jemalloc_pprof::PROF_CTL.as_ref().ok_or_else(off)?.clone();
    let mut control = control.lock_owned().await;
    if !control.activated() {
        return Err(off());
    }
    // Names of functions are looked up in the program's file, which takes seconds.
    let dumped = tokio::task::spawn_blocking(move || control.dump_pprof()).await;
    let failed = |reason: String| PageError::new(StatusCode::INTERNAL_SERVER_ERROR, reason);
    let profile = dumped.map_err(|error| failed(error.to_string()))?;
    profile
        .map(Page::Profile)
        .map_err(|error| failed(format!("{error:#}")))
}

/// Says how to get a profile.
#[cfg(not(feature = "heap-profile"))]
#[expect(clippy::unused_async, reason = "the page is asked for in the same way")]
pub(super) async fn page() -> Result<Page, PageError> {
    Err(PageError::new(StatusCode::NOT_IMPLEMENTED, BUILD))
}
