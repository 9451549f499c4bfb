//! Why a call from VCL fails. The request then fails as after any error in VCL.

use crate::varnish::OutOfWorkspace;

/// Why a call fails.
#[derive(Clone, Copy, Debug)]
pub enum Failure {
    /// It has no meaning in this VCL subroutine.
    WrongSubroutine,
    /// `init()` was not called, or the VCL is cold.
    NotLoaded,
    /// The workspace or the header table is full.
    OutOfWorkspace,
    /// A part of the key has a NUL byte.
    OddKey,
}

impl Failure {
    /// What to do about it.
    pub fn text(self) -> &'static str {
        match self {
            Self::WrongSubroutine => "not to be called in this subroutine",
            Self::NotLoaded => "nothing is loaded: vcl_init has to call ghost.init()",
            Self::OutOfWorkspace => "out of workspace or too many headers",
            Self::OddKey => "the request has a NUL byte in what its key is made from",
        }
    }
}

impl From<OutOfWorkspace> for Failure {
    fn from(_: OutOfWorkspace) -> Self {
        Self::OutOfWorkspace
    }
}
