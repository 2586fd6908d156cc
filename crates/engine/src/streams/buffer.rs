//! Documents that were taken and are not on stable storage yet: bursts of entries, each to be one frame.

use super::entry::{ENTRY_HEADER_BYTES, put_entry};
use crate::lock::lock;
use crate::tape::frame::{HEADER_BYTES, TRAILER_BYTES};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A burst is full with so many bytes; a larger document is one of its own.
pub(super) const BURST_BYTES: usize = 1 << 20;
/// Buffers that are kept for the next bursts, at most.
const SPARE_MAX: usize = 64;

/// What the buffers of all streams take together, and buffers to be used again.
#[derive(Debug)]
pub(super) struct Pool {
    bytes: AtomicUsize,
    bytes_max: AtomicUsize,
    spare: Mutex<Vec<Vec<u8>>>,
}

impl Pool {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), bytes_max: AtomicUsize::new(bytes_max), spare: Mutex::default() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn set_max(&self, bytes: usize) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn has_room(&self) -> bool {
        self.bytes() < self.bytes_max.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> Vec<u8> {
        match lock(&self.spare).pop().filter(|_| bytes <= BURST_BYTES) {
            Some(buffer) => buffer,
            None => Vec::with_capacity(bytes.max(BURST_BYTES) + HEADER_BYTES + TRAILER_BYTES),
        }
    }

    /// Gives back what a burst took.
    pub(super) fn put(&self, burst: Burst) {
        self.bytes.fetch_sub(burst.held(), Ordering::Relaxed);
        let mut buffer = burst.frame;
        let mut spare = lock(&self.spare);
        if spare.len() < SPARE_MAX && buffer.capacity() <= BURST_BYTES + HEADER_BYTES + TRAILER_BYTES {
            buffer.clear();
            spare.push(buffer);
        }
    }
}

/// Entries of one frame, with room for its header before them.
#[derive(Debug)]
pub(super) struct Burst {
    pub(super) frame: Vec<u8>,
    /// Of the first document.
    pub(super) number: u64,
    pub(super) documents: u64,
    pub(super) first_ts_us: u64,
    pub(super) last_ts_us: u64,
    /// Bytes it is counted with.
    counted: usize,
}

impl Burst {
    fn held(&self) -> usize {
        self.counted
    }
}

/// The bursts of one stream, in order; the last one is still filled.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) bursts: VecDeque<Burst>,
    /// Number of the next document.
    pub(super) next: u64,
    /// Time of the last document.
    pub(super) last_ts_us: u64,
}

impl Buffer {
    /// Adds a document, which gets the time `now_us` or the first one after its predecessor's.
    pub(super) fn add(&mut self, pool: &Pool, now_us: u64, documents_max: u64, document: &[u8]) {
        let size = ENTRY_HEADER_BYTES + document.len();
        let fits = |burst: &Burst| {
            burst.frame.len() + size <= HEADER_BYTES + BURST_BYTES && burst.documents < documents_max
        };
        let ts_us = now_us.max(self.last_ts_us + 1);
        if !self.bursts.back().is_some_and(fits) {
            let mut frame = pool.take(size);
            frame.resize(HEADER_BYTES, 0);
            let number = self.next;
            let empty = Burst { frame, number, documents: 0, first_ts_us: ts_us, last_ts_us: 0, counted: 0 };
            self.bursts.push_back(empty);
        }
        let Some(burst) = self.bursts.back_mut() else { return };
        put_entry(&mut burst.frame, ts_us, document);
        burst.documents += 1;
        burst.last_ts_us = ts_us;
        burst.counted += size;
        pool.bytes.fetch_add(size, Ordering::Relaxed);
        self.last_ts_us = ts_us;
        self.next += 1;
    }
}
