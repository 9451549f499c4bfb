//! ghost-core as the Python module `varnish_gateway._ghost`.
//!
//! In:  wire documents as bytes, regular expressions, requests.
//! Out: `ValueError` with the reason, or an explanation as JSON. `_ghost.pyi` describes its
//!      fields; it is maintained by hand.

mod caching;
mod decisions;
mod explanation;
mod request;
mod shards;

use ghost_core::wire;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

#[pymodule]
mod _ghost {
    use super::{
        caching, explanation, pyclass, pyfunction, pymethods, request, shards, value_error, wire,
        Bound, PyBytes, PyResult, Python,
    };

    #[pymodule_export]
    use super::decisions::{invalidated_paths, CacheDecisions, CacheObject};

    /// What a regular expression takes from the budget of its route, and why ghost rejects it.
    /// Other threads of Python run meanwhile.
    #[pyfunction]
    fn compile_regex(py: Python<'_>, pattern: &str) -> (usize, Option<String>) {
        py.detach(|| {
            let (compiled, charge) = ghost_core::Pattern::compile(pattern);
            (charge, compiled.err().map(|error| error.to_string()))
        })
    }

    /// What the regular expressions of one route may take together.
    #[pyfunction]
    fn route_regex_budget() -> usize {
        ghost_core::budget::ROUTE_BUDGET
    }

    /// What the patterns of a cache policy take from the budget of a route, and why ghost
    /// rejects the policy. Raise `ValueError` where `document` is no policy. Other threads of
    /// Python run meanwhile.
    #[pyfunction]
    fn compile_cache_policy(py: Python<'_>, document: &[u8]) -> PyResult<(usize, Option<String>)> {
        let policy: wire::CachePolicy = wire::decode(document).map_err(value_error)?;
        Ok(py.detach(|| {
            let mut budget = ghost_core::budget::Budget::default();
            let compiled = ghost_core::cache::Policy::compile_within(&policy, &mut budget);
            (budget.spent(), compiled.err().map(|error| error.to_string()))
        }))
    }

    /// Explain what the cache does with a request, and with a response to it.
    #[pyfunction]
    fn explain_cache<'py>(
        py: Python<'py>,
        policy: &[u8],
        question: &[u8],
    ) -> PyResult<Bound<'py, PyBytes>> {
        let policy: wire::CachePolicy = wire::decode(policy).map_err(value_error)?;
        let policy = ghost_core::cache::Policy::compile(&policy).map_err(value_error)?;
        let question: caching::Question = serde_json::from_slice(question).map_err(value_error)?;
        let document = caching::Document::new(&policy, &question);
        let json = serde_json::to_vec(&document).map_err(value_error)?;
        Ok(PyBytes::new(py, &json))
    }

    /// Raise `ValueError` unless ghost accepts `document` as a routing shard.
    #[pyfunction]
    fn check_routing(document: &[u8]) -> PyResult<()> {
        let routing: wire::Routing = wire::decode(document).map_err(value_error)?;
        for route in &routing.routes {
            ghost_core::Route::compile(route).map_err(value_error)?;
        }
        Ok(())
    }

    /// Raise `ValueError` unless ghost accepts `document` as an endpoint shard.
    #[pyfunction]
    fn check_endpoints(document: &[u8]) -> PyResult<()> {
        wire::decode::<wire::Endpoints>(document).map(drop).map_err(value_error)
    }

    /// Raise `ValueError` unless ghost accepts `document` as its `ghost.json`.
    #[pyfunction]
    fn check_config(document: &[u8]) -> PyResult<()> {
        wire::decode_config(document).map(drop).map_err(value_error)
    }

    /// The router of ghost, for tools that ask what it would do.
    #[pyclass]
    #[derive(Default)]
    struct Router(shards::ShardedRouter);

    #[pymethods]
    impl Router {
        #[new]
        fn new() -> Self {
            Self::default()
        }

        /// Load a routing shard in place of the one with the same number.
        fn update(&mut self, shard: &[u8]) -> PyResult<()> {
            let routing = wire::decode(shard).map_err(value_error)?;
            self.0.update(&routing).map_err(value_error)
        }

        /// Explain which rule serves a request, and why the others do not.
        fn explain<'py>(
            &self,
            py: Python<'py>,
            socket: &str,
            method: &str,
            url: &str,
            headers: Vec<(String, String)>,
        ) -> PyResult<Bound<'py, PyBytes>> {
            let (request, authority) =
                request::request(socket, method, url, headers, self.0.paths())
                    .map_err(value_error)?;
            let explanation = self.0.router().explain(&request);
            let document = explanation::Document::new(&explanation, &request, authority);
            let json = serde_json::to_vec(&document).map_err(value_error)?;
            Ok(PyBytes::new(py, &json))
        }
    }
}
