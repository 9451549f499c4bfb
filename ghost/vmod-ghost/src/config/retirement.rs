//! Dropping what is no longer in use.
//!
//! varnishd closes the idle connections of a backend that it destroys, and sleeps until they
//! are closed. Neither a reload nor a request has to wait for that: a thread keeps retired
//! directors for a moment, until the requests that still use them are done, and then drops
//! them. Dropping a [`Retirement`] waits until the thread has dropped everything.

use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Most requests under way are done after this long. A longer one drops what it used itself.
const GRACE: Duration = Duration::from_secs(1);

type Outgoing = Box<dyn Send>;

/// The thread that drops, once there is something to drop.
#[derive(Default)]
pub struct Retirement(Option<(Sender<Outgoing>, JoinHandle<()>)>);

impl Retirement {
    /// Drop something in a moment.
    pub fn add(&mut self, outgoing: impl Send + 'static) {
        if self.0.is_none() {
            let (sender, receiver) = channel();
            let builder = thread::Builder::new().name("ghost-retire".into());
            // Without a thread it is dropped here and now.
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
            // Only a panic in a drop fails this, and the panic has been reported.
            let _ = thread.join();
        }
    }
}

/// Collect what arrives within a moment, then drop it all; at once when no more can arrive.
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
