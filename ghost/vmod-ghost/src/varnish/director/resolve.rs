//! Directors that point to others and fetch nothing themselves.

use std::ffi::CStr;
use std::ptr;

use super::group::{healthy, list, Group};
use super::{kind_of, vcl_of, Director, Methods, NO_CALLBACKS};
use crate::varnish::fence::fence;
use crate::varnish::sys::{self, Ctx};

/// A director that points to others.
pub trait Resolve: Group {
    /// The director that serves the next fetch.
    fn resolve(&self) -> Option<&Director>;
}

impl<K: Resolve> Methods<K> {
    /// The callbacks of such a director.
    pub const fn resolving(type_: &'static CStr) -> Self {
        let callbacks = sys::vdi_methods {
            resolve: Some(resolve::<K>),
            healthy: Some(healthy::<K>),
            list: Some(list::<K>),
            ..NO_CALLBACKS
        };
        Self::new(type_, callbacks)
    }
}

/// varnishd references the result while it still refers to `director`, which owns it.
unsafe extern "C" fn resolve<K: Resolve>(ctx: Ctx, director: sys::VCL_BACKEND) -> sys::VCL_BACKEND {
    // SAFETY: varnishd passes a context, and a director of this kind.
    let (ctx, kind, vcl) = unsafe { (ctx.as_ref(), kind_of::<K>(director), vcl_of(director)) };
    fence(ctx, "resolve", ptr::null(), || {
        let resolved = kind.and_then(K::resolve).and_then(|one| one.raw_in(vcl));
        resolved.unwrap_or(ptr::null())
    })
}
