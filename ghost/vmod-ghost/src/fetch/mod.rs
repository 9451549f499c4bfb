//! The backend's side of a request.
//!
//! [`prepare`](prepare()) chooses a backend and applies the request filters. A pool then
//! fetches [`with_retries`], within the [`deadlines`] of the rule. [`filter_response`]
//! applies the response filters of the backend.

mod admission;
mod deadlines;
mod filters;
mod order;
mod pause;
mod prepare;
mod response;
mod retry;
mod round;
mod task;
mod upgrade;

pub use filters::edit;
pub use prepare::prepare;
pub use response::filter_response;
pub use retry::with_retries;
pub use task::FetchTask;
pub use upgrade::{count_pipe, hand_over, Upgraded};
