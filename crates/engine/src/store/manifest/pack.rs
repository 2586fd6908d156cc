//! Parts of a manifest in few bytes: chunks of neighbouring partitions, each with a summary that can be used
//! without reading its entries.
//!
//! A database holds millions of parts, and a query needs few of them: what stays in memory is these bytes,
//! and entries are made of them when somebody asks for a partition of the chunk.
//!
//! Invariants:
//! - entries stand by partition, then by position; a partition is in one chunk;
//! - a chunk decodes alone: its first entry is whole, each later one is a difference to the one before;
//! - [`PackedChunk::decode`] has looked at every byte of a chunk that came from a file.

use crate::codec::{Decoder, Encoder, Malformed};
use crate::part::{Density, PartName, PositionRange};
use crate::tape::change::PartEntry;
use std::sync::Arc;

/// Partitions of a chunk, as they are gathered from a list of entries.
pub(crate) const CHUNK_PARTITIONS: usize = 32;

/// What is known of a chunk without its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkSummary {
    /// Start of the first partition (ns since the Unix epoch).
    pub(crate) first: i64,
    pub(crate) partitions: u32,
    pub(crate) parts: u32,
    pub(crate) rows: u64,
    pub(crate) disk_bytes: u64,
    /// Bounds of the designated timestamps, both inside; `None` for a table without.
    pub(crate) times: Option<(i64, i64)>,
    /// Oldest schema that a part was written with.
    pub(crate) schema_version: u32,
}

/// Parts of neighbouring partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackedChunk {
    pub(crate) summary: ChunkSummary,
    /// Start of the last partition.
    last: i64,
    /// Newest schema that a part was written with.
    newest_version: u32,
    /// Highest epoch of an opening that wrote one of the parts.
    newest_epoch: Option<u64>,
    /// When the oldest part that is not dense was written (s since the Unix epoch); `None` where all are.
    oldest_fast_s: Option<u64>,
    bytes: Arc<[u8]>,
}

impl ChunkSummary {
    fn of(entries: &[PartEntry]) -> Self {
        let mut partitions: Vec<i64> = entries.iter().map(|entry| entry.partition).collect();
        partitions.dedup();
        let times = entries.iter().filter_map(|entry| entry.times);
        let count = |count: usize| u32::try_from(count).expect("a chunk has few parts");
        Self {
            first: entries.first().map_or(0, |entry| entry.partition),
            partitions: count(partitions.len()),
            parts: count(entries.len()),
            rows: entries.iter().map(|entry| entry.rows).sum(),
            disk_bytes: entries.iter().map(|entry| entry.file_bytes).sum(),
            times: times.reduce(|(a, b), (c, d)| (a.min(c), b.max(d))),
            schema_version: entries.iter().map(|entry| entry.schema_version).min().unwrap_or(0),
        }
    }
}

/// All entries of chunks, by partition and position.
pub(crate) fn unpack(chunks: &[PackedChunk]) -> impl Iterator<Item = PartEntry> {
    chunks.iter().flat_map(PackedChunk::entries)
}

/// Cuts entries into chunks, by partition and position.
pub(crate) fn pack(mut entries: Vec<PartEntry>) -> Vec<PackedChunk> {
    entries.sort_by_key(|entry| (entry.partition, entry.positions.first));
    let mut chunks = Vec::new();
    let mut rest = &entries[..];
    while !rest.is_empty() {
        let (mut count, mut partitions) = (0, 0);
        for same in rest.chunk_by(|a, b| a.partition == b.partition).take(CHUNK_PARTITIONS) {
            count += same.len();
            partitions += 1;
        }
        debug_assert!(partitions <= CHUNK_PARTITIONS, "chunks are small");
        let (chunk, after) = rest.split_at(count);
        chunks.push(PackedChunk::new(chunk));
        rest = after;
    }
    chunks
}

impl PackedChunk {
    /// Packs the parts of neighbouring partitions, by partition and position.
    pub(crate) fn new(entries: &[PartEntry]) -> Self {
        let mut out = Encoder::default();
        let mut before = Before::default();
        entries.iter().for_each(|entry| before.encode(&mut out, entry));
        let newest_version = entries.iter().map(|entry| entry.schema_version).max().unwrap_or(0);
        let newest_epoch = entries.iter().filter_map(PartEntry::epoch).max();
        let oldest_fast_s = entries.iter().filter_map(|entry| fast_since(PartName::of(&entry.file))).min();
        let (summary, last) = (ChunkSummary::of(entries), before.partition);
        Self { summary, last, newest_version, newest_epoch, oldest_fast_s, bytes: out.finish().into() }
    }

    /// Newest schema that a part was written with.
    pub(crate) fn newest_version(&self) -> u32 {
        self.newest_version
    }

    /// Highest epoch of an opening that wrote one of the parts; `None` where none is named after one.
    pub(crate) fn newest_epoch(&self) -> Option<u64> {
        self.newest_epoch
    }

    /// When the oldest part that is not dense was written (s since the Unix epoch); `None` where all are.
    pub(crate) fn oldest_fast_s(&self) -> Option<u64> {
        self.oldest_fast_s
    }

    /// Start of its last partition.
    pub(crate) fn last_partition(&self) -> i64 {
        self.last
    }

    /// Its entries, by partition and position.
    pub(crate) fn entries(&self) -> Vec<PartEntry> {
        self.try_entries().expect("a chunk is made of entries, or was decoded when it was read")
    }

    fn try_entries(&self) -> Result<Vec<PartEntry>, Malformed> {
        let (mut input, mut before) = (Decoder::new(&self.bytes), Before::default());
        let entries = (0..self.summary.parts).map(|_| before.decode(&mut input)).collect::<Result<_, _>>()?;
        input.finish()?;
        Ok(entries)
    }

    pub(crate) fn encode(&self, out: &mut Encoder) {
        let summary = &self.summary;
        out.i64(summary.first);
        out.u32(summary.partitions);
        out.u32(summary.parts);
        out.u64(summary.rows);
        out.u64(summary.disk_bytes);
        out.optional(summary.times, |out, (min, max)| {
            out.i64(min);
            out.i64(max);
        });
        out.u32(summary.schema_version);
        out.len(self.bytes.len());
        out.raw(&self.bytes);
    }

    /// Reads a chunk, and checks that its entries are what its summary says.
    pub(crate) fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let summary = ChunkSummary {
            first: input.i64()?,
            partitions: input.u32()?,
            parts: input.u32()?,
            rows: input.u64()?,
            disk_bytes: input.u64()?,
            times: input.optional(|input| Ok((input.i64()?, input.i64()?)))?,
            schema_version: input.u32()?,
        };
        let length = input.count(1)?;
        let bytes = input.raw(length)?.into();
        let mut chunk =
            Self { summary, last: 0, newest_version: 0, newest_epoch: None, oldest_fast_s: None, bytes };
        chunk.check()?;
        Ok(chunk)
    }

    /// Goes over the entries without keeping one, and notes what the summary does not say.
    fn check(&mut self) -> Result<(), Malformed> {
        let (mut input, mut before) = (Decoder::new(&self.bytes), Before::default());
        let empty = ChunkSummary::of(&[]);
        let (mut newest_version, mut newest_epoch, mut oldest_fast_s) = (0, None, None::<u64>);
        let mut found = ChunkSummary { schema_version: u32::MAX, ..empty };
        for part in 0..self.summary.parts {
            let partition = before.partition;
            before.read(&mut input)?;
            if part > 0 && before.partition < partition {
                return Err("partitions that go back".to_string());
            }
            if part == 0 || before.partition > partition {
                found.partitions += 1;
            }
            if part == 0 {
                found.first = before.partition;
            }
            found.parts += 1;
            found.rows = found.rows.checked_add(before.rows).ok_or("too many rows")?;
            found.disk_bytes = found.disk_bytes.checked_add(before.file_bytes).ok_or("too many bytes")?;
            found.times = match (found.times, before.times) {
                (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
                (a, b) => a.or(b),
            };
            found.schema_version = found.schema_version.min(before.schema_version);
            newest_version = newest_version.max(before.schema_version);
            let name = before.part_name();
            newest_epoch = newest_epoch.max(name.map(|name| name.epoch));
            let fast_s = fast_since(name);
            oldest_fast_s = oldest_fast_s.into_iter().chain(fast_s).min();
        }
        input.finish()?;
        if found != self.summary || found.parts == 0 {
            return Err("a chunk of parts is not what it says".to_string());
        }
        (self.last, self.newest_version, self.newest_epoch, self.oldest_fast_s) =
            (before.partition, newest_version, newest_epoch, oldest_fast_s);
        Ok(())
    }
}

/// The entry before, which the next one is written against.
#[derive(Debug, Default)]
struct Before {
    partition: i64,
    epoch: u64,
    number: u64,
    written_s: u64,
    /// Whether the name says when the part was written, and that it is dense.
    is_timed: bool,
    is_dense: bool,
    /// The file's name where it is not made of these.
    name: Option<String>,
    first: u64,
    last: u64,
    rows: u64,
    times: Option<(i64, i64)>,
    file_bytes: u64,
    schema_version: u32,
}

/// Presence of times.
const HAS_TIMES: u8 = 1;
/// The file's name stands as text.
const HAS_NAME: u8 = 2;
/// The file's name says when the part was written.
const HAS_SECONDS: u8 = 4;
/// The file's name says that the part is dense.
const IS_DENSE: u8 = 8;

/// When a part of this name was written (s since the Unix epoch, 0 where it does not say); `None` where it is dense.
pub(crate) fn fast_since(name: Option<PartName>) -> Option<u64> {
    match name {
        Some(name) if name.density == Density::Dense => None,
        Some(name) => Some(name.written_s.unwrap_or(0)),
        None => Some(0),
    }
}

impl Before {
    fn encode(&mut self, out: &mut Encoder, entry: &PartEntry) {
        let name = whole_name(&entry.file);
        let named = name.map_or(HAS_NAME, |name| {
            let dense = if name.density == Density::Dense { IS_DENSE } else { 0 };
            dense | name.written_s.map_or(0, |_| HAS_SECONDS)
        });
        out.u8(entry.times.map_or(0, |_| HAS_TIMES) | named);
        out.signed(entry.partition.wrapping_sub(self.partition));
        match name {
            Some(PartName { epoch, number, written_s, .. }) => {
                out.signed(epoch.wrapping_sub(self.epoch).cast_signed());
                out.signed(number.wrapping_sub(self.number).cast_signed());
                (self.epoch, self.number) = (epoch, number);
                if let Some(written_s) = written_s {
                    out.signed(written_s.wrapping_sub(self.written_s).cast_signed());
                    self.written_s = written_s;
                }
            }
            None => out.text(&entry.file),
        }
        out.signed(entry.positions.first.wrapping_sub(self.first).cast_signed());
        out.number(entry.positions.last.wrapping_sub(entry.positions.first));
        out.number(entry.rows);
        if let Some((min, max)) = entry.times {
            out.signed(min.wrapping_sub(entry.partition));
            out.number(max.wrapping_sub(min).cast_unsigned());
        }
        out.number(entry.file_bytes);
        out.number(u64::from(entry.schema_version));
        (self.partition, self.first) = (entry.partition, entry.positions.first);
    }

    /// Reads the next entry into this one.
    fn read(&mut self, input: &mut Decoder<'_>) -> Result<(), Malformed> {
        let flags = input.u8()?;
        let all = HAS_TIMES | HAS_NAME | HAS_SECONDS | IS_DENSE;
        let spoken = flags & (HAS_SECONDS | IS_DENSE);
        if flags > all || flags & HAS_NAME != 0 && spoken != 0 || spoken == IS_DENSE {
            return Err(format!("flags {flags} of a part are not known"));
        }
        self.partition = self.partition.wrapping_add(input.signed()?);
        (self.name, self.is_timed) = (None, flags & HAS_SECONDS != 0);
        self.is_dense = flags & IS_DENSE != 0;
        if flags & HAS_NAME != 0 {
            self.name = Some(input.text()?.to_string());
        } else {
            self.epoch = self.epoch.wrapping_add(input.signed()?.cast_unsigned());
            self.number = self.number.wrapping_add(input.signed()?.cast_unsigned());
            if self.is_timed {
                self.written_s = self.written_s.wrapping_add(input.signed()?.cast_unsigned());
            }
        }
        self.first = self.first.wrapping_add(input.signed()?.cast_unsigned());
        self.last = self.first.wrapping_add(input.number()?);
        self.rows = input.number()?;
        self.times = None;
        if flags & HAS_TIMES != 0 {
            let min = self.partition.wrapping_add(input.signed()?);
            self.times = Some((min, min.wrapping_add(input.number()?.cast_signed())));
        }
        self.file_bytes = input.number()?;
        let version = u32::try_from(input.number()?);
        self.schema_version = version.map_err(|_| "a schema version past 32 bits".to_string())?;
        Ok(())
    }

    /// What the name says that is made of numbers.
    fn numbered_name(&self) -> PartName {
        let density = if self.is_dense { Density::Dense } else { Density::Fast };
        let written_s = self.is_timed.then_some(self.written_s);
        PartName { epoch: self.epoch, number: self.number, written_s, density }
    }

    /// What the name says, `None` where it is no part's.
    fn part_name(&self) -> Option<PartName> {
        self.name.as_deref().map_or_else(|| Some(self.numbered_name()), PartName::of)
    }

    fn decode(&mut self, input: &mut Decoder<'_>) -> Result<PartEntry, Malformed> {
        self.read(input)?;
        Ok(PartEntry {
            partition: self.partition,
            file: self.name.take().unwrap_or_else(|| self.numbered_name().to_string()),
            positions: PositionRange { first: self.first, last: self.last },
            rows: self.rows,
            times: self.times,
            file_bytes: self.file_bytes,
            schema_version: self.schema_version,
        })
    }
}

/// What a file name says, where it says no more: it can be made again of that.
fn whole_name(file: &str) -> Option<PartName> {
    PartName::of(file).filter(|name| name.to_string() == file)
}

#[cfg(test)]
mod tests;
