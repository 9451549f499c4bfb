//! Letting go of what went out of use.
//!
//! Varnish closes the idle connections of a backend that goes, and sleeps until they are
//! closed. Neither a reload nor a request has to wait for that: what goes is kept for a
//! moment, until the requests that still use it are done, and is dropped on a thread of
//! its own. Nothing is left when the VCL becomes cold.

use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Most requests under way are done after this long. One that isn't drops what it used
/// itself.
const GRACE: Duration = Duration::from_secs(1);

type Outgoing = Box<dyn Send>;

/// The thread, and the way to it.
#[derive(Default)]
pub struct Retirement(Option<(Sender<Outgoing>, JoinHandle<()>)>);

impl Retirement {
    /// Drop something, but not now.
    pub fn of(&mut self, outgoing: impl Send + 'static) {
        if self.0.is_none() {
            let (sender, receiver) = channel();
            let builder = thread::Builder::new().name("ghost-retire".into());
            // Where no thread is to be had it is dropped here and now.
            self.0 =
                builder.spawn(move || drop_later(&receiver)).ok().map(|thread| (sender, thread));
        }
        if let Some((sender, _)) = &self.0 {
            // It can't fail: the thread listens for as long as there is a sender.
            let _ = sender.send(Box::new(outgoing));
        }
    }
}

impl Drop for Retirement {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.0.take() {
            drop(sender);
            // It does nothing but drop.
            let _ = thread.join();
        }
    }
}

/// Collect what comes within a moment, then drop it all; at once when no more can come.
fn drop_later(receiver: &Receiver<Outgoing>) {
    while let Ok(first) = receiver.recv() {
        let until = Instant::now() + GRACE;
        let mut outgoing = vec![first];
        while let Ok(next) = receiver.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            outgoing.push(next);
        }
    }
}
