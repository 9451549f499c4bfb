//! Publishes vmodtool's table under the symbol that varnishd looks up.
//!
//! rustc's version script hides every C symbol of a cdylib. build.rs therefore compiles the
//! table under another name, and the loader copies it here when it opens the library.

use std::mem::MaybeUninit;

use super::sys::vmod_data;

#[link(name = "ghost_vcc", kind = "static")]
extern "C" {
    static ghost_vmod_data_c: vmod_data;
}

/// Filled before `dlopen` returns; varnishd reads it after that.
#[no_mangle]
static mut Vmod_ghost_Data: MaybeUninit<vmod_data> = MaybeUninit::zeroed();

extern "C" fn publish() {
    // SAFETY: the loader runs this once, before varnishd can look the symbol up; the source
    // is a constant of the linked C object.
    unsafe { Vmod_ghost_Data = MaybeUninit::new(ghost_vmod_data_c) }
}

#[used]
#[link_section = ".init_array"]
static PUBLISH: extern "C" fn() = publish;
