//! The C boundary: nothing unwinds across it.

use std::any::Any;
use std::ffi::CString;
use std::panic::{catch_unwind, AssertUnwindSafe};

use super::sys;

#[cfg(feature = "test-panic")]
use std::{path::Path, thread, time::Duration};

/// Run `body` at the C boundary. A panic becomes one failed request, not an abort that
/// takes varnishd's child, and its cache, with it.
///
/// Callbacks that varnishd can't fail pass no context. Rust's panic hook has written the
/// panic to varnishd's log by then.
pub(super) fn fence<T>(
    ctx: Option<&sys::vrt_ctx>,
    entry: &'static str,
    fallback: T,
    body: impl FnOnce() -> T,
) -> T {
    let guarded = || {
        #[cfg(feature = "test-panic")]
        trip(entry);
        #[cfg(feature = "test-memory")]
        misuse_memory(entry);
        body()
    };
    catch_unwind(AssertUnwindSafe(guarded)).unwrap_or_else(|payload| {
        fail(ctx, &format!("{entry}: panic: {}", panic_message(payload.as_ref())));
        fallback
    })
}

/// Fail the VCL subroutine or callback that varnishd called with this context.
pub(super) fn fail(ctx: Option<&sys::vrt_ctx>, reason: &str) {
    let Some(ctx) = ctx else { return };
    let text = format!("ghost: {reason}").replace(['\0', '\n'], " ");
    let Ok(text) = CString::new(text) else { return };
    // SAFETY: varnishd passed the context; the format takes exactly the one string that
    // follows, and VRT_fail copies it.
    unsafe { sys::VRT_fail(ctx, c"%s".as_ptr(), text.as_ptr()) }
}

/// The message of a panic.
pub fn panic_message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Panic in the entry point that the test names, while the file exists that it names.
#[cfg(feature = "test-panic")]
pub(super) fn trip(entry: &str) {
    let named = std::env::var("GHOST_TEST_PANIC").is_ok_and(|name| name == entry);
    let armed =
        || std::env::var("GHOST_TEST_PANIC_FILE").is_ok_and(|file| Path::new(&file).exists());
    assert!(!(named && armed()), "the test makes {entry} panic");
}

/// Wait at this place while the test has a file of that name in its directory. A file beside it
/// tells the test so: varnishd's manager reads no output while it waits for a command.
#[cfg(feature = "test-panic")]
pub fn hold(place: &str) {
    let Some(directory) = std::env::var_os("GHOST_TEST_HOLD") else { return };
    let file = Path::new(&directory).join(place);
    while file.exists() {
        let _ = std::fs::write(file.with_extension("held"), place);
        thread::sleep(Duration::from_millis(10));
    }
}

/// Make the error that the test names, when a request comes. A sanitizer that is not active
/// would not notice.
#[cfg(feature = "test-memory")]
fn misuse_memory(entry: &str) {
    if entry != "recv" {
        return;
    }
    let bytes = vec![1_u8; 8].into_boxed_slice();
    let raw = Box::into_raw(bytes).cast::<u8>();
    // SAFETY: none, that is the point: a byte behind the end, or one that is freed.
    unsafe {
        let beyond = std::hint::black_box(raw.add(8));
        let error = std::env::var("GHOST_TEST_MEMORY").unwrap_or_default();
        if error == "out-of-bounds" {
            std::hint::black_box(beyond.read_volatile());
        }
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(raw, 8)));
        if error == "use-after-free" {
            std::hint::black_box(raw.read_volatile());
        }
    }
}
