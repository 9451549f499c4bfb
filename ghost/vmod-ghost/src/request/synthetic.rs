//! Synthetic responses: the kind of director that makes them.

use crate::fetch::count_pipe;
use crate::varnish::{Director, Fetch, Kind, Methods, Refused, Respond, Response, Vcl};

type Responder = dyn Fn(&Fetch<'_>) -> Response + Send + Sync;

/// What such a director holds: how to respond to a fetch.
pub struct Synthetic(Box<Responder>);

impl Synthetic {
    /// Add one to a VCL.
    pub fn add(
        vcl: &Vcl,
        name: &str,
        responder: impl Fn(&Fetch<'_>) -> Response + Send + Sync + 'static,
    ) -> Result<Director, Refused> {
        Director::add(vcl, &format!("answer({name})"), Self(Box::new(responder)))
    }
}

impl Kind for Synthetic {
    fn methods() -> &'static Methods<Self> {
        static METHODS: Methods<Synthetic> = Methods::responding(c"ghost-answer");
        &METHODS
    }
}

impl Respond for Synthetic {
    fn respond(&self, fetch: &Fetch<'_>) -> Response {
        let response = (self.0)(fetch);
        count_pipe(fetch, response.status);
        response
    }
}
