//! ghost-core as the Python module `varnish_gateway._ghost`.
//!
//! In:  wire documents as bytes, regular expressions, requests.
//! Out: `ValueError` with the reason, or an explanation as JSON. `_ghost.pyi` describes its
//!      fields; it is maintained by hand.

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
        explanation, pyclass, pyfunction, pymethods, request, shards, value_error, wire, Bound,
        PyBytes, PyResult, Python,
    };

    /// What a regular expression takes from the budget of its route, and why ghost rejects it.
    #[pyfunction]
    fn compile_regex(pattern: &str) -> (usize, Option<String>) {
        let (compiled, charge) = ghost_core::Pattern::compile(pattern);
        (charge, compiled.err().map(|error| error.to_string()))
    }

    /// What the regular expressions of one route may take together.
    #[pyfunction]
    fn route_regex_budget() -> usize {
        ghost_core::budget::ROUTE_BUDGET
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
            let request = request::request(socket, method, url, headers).map_err(value_error)?;
            let explanation = self.0.router().explain(&request);
            let document = explanation::Document::new(&explanation, &request);
            let json = serde_json::to_vec(&document).map_err(value_error)?;
            Ok(PyBytes::new(py, &json))
        }
    }
}
