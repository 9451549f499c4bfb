//! ghost-core as the Python module `varnish_gateway._ghost`.
//!
//! In:  bytes of wire documents, regular expressions, requests.
//! Out: `ValueError` with the reason, or an explanation as JSON. The shape of it is in
//!      `_ghost.pyi`, which is kept by hand.

mod answer;
mod question;
mod table;

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
        answer, pyclass, pyfunction, pymethods, question, table, value_error, wire, Bound, PyBytes,
        PyResult, Python,
    };

    /// Raise `ValueError` unless ghost takes `pattern` as a regular expression.
    #[pyfunction]
    fn validate_regex(pattern: &str) -> PyResult<()> {
        ghost_core::validate_regex(pattern).map_err(value_error)
    }

    /// Raise `ValueError` unless ghost takes `document` as a routing shard.
    #[pyfunction]
    fn check_routing(document: &[u8]) -> PyResult<()> {
        let routing: wire::Routing = wire::decode(document).map_err(value_error)?;
        for route in &routing.routes {
            ghost_core::Route::compile(route).map_err(value_error)?;
        }
        Ok(())
    }

    /// Raise `ValueError` unless ghost takes `document` as an endpoint shard.
    #[pyfunction]
    fn check_endpoints(document: &[u8]) -> PyResult<()> {
        wire::decode::<wire::Endpoints>(document).map(drop).map_err(value_error)
    }

    /// Raise `ValueError` unless ghost takes `document` as its `ghost.json`.
    #[pyfunction]
    fn check_config(document: &[u8]) -> PyResult<()> {
        wire::decode_config(document).map(drop).map_err(value_error)
    }

    /// The router that ghost serves with, for questions.
    #[pyclass]
    #[derive(Default)]
    struct Router(table::Table);

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

        /// Which rule serves a request, and why not the others.
        fn explain<'py>(
            &self,
            py: Python<'py>,
            socket: &str,
            method: &str,
            url: &str,
            headers: Vec<(String, String)>,
        ) -> PyResult<Bound<'py, PyBytes>> {
            let question =
                question::Question::new(socket, method, url, headers).map_err(value_error)?;
            let explanation = self.0.router().explain(&question);
            let answer = answer::Answer::new(&explanation, &question);
            let json = serde_json::to_vec(&answer).map_err(value_error)?;
            Ok(PyBytes::new(py, &json))
        }
    }
}
