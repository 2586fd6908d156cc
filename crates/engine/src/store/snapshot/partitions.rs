//! The partitions of a table, in chunks that snapshots share.
//!
//! A commit makes a new snapshot from the one before. It copies the list of chunks and the one chunk that it
//! changes, so that it costs the same in a table of ten partitions and of ten thousand. Chunks that came with
//! the manifest stay packed until somebody asks for a partition in them; sums are known without.
//!
//! Invariants:
//! - partitions stand by time, no chunk is empty, and a partition is in one chunk;
//! - totals and the list of partitions with runs are those of the chunks, after every change.

use super::{PartFile, PartitionSnapshot, Source, TableDir};
use crate::store::history::History;
use crate::store::manifest::{CHUNK_PARTITIONS, PackedChunk};
use std::ops::Index;
use std::sync::{Arc, OnceLock};
use tickstone_model::{TableSchema, TimeRange};

/// A chunk is cut in two above this many partitions.
const CHUNK_PARTITIONS_MAX: usize = 2 * CHUNK_PARTITIONS;

/// The partitions of a table, by time.
#[derive(Debug, Clone, Default)]
pub struct Partitions {
    chunks: Vec<Arc<Chunk>>,
    total: Sums,
    /// Starts of the partitions that have runs, ascending.
    hot: Vec<i64>,
}

/// What parts of a manifest need to become partitions.
#[derive(Debug)]
pub(crate) struct Unpacking {
    pub(crate) dir: Arc<TableDir>,
    pub(crate) history: Arc<History>,
    pub(crate) schema: Arc<TableSchema>,
}

/// Neighbouring partitions.
#[derive(Debug)]
struct Chunk {
    /// Start of the first one.
    first: i64,
    sums: Sums,
    times: Option<(i64, i64)>,
    /// Oldest schema of a part, `u32::MAX` where there is no part.
    schema_version: u32,
    /// When the oldest part that is not dense was written (s since the Unix epoch); `None` where all are.
    oldest_fast_s: Option<u64>,
    /// As the manifest has it; `None` once it was changed.
    packed: Option<(PackedChunk, Arc<Unpacking>)>,
    partitions: OnceLock<Vec<Arc<PartitionSnapshot>>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sums {
    partitions: usize,
    parts: usize,
    rows: u64,
    /// Rows of parts that later ones replaced.
    superseded: u64,
    disk_bytes: u64,
    recent_bytes: usize,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.partitions += other.partitions;
        self.parts += other.parts;
        self.rows += other.rows;
        self.superseded += other.superseded;
        self.disk_bytes += other.disk_bytes;
        self.recent_bytes += other.recent_bytes;
    }

    fn subtract(&mut self, other: &Sums) {
        self.partitions -= other.partitions;
        self.parts -= other.parts;
        self.rows -= other.rows;
        self.superseded -= other.superseded;
        self.disk_bytes -= other.disk_bytes;
        self.recent_bytes -= other.recent_bytes;
    }
}

impl Chunk {
    /// Its partitions, for one who looks at each once.
    fn passing(self: &Arc<Self>) -> Vec<Arc<PartitionSnapshot>> {
        match (self.partitions.get(), &self.packed) {
            (None, Some((packed, unpacking))) => unpacking.unpack(packed),
            _ => self.partitions().to_vec(),
        }
    }

    /// Of at least one partition.
    fn new(partitions: Vec<Arc<PartitionSnapshot>>) -> Self {
        let mut chunk = Self {
            first: partitions[0].range.from,
            sums: Sums::default(),
            times: None,
            schema_version: u32::MAX,
            oldest_fast_s: None,
            packed: None,
            partitions: OnceLock::new(),
        };
        for partition in &partitions {
            chunk.sums.add(&Sums {
                partitions: 1,
                parts: partition.parts(),
                rows: partition.rows(),
                superseded: partition.superseded_rows(),
                disk_bytes: partition.disk_bytes(),
                recent_bytes: partition.recent_bytes(),
            });
            chunk.times = match (chunk.times, partition.times()) {
                (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
                (a, b) => a.or(b),
            };
            let versions = partition.part_sources().map(|part| part.entry.schema_version);
            chunk.schema_version = versions.fold(chunk.schema_version, u32::min);
            let fast = partition.part_sources().filter_map(|part| part.fast_since_s());
            chunk.oldest_fast_s = chunk.oldest_fast_s.into_iter().chain(fast).min();
        }
        chunk.partitions.get_or_init(|| partitions);
        chunk
    }

    fn packed(packed: PackedChunk, unpacking: &Arc<Unpacking>) -> Self {
        let summary = packed.summary;
        let sums = Sums {
            partitions: summary.partitions as usize,
            parts: summary.parts as usize,
            rows: summary.rows,
            superseded: 0,
            disk_bytes: summary.disk_bytes,
            recent_bytes: 0,
        };
        Self {
            first: summary.first,
            sums,
            times: summary.times,
            schema_version: summary.schema_version,
            oldest_fast_s: packed.oldest_fast_s(),
            packed: Some((packed, Arc::clone(unpacking))),
            partitions: OnceLock::new(),
        }
    }

    fn partitions(&self) -> &[Arc<PartitionSnapshot>] {
        self.partitions.get_or_init(|| {
            let (packed, unpacking) =
                self.packed.as_ref().expect("a chunk is packed or was made of partitions");
            unpacking.unpack(packed)
        })
    }
}

impl Unpacking {
    fn unpack(&self, packed: &PackedChunk) -> Vec<Arc<PartitionSnapshot>> {
        let mut partitions: Vec<PartitionSnapshot> = Vec::with_capacity(packed.summary.partitions as usize);
        for entry in packed.entries() {
            // Only of a manifest that a repair made up is a version unknown.
            let schema = self.history.version(entry.schema_version).unwrap_or(&self.schema);
            let range = self.schema.partition_by().partition_of(entry.partition);
            let source = Source::Part(Arc::new(PartFile::new(entry, schema, &self.dir)));
            match partitions.last_mut().filter(|last| last.range == range) {
                Some(last) => last.sources.push(source),
                None => partitions.push(PartitionSnapshot {
                    range,
                    sources: vec![source],
                    superseded: Vec::new(),
                }),
            }
        }
        partitions.into_iter().map(Arc::new).collect()
    }
}

impl Partitions {
    /// Those of a manifest.
    pub(crate) fn unpacked_later(chunks: Vec<PackedChunk>, unpacking: Unpacking) -> Self {
        let unpacking = Arc::new(unpacking);
        let chunks = chunks.into_iter().map(|chunk| Arc::new(Chunk::packed(chunk, &unpacking)));
        let mut partitions = Self { chunks: chunks.collect(), ..Self::default() };
        for chunk in &partitions.chunks {
            partitions.total.add(&chunk.sums);
        }
        partitions
    }

    /// The parts, as the manifest is to have them.
    pub(crate) fn packed(&self) -> Vec<PackedChunk> {
        let with_parts = self.chunks.iter().filter(|chunk| chunk.sums.parts > 0);
        let packed = with_parts.map(|chunk| match &chunk.packed {
            Some((packed, _)) => packed.clone(),
            None => {
                let parts = chunk.partitions().iter().flat_map(|partition| partition.part_sources());
                PackedChunk::new(&parts.map(|part| part.entry.clone()).collect::<Vec<_>>())
            }
        });
        packed.collect()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.total.partitions
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Parts in all of them.
    pub fn parts(&self) -> usize {
        self.total.parts
    }

    /// Rows in all of them.
    pub fn rows(&self) -> u64 {
        self.total.rows
    }

    /// Bytes of all parts' files.
    pub fn disk_bytes(&self) -> u64 {
        self.total.disk_bytes
    }

    /// Bytes of all runs in memory.
    pub fn recent_bytes(&self) -> usize {
        self.total.recent_bytes
    }

    /// Smallest and largest designated timestamp, both inside.
    pub fn times(&self) -> Option<(i64, i64)> {
        let mut times = self.chunks.iter().filter_map(|chunk| chunk.times);
        let first = times.next()?;
        Some((first.0, times.next_back().map_or(first.1, |last| last.1)))
    }

    /// All, by time.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<PartitionSnapshot>> + Clone {
        self.chunks.iter().flat_map(|chunk| chunk.partitions())
    }

    /// The one at this place.
    pub fn get(&self, index: usize) -> Option<&Arc<PartitionSnapshot>> {
        let mut before = 0;
        for chunk in &self.chunks {
            if index < before + chunk.sums.partitions {
                return chunk.partitions().get(index - before);
            }
            before += chunk.sums.partitions;
        }
        None
    }

    /// Those that may hold rows of `wanted`, by time, with their places. Chunks without are not unpacked.
    pub(crate) fn within(&self, wanted: TimeRange) -> impl Iterator<Item = (usize, &Arc<PartitionSnapshot>)> {
        let mut before = 0;
        let placed = self.chunks.iter().map(move |chunk| {
            let start = before;
            before += chunk.sums.partitions;
            (start, chunk)
        });
        let overlaps = move |times: Option<(i64, i64)>| {
            times.is_none_or(|(first, last)| first < wanted.to && last >= wanted.from)
        };
        placed
            .take_while(move |(_, chunk)| chunk.first < wanted.to)
            .filter(move |(_, chunk)| overlaps(chunk.times))
            .flat_map(|(start, chunk)| (start..).zip(chunk.partitions()))
            .filter(move |(_, partition)| overlaps(partition.times()))
    }

    /// All, by time, for one who looks at each once: chunks that nobody asked for before are packed again
    /// behind it.
    pub(crate) fn passing(&self) -> impl Iterator<Item = Arc<PartitionSnapshot>> {
        self.chunks.iter().flat_map(Chunk::passing)
    }

    /// Those with superseded rows, perhaps with others among them.
    pub(crate) fn with_superseded(&self) -> impl Iterator<Item = &Arc<PartitionSnapshot>> {
        self.chunks.iter().filter(|chunk| chunk.sums.superseded > 0).flat_map(|chunk| chunk.partitions())
    }

    /// All that have so many parts or superseded rows, perhaps with others among them. Chunks that cannot have
    /// one are not looked at.
    pub(crate) fn worth_merging(&self, parts: usize) -> impl Iterator<Item = &Arc<PartitionSnapshot>> {
        // Every partition of a chunk but the crowded one may have a single part, or none.
        let may = move |chunk: &&Arc<Chunk>| {
            let alone = chunk.sums.partitions.min(chunk.sums.parts).saturating_sub(1);
            chunk.sums.parts - alone >= parts || chunk.sums.superseded > 0
        };
        self.chunks.iter().filter(may).flat_map(|chunk| chunk.partitions())
    }

    /// All with a part that is not dense and was written at `latest_s` (s since the Unix epoch) at the latest, perhaps
    /// with others among them. Chunks without are not looked at, those that nobody asked for before are packed again.
    pub(crate) fn worth_archiving(&self, latest_s: u64) -> impl Iterator<Item = Arc<PartitionSnapshot>> {
        let old =
            move |chunk: &&Arc<Chunk>| chunk.oldest_fast_s.is_some_and(|written_s| written_s <= latest_s);
        self.chunks.iter().filter(old).flat_map(Chunk::passing)
    }

    /// Those with runs, by time.
    pub(crate) fn hot(&self) -> impl Iterator<Item = &Arc<PartitionSnapshot>> {
        self.hot.iter().filter_map(|from| self.find(*from))
    }

    /// Whether any has runs.
    pub(crate) fn is_hot(&self) -> bool {
        !self.hot.is_empty()
    }

    /// The oldest schema that a part was written with, `u32::MAX` without parts.
    pub(crate) fn oldest_version(&self) -> u32 {
        self.chunks.iter().map(|chunk| chunk.schema_version).min().unwrap_or(u32::MAX)
    }

    /// The chunk a partition is in, or would be.
    fn chunk_of(&self, from: i64) -> usize {
        self.chunks.partition_point(|chunk| chunk.first <= from).saturating_sub(1)
    }

    /// The partition that starts at `from`.
    pub(crate) fn find(&self, from: i64) -> Option<&Arc<PartitionSnapshot>> {
        let partitions = self.chunks.get(self.chunk_of(from))?.partitions();
        let index = partitions.binary_search_by_key(&from, |partition| partition.range.from).ok()?;
        partitions.get(index)
    }

    /// Changes the partition of this range, made where it is missing; one without rows left goes.
    pub(crate) fn change<T>(
        &mut self,
        range: TimeRange,
        change: impl FnOnce(&mut PartitionSnapshot) -> T,
    ) -> T {
        let at = self.chunk_of(range.from);
        let mut partitions = self.chunks.get(at).map_or_else(Vec::new, |chunk| chunk.partitions().to_vec());
        let index = match partitions.binary_search_by_key(&range.from, |partition| partition.range.from) {
            Ok(index) => index,
            Err(index) => {
                partitions.insert(
                    index,
                    Arc::new(PartitionSnapshot { range, sources: Vec::new(), superseded: Vec::new() }),
                );
                index
            }
        };
        let partition = Arc::make_mut(&mut partitions[index]);
        let result = change(partition);
        let (is_hot, is_empty) = (partition.runs() > 0, partition.sources.is_empty());
        if is_empty {
            partitions.remove(index);
        }
        self.set_chunk(at, partitions);
        match self.hot.binary_search(&range.from) {
            Ok(index) if !is_hot => {
                self.hot.remove(index);
            }
            Err(index) if is_hot => self.hot.insert(index, range.from),
            _ => {}
        }
        result
    }

    /// Puts partitions in the place of a chunk, or after all where there is none.
    fn set_chunk(&mut self, at: usize, mut partitions: Vec<Arc<PartitionSnapshot>>) {
        let mut new = Vec::with_capacity(2);
        while partitions.len() > CHUNK_PARTITIONS_MAX {
            let rest = partitions.split_off(CHUNK_PARTITIONS);
            new.push(Arc::new(Chunk::new(std::mem::replace(&mut partitions, rest))));
        }
        if !partitions.is_empty() {
            new.push(Arc::new(Chunk::new(partitions)));
        }
        new.iter().for_each(|chunk| self.total.add(&chunk.sums));
        let end = self.chunks.len().min(at + 1);
        for old in self.chunks.splice(at..end, new) {
            self.total.subtract(&old.sums);
        }
    }

    /// Takes out the partitions that lie whole in `range`.
    pub(crate) fn remove_covered(&mut self, range: TimeRange) -> Vec<Arc<PartitionSnapshot>> {
        let mut removed = Vec::new();
        let mut at = self.chunks.partition_point(|chunk| chunk.first < range.from).saturating_sub(1);
        while let Some(chunk) = self.chunks.get(at).filter(|chunk| chunk.first < range.to) {
            let covered = |partition: &&Arc<PartitionSnapshot>| range.covers(&partition.range);
            let (gone, kept): (Vec<_>, Vec<_>) = chunk.partitions().iter().partition(covered);
            let kept: Vec<_> = kept.into_iter().map(Arc::clone).collect();
            let is_left = !kept.is_empty();
            if gone.is_empty() {
                at += 1;
                continue;
            }
            removed.extend(gone.into_iter().map(Arc::clone));
            self.set_chunk(at, kept);
            at += usize::from(is_left);
        }
        self.hot.retain(|from| removed.binary_search_by_key(from, |partition| partition.range.from).is_err());
        removed
    }
}

impl Index<usize> for Partitions {
    type Output = Arc<PartitionSnapshot>;

    /// # Panics
    /// Where there is no such partition.
    fn index(&self, index: usize) -> &Self::Output {
        self.get(index).expect("the caller knows how many partitions there are")
    }
}

impl<'a> IntoIterator for &'a Partitions {
    type Item = &'a Arc<PartitionSnapshot>;
    type IntoIter = Box<dyn Iterator<Item = &'a Arc<PartitionSnapshot>> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

#[cfg(test)]
mod tests;
