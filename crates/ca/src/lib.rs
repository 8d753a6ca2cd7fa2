//! The certificate authority of a mesh: its keys and roots, and what it signs.
//!
//! An [`Authority`] has a [`Signer`] and [`Roots`], whatever stands behind them: certificates that an operator plugged in
//! ([`plugged`]), a CA that signs itself and rotates its root ([`self_signed`]), or signers of a cluster ([`registration`]).
//! Who may ask for which names is decided before: a [`SigningRequest`] carries the names that its caller has proven.

pub mod authority;
pub mod certificate;
pub mod csr;
pub mod issuer;
pub mod key;
pub mod path;
pub mod pem;
pub mod plugged;
pub mod registration;
pub mod roots;
pub mod san;
pub mod self_signed;
pub mod signer;

mod public_key;

pub use authority::{Authority, State};
pub use certificate::Certificate;
pub use csr::{Csr, CsrError};
pub use issuer::{Issuer, IssuerError};
pub use key::{KeyAlgorithm, PrivateKey};
pub use roots::Roots;
pub use signer::{Issued, Lifetimes, SignError, Signer, SigningRequest};

use std::sync::Arc;
use std::time::SystemTime;

/// What time it is. Tests have their own.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// The clock of this machine.
pub fn system_clock() -> Clock {
    Arc::new(SystemTime::now)
}
