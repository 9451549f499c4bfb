//! Generations that one thread at a time publishes.

use std::sync::Arc;

use ghost_sync::{Generation, Published};
use loom::thread;

struct Numbered(u64);

impl Generation for Numbered {
    fn generation(&self) -> u64 {
        self.0
    }
}

#[test]
fn a_reader_that_sees_a_generation_finds_it_or_a_later_one() {
    loom::model(|| {
        let published = Arc::new(Published::new(Arc::new(Numbered(1))));
        let writers = [(); 2].map(|()| {
            let published = Arc::clone(&published);
            thread::spawn(move || {
                let next = |now: &Arc<Numbered>| Ok::<_, ()>(Some(Arc::new(Numbered(now.0 + 1))));
                published.replace(next).map(|new| new.0)
            })
        });
        let seen = published.generation();
        assert!(published.current().0 >= seen);
        let mut made = writers.map(|writer| writer.join().unwrap().unwrap());
        made.sort_unstable();
        assert_eq!((made, published.generation()), ([2, 3], 3));
    });
}
