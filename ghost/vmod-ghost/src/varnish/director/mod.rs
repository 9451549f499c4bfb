//! Directors that ghost adds to a VCL, and references to them.

pub(super) mod group;
pub(super) mod held;
pub(super) mod resolve;

use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::mem;
use std::ptr;

use super::fence::fence;
use super::identity::Identity;
use super::sys;
use super::vcl::{context, Vcl};

/// Why varnishd did not accept a director.
#[derive(Clone, Copy, Debug)]
pub struct Refused(pub &'static str);

impl Refused {
    /// The VCL accepts no directors at this time.
    pub(super) const COOLING: Self = Self("the VCL is going cold");
}

/// The callbacks of directors that hold a `K`. Its constructors are with the traits that
/// say what such a director does: [`resolving`](Self::resolving),
/// [`balancing`](Self::balancing) and [`responding`](Self::responding).
pub struct Methods<K> {
    table: sys::vdi_methods,
    _identity: Identity,
    _of: PhantomData<fn() -> K>,
}

// SAFETY: varnishd and ghost only read it.
unsafe impl<K> Sync for Methods<K> {}

/// What a director of ghost's own holds.
pub trait Kind: Send + Sync + Sized + 'static {
    /// Its callbacks, a static: the address tells the kinds apart.
    fn methods() -> &'static Methods<Self>;
}

impl<K: Kind> Methods<K> {
    /// These callbacks, under the type that `backend.list` shows, and one that frees the
    /// `K`.
    pub(super) const fn new(type_: &'static CStr, callbacks: sys::vdi_methods) -> Self {
        let table = sys::vdi_methods {
            magic: sys::VDI_METHODS_MAGIC,
            type_: type_.as_ptr(),
            destroy: Some(destroy::<K>),
            ..callbacks
        };
        Self { table, _identity: Identity::new(), _of: PhantomData }
    }
}

/// A table without any callback.
// SAFETY: a C struct of numbers and nullable pointers.
pub(super) const NO_CALLBACKS: sys::vdi_methods = unsafe { mem::zeroed() };

/// A counted reference. varnishd destroys the director when neither ghost nor a request
/// refers to it.
pub struct Director {
    raw: sys::VCL_BACKEND,
    vcl: Vcl,
}

// SAFETY: varnishd locks around reference counts, and ghost's kinds are Send and Sync.
unsafe impl Send for Director {}
// SAFETY: as above.
unsafe impl Sync for Director {}

impl Director {
    /// Add a director of ghost's own to a VCL.
    pub fn add<K: Kind>(vcl: &Vcl, name: &str, kind: K) -> Result<Self, Refused> {
        let name = CString::new(name.replace('\0', "?")).unwrap_or_default();
        let visit = vcl.visit().ok_or(Refused::COOLING)?;
        let ctx = context(&visit);
        let kind = Box::into_raw(Box::new(kind));
        // SAFETY: the VCL is warm; the format takes the one string that follows.
        let raw = unsafe {
            sys::VRT_AddDirector(
                &raw const ctx,
                &raw const K::methods().table,
                kind.cast(),
                c"%s".as_ptr(),
                name.as_ptr(),
            )
        };
        if raw.is_null() {
            // SAFETY: varnishd did not keep it, and does not call `destroy` then.
            drop(unsafe { Box::from_raw(kind) });
            return Err(Refused::COOLING);
        }
        Ok(Self { raw, vcl: vcl.clone() })
    }

    /// Take over the reference that varnishd returned.
    ///
    /// # Safety
    /// `raw` is not null, and comes from a function that creates a director in `vcl`.
    pub(super) unsafe fn from_raw(raw: sys::VCL_BACKEND, vcl: &Vcl) -> Self {
        Self { raw, vcl: vcl.clone() }
    }

    /// The director, for a call in the VCL that it belongs to; None in any other. It is
    /// valid for as long as this value is held during that call.
    pub(super) fn raw_in(&self, running: *const sys::vcl) -> Option<sys::VCL_BACKEND> {
        self.vcl.is(running).then_some(self.raw)
    }
}

impl Drop for Director {
    fn drop(&mut self) {
        // A VCL that is not warm may be gone. ghost drops its directors before, for one that
        // is left fails an assertion of varnishd's when it discards the VCL.
        let Some(_visit) = self.vcl.visit() else { return };
        // Never VRT_DelDirector, which insists on being the last user, nor
        // VRT_DisableDirector, which would fail a background fetch that is under way.
        // SAFETY: the VCL is warm; this gives back the reference that the value owns.
        unsafe { sys::VRT_Assign_Backend(&raw mut self.raw, ptr::null()) }
    }
}

/// What `director` holds, if it is of this kind.
///
/// # Safety
/// `director` is null or valid for `'a`.
pub(super) unsafe fn kind_of<'a, K: Kind>(director: sys::VCL_BACKEND) -> Option<&'a K> {
    // SAFETY: a director has a vdir with a table of methods for as long as it lives. Only
    // `Director::add` uses a table of ghost's, with a K in `priv`.
    unsafe {
        let director = director.as_ref()?;
        let ours = ptr::eq((*director.vdir).methods, &raw const K::methods().table);
        if ours {
            director.priv_.cast::<K>().as_ref()
        } else {
            None
        }
    }
}

/// The VCL that a director belongs to.
///
/// # Safety
/// `director` is valid.
pub(super) unsafe fn vcl_of(director: sys::VCL_BACKEND) -> *const sys::vcl {
    // SAFETY: as promised by the caller.
    unsafe { (*(*director).vdir).vcl }
}

/// The callbacks of a director, whichever kind it is.
///
/// # Safety
/// `director` is valid for `'a`.
pub(super) unsafe fn methods_of<'a>(director: sys::VCL_BACKEND) -> &'a sys::vdi_methods {
    // SAFETY: as promised by the caller.
    unsafe { &*(*(*director).vdir).methods }
}

unsafe extern "C" fn destroy<K: Kind>(director: sys::VCL_BACKEND) {
    fence(None, "destroy", (), || {
        // SAFETY: varnishd calls this once, last, for a director that `add` made.
        drop(unsafe { Box::from_raw((*director).priv_.cast::<K>()) });
    });
}
