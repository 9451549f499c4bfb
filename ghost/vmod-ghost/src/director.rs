//! Directors that ghost adds to a VCL, and references to them.

use std::ffi::CString;
use std::mem;
use std::ptr;

use crate::fence::fence;
use crate::sys::{self, Ctx};

/// A VCL that is warm for as long as this is used.
#[derive(Clone, Copy)]
pub struct Vcl(*mut sys::vcl);

// SAFETY: the pointer is only handed back to Varnish functions that lock for themselves.
unsafe impl Send for Vcl {}
// SAFETY: as above.
unsafe impl Sync for Vcl {}

impl Vcl {
    /// The VCL that a call runs in.
    ///
    /// # Safety
    /// `ctx` is a context that Varnish handed out.
    pub unsafe fn of(ctx: Ctx) -> Self {
        // SAFETY: as promised by the caller.
        Self(unsafe { (*ctx).vcl })
    }

    /// A context to add directors with, also away from the request threads: Varnish reads
    /// nothing but these two fields of it.
    pub fn context(self) -> sys::vrt_ctx {
        sys::vrt_ctx { magic: sys::VRT_CTX_MAGIC, vcl: self.0, ..Default::default() }
    }
}

/// Why Varnish did not take a director.
#[derive(Clone, Copy, Debug)]
pub struct Refused(pub &'static str);

impl Refused {
    /// Directors can't be added any more.
    pub const COOLING: Self = Self("the VCL is going cold");
}

/// A table of callbacks.
pub struct Methods(pub sys::vdi_methods);

// SAFETY: constant tables of function pointers and constant strings.
unsafe impl Sync for Methods {}

impl Methods {
    /// A table without any callback.
    pub const NONE: sys::vdi_methods =
        // SAFETY: a C struct of numbers and nullable pointers.
        sys::vdi_methods { magic: sys::VDI_METHODS_MAGIC, ..unsafe { mem::zeroed() } };
}

/// What a director of ghost's own keeps.
pub trait Kind: Send + Sync + Sized + 'static {
    /// Its callbacks, a static: the address tells the kinds apart. `destroy` must be
    /// [`destroy::<Self>`].
    const METHODS: &'static Methods;
}

/// An owned reference. The director goes when nobody refers to it any more, neither ghost
/// nor a request.
pub struct Director(sys::VCL_BACKEND);

// SAFETY: reference counting of directors locks for itself.
unsafe impl Send for Director {}
// SAFETY: as above.
unsafe impl Sync for Director {}

impl Director {
    /// Add a director of ghost's own to a VCL.
    pub fn add<K: Kind>(vcl: Vcl, name: &str, kind: K) -> Result<Self, Refused> {
        let name = CString::new(name.replace('\0', "?")).unwrap_or_default();
        let kind = Box::into_raw(Box::new(kind));
        let ctx = vcl.context();
        // SAFETY: the VCL is warm or loading; the format takes the one string that follows.
        let raw = unsafe {
            sys::VRT_AddDirector(
                &raw const ctx,
                &raw const K::METHODS.0,
                kind.cast(),
                c"%s".as_ptr(),
                name.as_ptr(),
            )
        };
        if raw.is_null() {
            // SAFETY: Varnish did not keep it, and does not call destroy then.
            drop(unsafe { Box::from_raw(kind) });
            return Err(Refused::COOLING);
        }
        Ok(Self(raw))
    }

    /// Take over the reference that Varnish returned.
    ///
    /// # Safety
    /// `raw` comes from a function that creates a director, and was not null.
    pub unsafe fn from_raw(raw: sys::VCL_BACKEND) -> Self {
        Self(raw)
    }

    /// To hand to Varnish.
    pub fn raw(&self) -> sys::VCL_BACKEND {
        self.0
    }
}

impl Drop for Director {
    fn drop(&mut self) {
        // Never VRT_DelDirector, which insists on being the last user, nor
        // VRT_DisableDirector, which would fail a background fetch that is under way.
        // SAFETY: gives back the reference that this value owns.
        unsafe { sys::VRT_Assign_Backend(&raw mut self.0, ptr::null()) }
    }
}

/// What `director` keeps, if it is of this kind.
///
/// # Safety
/// `director` is null or valid for `'a`.
pub unsafe fn kind_of<'a, K: Kind>(director: sys::VCL_BACKEND) -> Option<&'a K> {
    // SAFETY: a director has a vdir with a table of methods for as long as it lives; only
    // `Director::add` uses ours, with a K behind priv.
    unsafe {
        let director = director.as_ref()?;
        let ours = ptr::eq((*director.vdir).methods, &raw const K::METHODS.0);
        if ours {
            director.priv_.cast::<K>().as_ref()
        } else {
            None
        }
    }
}

/// The callbacks of a director that is not ours.
///
/// # Safety
/// `director` is valid for `'a`.
pub unsafe fn methods_of<'a>(director: sys::VCL_BACKEND) -> &'a sys::vdi_methods {
    // SAFETY: as promised by the caller.
    unsafe { &*(*(*director).vdir).methods }
}

/// Frees what a director of this kind keeps.
pub unsafe extern "C" fn destroy<K: Kind>(director: sys::VCL_BACKEND) {
    fence(ptr::null(), "destroy", (), || {
        // SAFETY: Varnish calls this once, last, for a director that `add` made.
        drop(unsafe { Box::from_raw((*director).priv_.cast::<K>()) });
    });
}
