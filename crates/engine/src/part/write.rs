//! Writing a part: order, encode columns in parallel, footer, sync, rename.
//!
//! Rows come in one or more stretches of time, each ordered, encoded and written before the next is asked
//! for: memory is that of a stretch's columns under way, not of the part.
//!
//! Invariants:
//! - the file has its final name only when all of it is on stable storage;
//! - after an error nothing is left under either name (as far as the disk lets it be removed).

use super::block::{Chunk, encode_column};
use super::bloom::{Filter, filtered, filters_of};
use super::layout::{
    BloomRecord, ChunkRecord, FooterHead, HAS_TIMESTAMP, IS_DENSE, MAX_ROWS, SliceRecord, Trailer, VERSION,
    VERSION_FILTERED, VERSION_PLAIN, header, pad,
};
use super::open::schema_bytes;
use super::order::{Order, SortedSlice, order};
use super::stats::{StatKind, TotalStats};
use super::{Density, Part, PartOptions, PartSummary, PositionRange, RowSource};
use crate::disk::{AppendFile, Disk};
use crate::{EngineError, Result};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use tickstone_model::{ColumnType, RowBatch, TableSchema};

impl Part {
    /// Sorts rows and writes them as the part `path`; the caller syncs the folder.
    ///
    /// `batches` are in arrival order. Rows are sorted by (slice, series key, timestamp), ties as they came.
    /// The file is written under `path` + ".tmp", synced and renamed.
    ///
    /// # Errors
    /// [`EngineError::Io`]; then no file is left under `path`.
    pub fn write(
        disk: &dyn Disk,
        path: &Path,
        schema: &Arc<TableSchema>,
        positions: PositionRange,
        batches: &[RowBatch],
        options: PartOptions,
    ) -> Result<PartSummary> {
        let mut writer = PartWriter::create(disk, path, schema, positions, options)?;
        writer.add(batches)?;
        writer.finish()
    }
}

fn unfinished_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

/// A part being written. Dropped before [`Self::finish`], it leaves no file behind.
#[derive(Debug)]
pub struct PartWriter<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
    schema: &'a TableSchema,
    positions: PositionRange,
    options: PartOptions,
    sink: Sink,
    columns: Vec<WrittenColumn>,
    /// Columns that get filters, ascending.
    filtered: Vec<usize>,
    slices: Vec<SortedSlice>,
    rows: usize,
    finished: bool,
}

impl<'a> PartWriter<'a> {
    /// Begins the part `path`, whose rows are those of `positions`.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub fn create(
        disk: &'a dyn Disk,
        path: &'a Path,
        schema: &'a TableSchema,
        positions: PositionRange,
        options: PartOptions,
    ) -> Result<Self> {
        let unfinished = unfinished_name(path);
        disk.remove(&unfinished).map_err(EngineError::io("remove", &unfinished))?;
        let file = disk.create(&unfinished).map_err(EngineError::io("create", &unfinished))?;
        let column = || WrittenColumn { total: TotalStats::empty(), chunks: Vec::new(), blooms: Vec::new() };
        let mut writer = Self {
            disk,
            path,
            schema,
            positions,
            options,
            sink: Sink { file, path: unfinished, at: 0 },
            columns: schema.columns().iter().map(|_| column()).collect(),
            filtered: filtered(schema).collect(),
            slices: Vec::new(),
            rows: 0,
            finished: false,
        };
        let version = writer.version();
        writer.sink.append(&header(version))?;
        Ok(writer)
    }

    /// The oldest format that can say what the part does.
    fn version(&self) -> u32 {
        match () {
            () if self.schema.columns().iter().any(|column| column.column_type.is_array()) => VERSION,
            () if self.filtered.is_empty() => VERSION_PLAIN,
            () => VERSION_FILTERED,
        }
    }

    /// Sorts rows into slices and writes them. They must not be earlier than those added before.
    ///
    /// # Errors
    /// [`EngineError::Io`], also for more rows than a part can hold, and those of the source; drop the
    /// writer then.
    pub fn add<R: RowSource + ?Sized>(&mut self, source: &R) -> Result<()> {
        let rows = source.rows();
        if rows > MAX_ROWS - self.rows {
            let what = io::Error::new(io::ErrorKind::InvalidInput, "more rows than a part can hold");
            return Err(EngineError::Io { action: "write", path: self.path.into(), source: what });
        }
        let mut order = order(self.schema, self.path, source, self.options.slice_rows)?;
        self.write_columns(source, &order)?;
        for sorted in &mut order.slices {
            sorted.slice.rows = sorted.slice.rows.start + self.rows..sorted.slice.rows.end + self.rows;
        }
        self.slices.append(&mut order.slices);
        self.rows += rows;
        Ok(())
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.sink.at
    }

    /// Writes the footer, makes the file stable and gives it its name.
    ///
    /// # Errors
    /// [`EngineError::Io`]; then no file is left under either name.
    pub fn finish(mut self) -> Result<PartSummary> {
        let footer = self.footer();
        let trailer = Trailer {
            footer_offset: self.sink.at,
            footer_bytes: footer.len() as u64,
            file_bytes: self.sink.at + (footer.len() + super::layout::TRAILER_BYTES) as u64,
            footer_crc: crc32c::crc32c(&footer),
            version: self.version(),
        };
        self.sink.append(&footer)?;
        self.sink.append(&trailer.to_bytes())?;
        self.sink.file.sync().map_err(EngineError::io("sync", &self.sink.path))?;
        self.disk.rename(&self.sink.path, self.path).map_err(EngineError::io("rename", &self.sink.path))?;
        self.finished = true;
        Ok(PartSummary { rows: self.rows as u64, times: self.times(), file_bytes: self.sink.at })
    }

    fn times(&self) -> Option<(i64, i64)> {
        let bounds = || self.slices.iter().filter_map(|sorted| sorted.slice.times);
        Some((bounds().next()?.0, bounds().next_back()?.1))
    }

    /// Encodes columns on several threads and writes each as soon as those before it are.
    fn write_columns<R: RowSource + ?Sized>(&mut self, source: &R, order: &Order) -> Result<()> {
        let columns = self.schema.columns();
        let next = AtomicUsize::new(0);
        let options = self.options;
        let filtered = self.filtered.clone();
        let encode = |column: usize, column_type: ColumnType| -> Result<Encoded> {
            // In a dense part other timestamps may be stored as distances from the designated one.
            let beside = self.schema.timestamp().filter(|designated| *designated != column);
            let beside =
                beside.filter(|_| options.density == Density::Dense && column_type == ColumnType::Timestamp);
            let times = beside.map(|designated| source.column(designated)).transpose()?;
            let arrays = source.column(column)?;
            let has_filter = filtered.contains(&column);
            let filters = if has_filter { filters_of(column_type, &arrays, order) } else { Vec::new() };
            let chunks = encode_column(column_type, &arrays, times.as_deref(), order, options);
            Ok(Encoded { chunks, filters })
        };
        // What takes longest begins first: begun last, it would run alone.
        let mut turns: Vec<usize> = (0..columns.len()).collect();
        turns.sort_by_key(|column| !is_slow(columns[*column].column_type));
        let encode_next = || {
            let column = *turns.get(next.fetch_add(1, Ordering::Relaxed))?;
            Some((column, encode(column, columns[column].column_type)))
        };
        let threads = self.options.threads.max(1);
        if threads == 1 {
            for (column, of) in columns.iter().enumerate() {
                self.write_column(column, encode(column, of.column_type)?)?;
            }
            return Ok(());
        }
        // Bounded, so that a slow disk holds the encoders up and not the memory: but for what was begun first and waits
        // for the columns before it.
        let (sender, receiver) = mpsc::sync_channel(threads);
        thread::scope(|scope| {
            for _ in 0..threads.min(columns.len()) {
                let sender = sender.clone();
                let encode_next = &encode_next;
                scope.spawn(move || {
                    // A closed channel means that writing failed: no more to do.
                    while let Some(encoded) = encode_next() {
                        if sender.send(encoded).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(sender);
            // Owned by this closure: dropped on an error, before the scope waits for the threads.
            let receiver = receiver;
            let (mut early, mut written) = (BTreeMap::new(), 0);
            while written < columns.len() {
                let Ok((column, chunks)) = receiver.recv() else { break };
                early.insert(column, chunks?);
                while let Some(chunks) = early.remove(&written) {
                    self.write_column(written, chunks)?;
                    written += 1;
                }
            }
            Ok(())
        })
    }

    fn write_column(&mut self, column: usize, encoded: Encoded) -> Result<()> {
        let kind = StatKind::of(self.schema.columns()[column].column_type);
        let written = &mut self.columns[column];
        let mut filters = encoded.filters.into_iter();
        for chunk in encoded.chunks {
            written.total.add(kind, &chunk.total);
            let data_offset = self.sink.at;
            self.sink.append(&chunk.data)?;
            written.chunks.push(ChunkRecord {
                data_offset,
                data_bytes: chunk.data.len() as u64,
                page_offset: self.sink.at,
                page_bytes: u32::try_from(chunk.page.len()).expect("4 G rows have 200 MB of block records"),
                page_crc: crc32c::crc32c(&chunk.page),
            });
            self.sink.append(&chunk.page)?;
            if let Some(filter) = filters.next() {
                written.blooms.push(BloomRecord { offset: self.sink.at, rows: filter.rows });
                self.sink.append(&filter.bytes)?;
            }
        }
        Ok(())
    }

    fn footer(&self) -> Vec<u8> {
        let (schema, slices, columns) = (schema_bytes(self.schema), &self.slices, &self.columns);
        let stride = self.schema.series().len() + 1;
        let count = |value: usize| u32::try_from(value).expect("columns, slices and series are under 4 G");
        let (time_min, time_max) = self.times().unwrap_or((0, 0));
        let mut out = Vec::new();
        FooterHead {
            rows: self.rows as u64,
            first_position: self.positions.first,
            last_position: self.positions.last,
            time_min,
            time_max,
            columns: count(columns.len()),
            slices: count(slices.len()),
            series_columns: count(self.schema.series().len()),
            schema_bytes: count(schema.len()),
            series_entries: count(slices.iter().map(|sorted| sorted.series.len() / stride).sum()),
            flags: if self.schema.timestamp().is_some() { HAS_TIMESTAMP } else { 0 }
                | if self.options.density == Density::Dense { IS_DENSE } else { 0 },
        }
        .write(&mut out);
        out.extend_from_slice(&schema);
        pad(&mut out);
        for column in columns {
            column.total.write(&mut out);
        }
        let mut series_first = 0;
        for sorted in slices {
            let (time_min, time_max) = sorted.slice.times.unwrap_or((0, 0));
            let series_count = count(sorted.series.len() / stride);
            SliceRecord {
                first_row: sorted.slice.rows.start as u64,
                rows: sorted.slice.rows.len() as u64,
                time_min,
                time_max,
                series_first,
                series_count,
            }
            .write(&mut out);
            series_first += series_count;
        }
        for slice in 0..slices.len() {
            columns.iter().for_each(|column| column.chunks[slice].write(&mut out));
        }
        for sorted in slices {
            sorted.series.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        }
        pad(&mut out);
        if self.version() >= VERSION_FILTERED {
            self.write_blooms(&mut out);
        }
        out
    }

    /// Which columns have filters, and where these are.
    fn write_blooms(&self, out: &mut Vec<u8>) {
        let word = |value: usize| u32::try_from(value).expect("a table has at most 4,096 columns");
        out.extend_from_slice(&word(self.filtered.len()).to_le_bytes());
        self.filtered.iter().for_each(|column| out.extend_from_slice(&word(*column).to_le_bytes()));
        pad(out);
        for slice in 0..self.slices.len() {
            self.filtered.iter().for_each(|column| self.columns[*column].blooms[slice].write(out));
        }
    }
}

/// Whether the values of a column take many times as long to encode as numbers do.
fn is_slow(column_type: ColumnType) -> bool {
    matches!(column_type, ColumnType::Varchar | ColumnType::Binary) || column_type.is_array()
}

/// One column of a stretch of time, encoded.
struct Encoded {
    /// One a slice.
    chunks: Vec<Chunk>,
    /// One a slice, none where the column gets none.
    filters: Vec<Filter>,
}

/// Where a column's chunks went.
#[derive(Debug)]
struct WrittenColumn {
    total: TotalStats,
    chunks: Vec<ChunkRecord>,
    /// Of its filters.
    blooms: Vec<BloomRecord>,
}

/// The file being written, under its temporary name, and how much of it is.
#[derive(Debug)]
struct Sink {
    file: Box<dyn AppendFile>,
    path: PathBuf,
    at: u64,
}

impl Sink {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes).map_err(EngineError::io("write", &self.path))?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}

impl Drop for PartWriter<'_> {
    fn drop(&mut self) {
        if !self.finished {
            // The first error is what matters; a file left behind has a name nobody reads.
            let _ = self.disk.remove(&self.sink.path);
        }
    }
}
