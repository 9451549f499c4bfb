//! The functions that VCL calls, as vmodtool declares them.
//!
//! Each one checks where VCL calls it, wraps what varnishd passes, and hands over to safe
//! code inside a fence. A failure fails the request, with its reason in the log.

use std::ffi::CStr;
use std::ptr;

use super::client::Client;
use super::director::held::{Backend, Returned};
use super::event::instance;
use super::fence::{fail, fence};
use super::fetch::Fetch;
use super::sys;
use super::{task, workspace};
use crate::config::Instance;
use crate::failure::Failure;
use crate::request::ClientTask;
use crate::{fetch, request};

const DEFAULT_PROBE: &str =
    "a probe named default would be that of the gateway's endpoints, too; give it another name";

/// Subroutines of the client's side.
pub(super) const CLIENT: u32 = sys::VCL_MET_TASK_C;
const FETCH: u32 = sys::VCL_MET_BACKEND_FETCH | sys::VCL_MET_PIPE;
const RESPONSE: u32 = sys::VCL_MET_BACKEND_RESPONSE | sys::VCL_MET_BACKEND_ERROR;
const DELIVER: u32 = sys::VCL_MET_DELIVER | sys::VCL_MET_SYNTH;

/// A function of the VMOD, and the subroutines that may call it.
#[derive(Clone, Copy)]
pub(super) struct Function {
    name: &'static str,
    subroutines: u32,
}

impl Function {
    pub(super) const fn new(name: &'static str, subroutines: u32) -> Self {
        Self { name, subroutines }
    }

    /// Run a call on the client's side.
    ///
    /// # Safety
    /// `memory` is what varnishd passed.
    pub(super) unsafe fn client<'c, T: Copy>(
        self,
        ctx: &'c sys::vrt_ctx,
        memory: *mut sys::vmod_priv,
        fallback: T,
        body: impl FnOnce(&Client<'c>, &Instance) -> Result<T, Failure>,
    ) -> T {
        // SAFETY: as promised by the caller.
        unsafe {
            self.call(ctx, memory, fallback, |instance| {
                body(&Client::new(ctx).ok_or(Failure::WrongSubroutine)?, instance)
            })
        }
    }

    /// Run a call of a fetch or a pipe.
    ///
    /// # Safety
    /// `memory` is what varnishd passed.
    pub(super) unsafe fn fetch<'c, T: Copy>(
        self,
        ctx: &'c sys::vrt_ctx,
        memory: *mut sys::vmod_priv,
        fallback: T,
        body: impl FnOnce(&mut Fetch<'c>, &Instance) -> Result<T, Failure>,
    ) -> T {
        // SAFETY: as promised by the caller.
        unsafe {
            self.call(ctx, memory, fallback, |instance| {
                body(&mut Fetch::new(ctx).ok_or(Failure::WrongSubroutine)?, instance)
            })
        }
    }

    /// # Safety
    /// `memory` is what varnishd passed.
    unsafe fn call<T: Copy>(
        self,
        ctx: &sys::vrt_ctx,
        memory: *mut sys::vmod_priv,
        fallback: T,
        body: impl FnOnce(&Instance) -> Result<T, Failure>,
    ) -> T {
        fence(Some(ctx), self.name, fallback, || {
            // SAFETY: as promised by the caller.
            let result = match unsafe { instance(memory) } {
                _ if ctx.method & self.subroutines == 0 => Err(Failure::WrongSubroutine),
                None => Err(Failure::NotLoaded),
                Some(instance) => body(instance),
            };
            result.unwrap_or_else(|failure| {
                fail(Some(ctx), &format!("{}(): {}", self.name, failure.text()));
                fallback
            })
        })
    }
}

/// `VOID init(PRIV_VCL, STRING path)`
#[no_mangle]
unsafe extern "C" fn ghost_init(
    ctx: &sys::vrt_ctx,
    memory: *mut sys::vmod_priv,
    path: sys::VCL_STRING,
) {
    fence(Some(ctx), "init", (), || {
        // SAFETY: varnishd passes the memory of this VCL, null or a string, and its VCL.
        let (instance, path, default_probe) = unsafe {
            let path = if path.is_null() { c"" } else { CStr::from_ptr(path) };
            (instance(memory), path, sys::VCL_DefaultProbe(ctx.vcl))
        };
        let result = match instance {
            // varnishd would probe every endpoint of ghost's with it, and panic when it
            // starts the probe: it does so twice for endpoints that are added while the VCL
            // becomes warm.
            _ if !default_probe.is_null() => Err(DEFAULT_PROBE.to_owned()),
            Some(instance) => instance.init(path),
            None => Err(Failure::NotLoaded.text().to_owned()),
        };
        if let Err(reason) = result {
            fail(Some(ctx), &format!("can't load the configuration: {reason}"));
        }
    });
}

/// `BACKEND recv(PRIV_VCL)`
#[no_mangle]
unsafe extern "C" fn ghost_recv(
    ctx: &sys::vrt_ctx,
    memory: *mut sys::vmod_priv,
) -> sys::VCL_BACKEND {
    // SAFETY: varnishd passes the memory of this VCL.
    unsafe {
        Function::new("recv", CLIENT).client(ctx, memory, ptr::null(), |client, instance| {
            request::receive(client, instance).map(|director| director.into_raw(ctx.vcl))
        })
    }
}

/// `BOOL admin()`
#[no_mangle]
unsafe extern "C" fn ghost_admin(ctx: &sys::vrt_ctx) -> sys::VCL_BOOL {
    fence(Some(ctx), "admin", 0, || {
        let task = task::recall::<ClientTask>(ctx);
        sys::VCL_BOOL::from(task.is_some_and(|task| task.get().is_admin()))
    })
}

/// `BOOL changed(PRIV_VCL)`
#[no_mangle]
unsafe extern "C" fn ghost_changed(
    ctx: &sys::vrt_ctx,
    memory: *mut sys::vmod_priv,
) -> sys::VCL_BOOL {
    // SAFETY: varnishd passes the memory of this VCL.
    unsafe {
        Function::new("changed", CLIENT).client(ctx, memory, 0, |client, _| {
            request::has_changed(client).map(sys::VCL_BOOL::from)
        })
    }
}

/// `BOOL websocket(PRIV_VCL)`
#[no_mangle]
unsafe extern "C" fn ghost_websocket(
    ctx: &sys::vrt_ctx,
    memory: *mut sys::vmod_priv,
) -> sys::VCL_BOOL {
    // SAFETY: varnishd passes the memory of this VCL.
    unsafe {
        Function::new("websocket", CLIENT).client(ctx, memory, 0, |client, _| {
            // A pipe would bypass vcl_deliver.
            request::expect_upgrade(client).map(|()| 0)
        })
    }
}

/// `STRING rule()`
#[no_mangle]
unsafe extern "C" fn ghost_rule(ctx: &sys::vrt_ctx) -> sys::VCL_STRING {
    fence(Some(ctx), "rule", ptr::null(), || {
        let Some(task) = task::recall::<ClientTask>(ctx) else { return c"".as_ptr() };
        let task = task.get();
        let (rule, scheme) = task.cache_key();
        // SAFETY: a task has a workspace, which is this thread's.
        let text = unsafe { workspace::text(ctx.ws, &[rule.as_bytes(), scheme.as_bytes()]) };
        if text.is_none() {
            fail(Some(ctx), "rule(): out of workspace");
        }
        text.map_or(ptr::null(), |text| text.as_ptr().cast_const())
    })
}

/// `BACKEND fetch(PRIV_VCL, BACKEND backend)`
#[no_mangle]
unsafe extern "C" fn ghost_fetch(
    ctx: &sys::vrt_ctx,
    memory: *mut sys::vmod_priv,
    backend: sys::VCL_BACKEND,
) -> sys::VCL_BACKEND {
    // SAFETY: varnishd passes the memory of this VCL, and null or a director.
    unsafe {
        Function::new("fetch", FETCH).fetch(ctx, memory, ptr::null(), |fetch, instance| {
            let backend = Backend::new(backend);
            let director: Returned<'_> = fetch::prepare(fetch, instance, backend)?;
            Ok(director.into_raw(ctx.vcl))
        })
    }
}

/// `VOID response(PRIV_VCL)`
#[no_mangle]
unsafe extern "C" fn ghost_response(ctx: &sys::vrt_ctx, memory: *mut sys::vmod_priv) {
    // SAFETY: varnishd passes the memory of this VCL.
    unsafe {
        Function::new("response", RESPONSE)
            .fetch(ctx, memory, (), |fetch, _| fetch::filter_response(fetch));
    }
}

/// `VOID deliver(PRIV_VCL)`
#[no_mangle]
unsafe extern "C" fn ghost_deliver(ctx: &sys::vrt_ctx, memory: *mut sys::vmod_priv) {
    // SAFETY: varnishd passes the memory of this VCL.
    unsafe { Function::new("deliver", DELIVER).client(ctx, memory, (), request::deliver) }
}
