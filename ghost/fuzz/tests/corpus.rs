//! Replays the corpus without coverage: what was once found stays fixed.

use std::fs;
use std::path::Path;

fn replay(target: &str, run: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let files: Vec<_> = fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        run(&fs::read(file).unwrap());
    }
}

#[test]
fn every_corpus_passes() {
    replay("host", ghost_fuzz::host);
    replay("path", ghost_fuzz::path);
    replay("headers", ghost_fuzz::headers);
    replay("wire", ghost_fuzz::wire);
    replay("server_name", ghost_fuzz::server_name);
    replay("cache", ghost_fuzz::cache);
}
