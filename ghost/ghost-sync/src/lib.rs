//! Concurrent structures of the VMOD, apart from varnishd.
//!
//! Each is small enough for a model checker: `make loom` runs every interleaving of the threads
//! in `tests/models`, or those with few preemptions. A structure that several threads change
//! belongs here, built from [`primitives`], with a model of what it promises.
//!
//! | Structure | Promise |
//! |---|---|
//! | [`Alarms`] | a value is due or taken back, never both; the thread never sleeps through one |
//! | [`Findings`] | no finding is lost, where one name has the slot |
//! | [`Gate`] | once it is closed, no thread uses what is behind it |
//! | [`Handover`] | what is left for a thread reaches it once, or goes away; of no other one |
//! | [`Notes`] | a note is found once, and there are never more than allowed |
//! | [`Numbering`] | a key has one number, and two keys have two |
//! | [`OncePerSecond`] | of several threads in one second, one is told to go on |
//! | [`PerMinute`] | no occurrence is lost, not even where a thread is late |
//! | [`Permit`] | there are never more than allowed, and each is given back once |
//! | [`Published`] | a reader that sees a generation finds it, or a later one |
//! | [`Served`] | what is served never goes back, and once it has stopped, nothing is served |
//! | [`Turns`] | there are never more turns and places than allowed, and all come back |
#![forbid(unsafe_code)]

mod alarms;
mod findings;
mod gate;
mod handover;
mod notes;
mod numbering;
mod permits;
mod primitives;
mod published;
mod rates;
mod served;
mod turns;

pub use alarms::{Alarm, Alarms};
pub use findings::Findings;
pub use gate::{Gate, Visit};
pub use handover::{Expected, Handover, Waiting};
pub use notes::Notes;
pub use numbering::Numbering;
pub use permits::{Holders, Permit};
pub use primitives::Swapped;
pub use published::{Generation, Published};
pub use rates::{OncePerSecond, PerMinute};
pub use served::Served;
pub use turns::{Place, Turns};
