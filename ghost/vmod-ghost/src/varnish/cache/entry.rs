//! The functions that VCL calls for the cache.

use super::super::client::Client;
use super::super::entry::{Function, CLIENT};
use super::super::fetch::Fetch;
use super::super::sys;
use crate::cache;
use crate::failure::Failure;

/// Ask about a request.
///
/// # Safety
/// `memory` is what varnishd passed.
unsafe fn of_client(
    function: Function,
    ctx: &sys::vrt_ctx,
    memory: *mut sys::vmod_priv,
    ask: impl FnOnce(&Client<'_>) -> Result<bool, Failure>,
) -> sys::VCL_BOOL {
    // SAFETY: as promised by the caller.
    unsafe { function.client(ctx, memory, 0, |client, _| ask(client).map(sys::VCL_BOOL::from)) }
}

/// Ask about a fetch.
///
/// # Safety
/// `memory` is what varnishd passed.
unsafe fn of_fetch(
    function: Function,
    ctx: &sys::vrt_ctx,
    memory: *mut sys::vmod_priv,
    ask: impl FnOnce(&mut Fetch<'_>) -> Result<bool, Failure>,
) -> sys::VCL_BOOL {
    // SAFETY: as promised by the caller.
    unsafe { function.fetch(ctx, memory, 0, |fetch, _| ask(fetch).map(sys::VCL_BOOL::from)) }
}

/// `BOOL lookup(PRIV_VCL)`
#[no_mangle]
unsafe extern "C" fn ghost_lookup(
    ctx: &sys::vrt_ctx,
    memory: *mut sys::vmod_priv,
) -> sys::VCL_BOOL {
    // SAFETY: varnishd passes the memory of this VCL.
    unsafe {
        Function::new("lookup", CLIENT).client(ctx, memory, 0, |client, instance| {
            cache::lookup(client, instance).map(sys::VCL_BOOL::from)
        })
    }
}

/// `VOID hash(PRIV_VCL)`
#[no_mangle]
unsafe extern "C" fn ghost_hash(ctx: &sys::vrt_ctx, memory: *mut sys::vmod_priv) {
    let function = Function::new("hash", sys::VCL_MET_HASH);
    // SAFETY: varnishd passes the memory of this VCL.
    unsafe { function.client(ctx, memory, (), cache::hash) };
}

/// `BOOL keyed(PRIV_VCL)`
#[no_mangle]
unsafe extern "C" fn ghost_keyed(ctx: &sys::vrt_ctx, memory: *mut sys::vmod_priv) -> sys::VCL_BOOL {
    let function = Function::new("keyed", sys::VCL_MET_HASH);
    // SAFETY: varnishd passes the memory of this VCL.
    unsafe { of_client(function, ctx, memory, |client| Ok(cache::is_keyed(client))) }
}

/// `VOID miss(PRIV_VCL)`
#[no_mangle]
unsafe extern "C" fn ghost_miss(ctx: &sys::vrt_ctx, memory: *mut sys::vmod_priv) {
    let function = Function::new("miss", sys::VCL_MET_MISS);
    // SAFETY: varnishd passes the memory of this VCL.
    unsafe { function.client(ctx, memory, (), cache::miss) };
}

/// `BOOL store(PRIV_VCL)`
#[no_mangle]
unsafe extern "C" fn ghost_store(ctx: &sys::vrt_ctx, memory: *mut sys::vmod_priv) -> sys::VCL_BOOL {
    let function = Function::new("store", sys::VCL_MET_BACKEND_RESPONSE);
    // SAFETY: varnishd passes the memory of this VCL.
    unsafe {
        function.fetch(ctx, memory, 0, |fetch, instance| {
            cache::store(fetch, instance).map(sys::VCL_BOOL::from)
        })
    }
}

/// `BOOL decided(PRIV_VCL)`
#[no_mangle]
unsafe extern "C" fn ghost_decided(
    ctx: &sys::vrt_ctx,
    memory: *mut sys::vmod_priv,
) -> sys::VCL_BOOL {
    let function = Function::new("decided", sys::VCL_MET_BACKEND_RESPONSE);
    // SAFETY: varnishd passes the memory of this VCL.
    unsafe { of_fetch(function, ctx, memory, cache::is_decided) }
}

/// `BOOL stale(PRIV_VCL)`
#[no_mangle]
unsafe extern "C" fn ghost_stale(ctx: &sys::vrt_ctx, memory: *mut sys::vmod_priv) -> sys::VCL_BOOL {
    let function = Function::new("stale", sys::VCL_MET_BACKEND_ERROR);
    // SAFETY: varnishd passes the memory of this VCL.
    unsafe { of_fetch(function, ctx, memory, |fetch| Ok(cache::serve_stale(fetch))) }
}

/// `BOOL revived(PRIV_VCL)`
#[no_mangle]
unsafe extern "C" fn ghost_revived(
    ctx: &sys::vrt_ctx,
    memory: *mut sys::vmod_priv,
) -> sys::VCL_BOOL {
    let function = Function::new("revived", sys::VCL_MET_SYNTH);
    // SAFETY: varnishd passes the memory of this VCL.
    unsafe { of_client(function, ctx, memory, cache::is_revived) }
}
