//! The cache's decisions.

mod conditional;
mod directives;
mod freshness;
mod index;
mod invalidation;
mod key;
mod lookup;
mod methods;
mod policy;
mod purge;
mod rendered;
mod robustness;
mod store;
pub(crate) mod support;
mod syntax;
mod vary;
