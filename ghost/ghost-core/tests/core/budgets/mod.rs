//! Budgets of routes and of requests.

mod policy;
mod request;
mod route;
mod shares;
