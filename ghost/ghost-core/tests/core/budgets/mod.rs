//! Budgets of routes and of requests.

mod request;
mod route;
