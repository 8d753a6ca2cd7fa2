//! Delta and state-of-the-world ADS as a state machine without sockets, and its network adapter.
//!
//! [`Stream`] is the protocol: requests and [`xds::Published`] revisions go in, [`Action`]s come out. It knows no clock
//! and no socket, so its tests are tables of lines. [`Fanout`] is what streams share: differences between two sets and
//! encoded responses are computed once, however many streams send them. [`server`] puts both on HTTP/2.
//!
//! It deliberately does not know what a cluster contains; the little it knows of types is their order and that an
//! endpoint assignment is named after its cluster.

mod action;
mod answer;
mod budget;
mod change;
mod content;
mod fanout;
pub mod latest;
mod limits;
mod names;
mod request;
pub mod server;
mod status;
mod stream;
mod unserved;
pub mod wake;
mod watch;

pub use action::{Action, Event, Response};
pub use answer::{Answer, Entry};
pub use budget::{Account, Budget};
pub use content::{Content, Item};
pub use fanout::Fanout;
pub use limits::Limits;
pub use names::{Names, Selection};
pub use request::{Ask, Rejection, Request};
pub use status::{Code, Status};
pub use stream::{Protocol, Stream};
