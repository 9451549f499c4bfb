//! One pass over the head of a request, for what few requests have.
//!
//! Every request pays for what `recv` looks for, and most of it is absent. So `recv` reads
//! the header lines once, and looks again only for what is there.

use super::loops;
use super::reserved::is_reserved;
use crate::varnish::{value_of, Http};

/// Which headers a request has that `recv` acts on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Survey {
    /// One that clients must not send, or that `recv` itself set before a restart.
    pub reserved: bool,
    /// Forwarded.
    pub forwarded: bool,
    /// CDN-Loop.
    pub cdn_loop: bool,
}

impl Survey {
    /// Of this request.
    pub fn of(http: &Http<'_>) -> Self {
        let mut found = Self::default();
        for line in http.lines() {
            // The first letter rules most headers out.
            match line.first() {
                Some(b'x' | b'X') => found.reserved |= is_reserved(line),
                Some(b'f' | b'F') => found.forwarded |= value_of(line, b"forwarded").is_some(),
                Some(b'c' | b'C') => found.cdn_loop |= value_of(line, loops::HEADER).is_some(),
                _ => {}
            }
        }
        found
    }
}
