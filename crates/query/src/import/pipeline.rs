//! Chunks of records from a reader thread over parser threads to the caller, in the file's order.
//!
//! Invariants: as many chunks are under way as there are buffers, whatever is slowest; the caller
//! gets chunks in order; when the caller stops, so do the threads.

use super::Result;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use tickstone_wire::{Chunk, csv, ndjson};

/// A parser of either format.
#[derive(Debug)]
pub(crate) enum TextParser {
    Csv(csv::Parser),
    Ndjson(ndjson::Parser),
}

impl TextParser {
    pub(crate) fn parse(&mut self, bytes: &[u8], stop_at_bad: bool) -> Chunk {
        match self {
            TextParser::Csv(parser) => parser.parse(bytes, stop_at_bad),
            TextParser::Ndjson(parser) => parser.parse(bytes, stop_at_bad),
        }
    }
}

/// Gives whole records, a chunk at a time.
pub(crate) trait ChunkSource: Send {
    /// Fills `buffer` with the next whole records; `false` at the end.
    fn next(&mut self, buffer: &mut Vec<u8>) -> Result<bool>;
}

/// A chunk parsed, and the bytes it came from.
pub(crate) struct Parsed {
    pub(crate) chunk: Chunk,
    pub(crate) bytes: Vec<u8>,
}

type Numbered<T> = (u64, T);

/// Runs `source` through `parsers`, a thread each, at most `buffers` chunks at once, and hands every
/// chunk to `take` in order.
pub(crate) fn run(
    source: &mut dyn ChunkSource,
    parsers: Vec<TextParser>,
    buffers: usize,
    stop_at_bad: bool,
    mut take: impl FnMut(&mut Parsed) -> Result<()>,
) -> Result<()> {
    std::thread::scope(|scope| {
        let (free, empty) = channel();
        for _ in 0..buffers.max(1) {
            let _ = free.send(Vec::new());
        }
        let (raw, full) = channel::<Numbered<Vec<u8>>>();
        let (done, parsed) = channel::<Numbered<Result<Parsed>>>();
        let failed = done.clone();
        scope.spawn(move || read(source, &empty, &raw, &failed));
        let full = Arc::new(Mutex::new(full));
        for mut parser in parsers {
            let (full, done) = (Arc::clone(&full), done.clone());
            scope.spawn(move || parse(&mut parser, &full, &done, stop_at_bad));
        }
        drop((full, done));
        let taken = in_order(&parsed, &free, &mut take);
        // Threads blocked on these channels see them close and end.
        drop((free, parsed));
        taken
    })
}

fn read(
    source: &mut dyn ChunkSource,
    empty: &Receiver<Vec<u8>>,
    raw: &Sender<Numbered<Vec<u8>>>,
    failed: &Sender<Numbered<Result<Parsed>>>,
) {
    for number in 0.. {
        let Ok(mut buffer) = empty.recv() else { return };
        match source.next(&mut buffer) {
            Ok(true) if raw.send((number, buffer)).is_ok() => {}
            Ok(_) => return,
            Err(error) => {
                // Nobody listens only where the caller stopped for an error of its own.
                let _ = failed.send((number, Err(error)));
                return;
            }
        }
    }
}

fn parse(
    parser: &mut TextParser,
    full: &Mutex<Receiver<Numbered<Vec<u8>>>>,
    done: &Sender<Numbered<Result<Parsed>>>,
    stop_at_bad: bool,
) {
    loop {
        let received = full.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, bytes)) = received else { return };
        let chunk = parser.parse(&bytes, stop_at_bad);
        if done.send((number, Ok(Parsed { chunk, bytes }))).is_err() {
            return;
        }
    }
}

fn in_order(
    parsed: &Receiver<Numbered<Result<Parsed>>>,
    free: &Sender<Vec<u8>>,
    take: &mut impl FnMut(&mut Parsed) -> Result<()>,
) -> Result<()> {
    let mut waiting = BTreeMap::new();
    let mut next = 0;
    while let Ok((number, result)) = parsed.recv() {
        waiting.insert(number, result);
        while let Some(result) = waiting.remove(&next) {
            let mut parsed = result?;
            take(&mut parsed)?;
            // The reader is gone once it has reached the end.
            let _ = free.send(parsed.bytes);
            next += 1;
        }
    }
    Ok(())
}
