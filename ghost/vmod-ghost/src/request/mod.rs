//! The client's side of a request.
//!
//! [`receive`] finds the rule for a request, [`responses`] are the responses that ghost makes
//! itself, and [`deliver`](deliver()) finishes a response before varnishd sends it.
//! [`task`] is what ghost remembers meanwhile.

mod admission;
mod body;
mod deliver;
mod draining;
mod forwarding;
mod loops;
mod purging;
mod receive;
mod reserved;
mod responses;
mod survey;
mod synthetic;
mod task;
mod websocket;

pub use deliver::deliver;
pub use loops::mark;
pub use receive::{has_changed, receive};
pub use responses::{preflight, Responses};
pub use synthetic::Synthetic;
pub use task::{ClientTask, Outcome};
pub use websocket::{claim, expect_upgrade};
