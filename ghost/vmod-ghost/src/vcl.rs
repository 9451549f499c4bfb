//! The functions that VCL calls, as vmodtool declares them. Nothing but the boundary is
//! here: each one checks nothing, fences, and says why when it fails.

use std::ffi::{c_int, c_void, CStr, CString};
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;

use crate::director::Vcl;
use crate::failure::Failure;
use crate::fence::{fail, fence};
use crate::instance::Instance;
use crate::sys::{self, Ctx};
use crate::task::Task;
use crate::tasks::{ClientTask, Outcome};
use crate::{exchange, routing};

/// Where the configuration is, unless `init()` says so.
const PATH_VARIABLE: &str = "GHOST_CONFIG_PATH";

const DEFAULT_PROBE: &str =
    "a probe named default would be that of the gateway's endpoints, too; give it another name";

struct PrivMethods(sys::vmod_priv_methods);

// SAFETY: constants only.
unsafe impl Sync for PrivMethods {}

static INSTANCE: PrivMethods = PrivMethods(sys::vmod_priv_methods {
    magic: sys::VMOD_PRIV_METHODS_MAGIC,
    type_: c"ghost instance".as_ptr(),
    fini: Some(forget_instance),
});

unsafe extern "C" fn forget_instance(_: Ctx, instance: *mut c_void) {
    fence(ptr::null(), "fini", (), || {
        // SAFETY: Varnish calls this once for what the load event put there.
        drop(unsafe { Box::from_raw(instance.cast::<Arc<Instance>>()) });
    });
}

/// The VCL is loaded, becomes warm or cold, or goes away. Only becoming warm may fail, and
/// says why in its own way: `VRT_fail` is not for events.
#[no_mangle]
unsafe extern "C" fn ghost_event(
    ctx: Ctx,
    memory: *mut sys::vmod_priv,
    event: sys::vcl_event_e,
) -> c_int {
    let refused = c_int::from(event == sys::VCL_EVENT_WARM);
    fence(ptr::null(), "event", refused, || {
        // SAFETY: Varnish passes the memory of this VCL, and events come one by one.
        unsafe {
            match (event, instance(memory)) {
                (sys::VCL_EVENT_LOAD, _) => {
                    let instance = Instance::new(Vcl::of(ctx));
                    (*memory).priv_ = Box::into_raw(Box::new(instance)).cast();
                    (*memory).methods = &raw const INSTANCE.0;
                }
                (sys::VCL_EVENT_WARM, Some(instance)) => {
                    if let Err(reason) = instance.warm() {
                        tell(ctx, &reason);
                        return refused;
                    }
                }
                (_, Some(instance)) => instance.cool(),
                (_, None) => {}
            }
            0
        }
    })
}

/// Add to what the command that caused an event answers.
///
/// # Safety
/// `ctx` is the context of an event.
unsafe fn tell(ctx: Ctx, text: &str) {
    let text = CString::new(format!("ghost: {text}").replace('\0', " ")).unwrap_or_default();
    // SAFETY: as promised by the caller; the message is null or an open string buffer.
    unsafe {
        if !(*ctx).msg.is_null() {
            sys::VSB_cat((*ctx).msg, text.as_ptr());
        }
    }
}

/// # Safety
/// `memory` is that of a VCL, and the result is not kept beyond the call.
unsafe fn instance<'a>(memory: *mut sys::vmod_priv) -> Option<&'a Arc<Instance>> {
    // SAFETY: as promised by the caller; the load event put it there.
    unsafe { memory.as_ref()?.priv_.cast::<Arc<Instance>>().as_ref() }
}

/// `VOID init(PRIV_VCL, STRING path)`
#[no_mangle]
unsafe extern "C" fn ghost_init(ctx: Ctx, memory: *mut sys::vmod_priv, path: sys::VCL_STRING) {
    fence(ctx, "init", (), || {
        // SAFETY: Varnish passes the memory of this VCL, and null or a string.
        let result = unsafe {
            let given = if path.is_null() { c"" } else { CStr::from_ptr(path) };
            match instance(memory) {
                // Varnish would probe every endpoint of ghost's with it, and panic when it
                // begins: they come while the VCL becomes warm, and are told so twice.
                _ if !sys::VCL_DefaultProbe((*ctx).vcl).is_null() => Err(DEFAULT_PROBE.to_owned()),
                Some(instance) => config_path(given).and_then(|path| instance.init(&path)),
                None => Err(Failure::NotLoaded.text().to_owned()),
            }
        };
        if let Err(reason) = result {
            fail(ctx, &format!("can't load the configuration: {reason}"));
        }
    });
}

fn config_path(given: &CStr) -> Result<PathBuf, String> {
    let given = given.to_str().map_err(|_| "the path is not UTF-8".to_owned())?;
    if !given.is_empty() {
        return Ok(given.into());
    }
    let from_environment = std::env::var_os(PATH_VARIABLE).map(PathBuf::from);
    from_environment.ok_or(format!("neither a path nor {PATH_VARIABLE} is given"))
}

/// Subroutines of the client's side.
const CLIENT: u32 = sys::VCL_MET_TASK_C;
const FETCH: u32 = sys::VCL_MET_BACKEND_FETCH | sys::VCL_MET_PIPE;
const RESPONSE: u32 = sys::VCL_MET_BACKEND_RESPONSE | sys::VCL_MET_BACKEND_ERROR;
const DELIVER: u32 = sys::VCL_MET_DELIVER | sys::VCL_MET_SYNTH;

/// Run a call that needs ghost in this VCL, in one of these subroutines; a failure fails
/// the request.
///
/// # Safety
/// `ctx` and `memory` are what Varnish passed.
unsafe fn call<T>(
    ctx: Ctx,
    entry: &'static str,
    subroutines: u32,
    memory: *mut sys::vmod_priv,
    fallback: T,
    body: impl FnOnce(&Instance) -> Result<T, Failure>,
) -> T
where
    T: Copy,
{
    fence(ctx, entry, fallback, || {
        // SAFETY: as promised by the caller.
        let (instance, method) = unsafe { (instance(memory), (*ctx).method) };
        let result = match instance {
            _ if method & subroutines == 0 => Err(Failure::WrongSubroutine),
            None => Err(Failure::NotLoaded),
            Some(instance) => body(instance),
        };
        result.unwrap_or_else(|failure| {
            fail(ctx, &format!("{entry}(): {}", failure.text()));
            fallback
        })
    })
}

/// `BACKEND recv(PRIV_VCL)`
#[no_mangle]
unsafe extern "C" fn ghost_recv(ctx: Ctx, memory: *mut sys::vmod_priv) -> sys::VCL_BACKEND {
    // SAFETY: Varnish passes both, and the task is a client's.
    unsafe {
        call(ctx, "recv", CLIENT, memory, ptr::null(), |instance| routing::recv(ctx, instance))
    }
}

/// `BOOL admin()`
#[no_mangle]
unsafe extern "C" fn ghost_admin(ctx: Ctx) -> sys::VCL_BOOL {
    fence(ctx, "admin", 0, || {
        // SAFETY: any task may ask.
        let task = unsafe { ClientTask::recall(ctx) };
        sys::VCL_BOOL::from(task.is_some_and(|task| matches!(task.outcome, Outcome::Admin)))
    })
}

/// `BOOL changed(PRIV_VCL)`
#[no_mangle]
unsafe extern "C" fn ghost_changed(ctx: Ctx, memory: *mut sys::vmod_priv) -> sys::VCL_BOOL {
    // SAFETY: as for recv.
    unsafe {
        call(ctx, "changed", CLIENT, memory, 0, |_| routing::changed(ctx).map(sys::VCL_BOOL::from))
    }
}

/// `BOOL websocket(PRIV_VCL)`
#[no_mangle]
unsafe extern "C" fn ghost_websocket(ctx: Ctx, memory: *mut sys::vmod_priv) -> sys::VCL_BOOL {
    // SAFETY: as for recv.
    unsafe {
        call(ctx, "websocket", CLIENT, memory, 0, |_| {
            routing::is_websocket(ctx).map(sys::VCL_BOOL::from)
        })
    }
}

/// `STRING rule()`
#[no_mangle]
unsafe extern "C" fn ghost_rule(ctx: Ctx) -> sys::VCL_STRING {
    fence(ctx, "rule", ptr::null(), || {
        // SAFETY: any task may ask.
        unsafe {
            let Some(task) = ClientTask::recall(ctx) else { return c"".as_ptr() };
            let identity = match &task.outcome {
                Outcome::Routed(entry) => entry.identity(task.returned),
                Outcome::Preflight(_) => "preflight".into(),
                Outcome::Unrouted | Outcome::Admin => "".into(),
            };
            let text =
                on_workspace(ctx, &[identity.as_bytes(), if task.tls { b"+tls" } else { b"" }]);
            if text.is_null() {
                fail(ctx, "rule(): out of workspace");
            }
            text
        }
    })
}

/// The pieces as one string on the workspace of the task; null if it is full.
///
/// # Safety
/// `ctx` is the context of a task.
unsafe fn on_workspace(ctx: Ctx, pieces: &[&[u8]]) -> sys::VCL_STRING {
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    let Ok(size) = u32::try_from(length + 1) else { return ptr::null() };
    // SAFETY: as promised by the caller; the workspace gives that many bytes, or null.
    unsafe {
        let start: *mut u8 = sys::WS_Alloc((*ctx).ws, size).cast();
        if start.is_null() {
            return ptr::null();
        }
        let mut end = start;
        for piece in pieces {
            ptr::copy_nonoverlapping(piece.as_ptr(), end, piece.len());
            end = end.add(piece.len());
        }
        end.write(0);
        start.cast_const().cast()
    }
}

/// `BACKEND fetch(PRIV_VCL, BACKEND backend)`
#[no_mangle]
unsafe extern "C" fn ghost_fetch(
    ctx: Ctx,
    memory: *mut sys::vmod_priv,
    backend: sys::VCL_BACKEND,
) -> sys::VCL_BACKEND {
    // SAFETY: Varnish passes all three, in a fetch or a pipe.
    unsafe {
        call(ctx, "fetch", FETCH, memory, ptr::null(), |instance| {
            exchange::fetch(ctx, instance, backend)
        })
    }
}

/// `VOID response(PRIV_VCL)`
#[no_mangle]
unsafe extern "C" fn ghost_response(ctx: Ctx, memory: *mut sys::vmod_priv) {
    // SAFETY: Varnish passes both, in a fetch.
    unsafe { call(ctx, "response", RESPONSE, memory, (), |_| exchange::response(ctx)) }
}

/// `VOID deliver(PRIV_VCL)`
#[no_mangle]
unsafe extern "C" fn ghost_deliver(ctx: Ctx, memory: *mut sys::vmod_priv) {
    // SAFETY: Varnish passes both, in a client task that delivers.
    unsafe {
        call(ctx, "deliver", DELIVER, memory, (), |instance| exchange::deliver(ctx, instance));
    }
}
