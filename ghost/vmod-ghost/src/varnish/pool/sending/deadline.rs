//! The moment at which an attempt is over, whatever varnishd waits for on its connection.
//!
//! A thread of ghost's shuts connections down whose time is up, so that any read and any write
//! of varnishd's ends. It has a descriptor of its own for each: varnishd may close its own at any
//! time, and have another connection under the same number.

use std::cell::Cell;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{LazyLock, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use ghost_sync::{Alarm, Alarms};

use super::super::socket::Socket;
use super::super::timeouts::Waits;

/// How often the thread looks for connections whose time is up, while there are any.
const PRECISION: Duration = Duration::from_millis(20);

static CONNECTIONS: LazyLock<Alarms<OwnedFd>> = LazyLock::new(Alarms::default);

/// The deadline of one attempt.
pub(super) struct Deadline {
    waits: Waits,
    alarm: Cell<Option<Alarm>>,
}

impl Deadline {
    /// It begins with [`watch`](Self::watch).
    pub(super) fn new(waits: Waits) -> Self {
        Self { waits, alarm: Cell::new(None) }
    }

    /// How long the attempt waits.
    pub(super) fn waits(&self) -> &Waits {
        &self.waits
    }

    /// Shut this connection down when time is up, and no other one. Without a descriptor or a
    /// thread for that, a request that may take too long is better than none.
    pub(super) fn watch(&self, connection: Socket) {
        self.end();
        let (Some(moment), Some(thread)) = (self.waits.end_of_attempt(), thread()) else { return };
        let Some(connection) = connection.duplicate() else { return };
        let (alarm, sleeping) = CONNECTIONS.set(moment + PRECISION, connection);
        if sleeping {
            thread.unpark();
        }
        self.alarm.set(Some(alarm));
    }

    /// Go on watching this connection, from which there was progress.
    pub(super) fn watch_on(&self, connection: Socket) {
        let moment = self.waits.end_of_attempt();
        let early = |alarm: Alarm| moment.is_some_and(|end| alarm.moment() + PRECISION < end);
        if self.alarm.get().is_none_or(early) {
            self.watch(connection);
        }
    }

    /// Shut nothing down any more; whether that has happened.
    pub(super) fn end(&self) -> bool {
        self.alarm.take().is_some_and(|alarm| CONNECTIONS.cancel(alarm).is_none())
    }
}

/// The thread. It lives as long as varnishd, and the library stays loaded (`build.rs`).
fn thread() -> Option<&'static Thread> {
    static THREAD: OnceLock<Option<Thread>> = OnceLock::new();
    let started = || {
        let builder = thread::Builder::new().name("ghost-deadline".into());
        builder.spawn(shut_down_late_ones).ok().map(|handle| handle.thread().clone())
    };
    THREAD.get_or_init(started).as_ref()
}

fn shut_down_late_ones() {
    loop {
        let Some(late) = CONNECTIONS.due(Instant::now()) else {
            thread::park();
            continue;
        };
        for connection in late {
            Socket(connection.as_raw_fd()).shut_down();
        }
        thread::sleep(PRECISION);
    }
}
