//! Draining: the gateway is going to stop, and its clients should connect elsewhere.
//!
//! The data plane says so on the reload socket. From then on each response over HTTP/1 carries
//! `Connection: close`: a client that reads it sends its next request over another connection,
//! so that none is on its way when varnishd stops. The flag holds for varnishd's child. The
//! data plane sets it again in one that varnishd restarts.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::varnish::Client;

static DRAINING: AtomicBool = AtomicBool::new(false);

/// Begin to drain. It does not end.
pub fn begin() {
    DRAINING.store(true, Relaxed);
}

/// Close the connection after the response to this request, which may be one that ghost does
/// not see: that of `vcl_synth`. A request with a body waits for [`on_response`]: varnishd
/// does not read a body once it is going to close the connection, and what it leaves unread
/// would have the kernel reset the connection before the client has read the response.
pub fn on_request(client: &Client<'_>) {
    if DRAINING.load(Relaxed) && !client.has_unread_body() {
        client.close_after_response();
    }
}

/// Close the connection after this response. Its request may have come before the drain began.
pub fn on_response(client: &Client<'_>) {
    if DRAINING.load(Relaxed) {
        client.close_after_response();
    }
}
