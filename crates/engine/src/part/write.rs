//! Writing a part: order, encode columns in parallel, footer, sync, rename.
//!
//! Invariants:
//! - the file has its final name only when all of it is on stable storage;
//! - after an error nothing is left under either name (as far as the disk lets it be removed).

use super::block::{Chunk, encode_column};
use super::layout::{ChunkRecord, FooterHead, SliceRecord, Trailer, VERSION, header, pad};
use super::open::schema_bytes;
use super::order::{Order, order};
use super::stats::{StatKind, TotalStats};
use super::{Part, PartOptions, PartSummary, PositionRange};
use crate::disk::{AppendFile, Disk};
use crate::{EngineError, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use tickstone_model::{RowBatch, TableSchema};

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
        let order = order(schema, path, batches, options.slice_rows)?;
        let unfinished = unfinished_name(path);
        disk.remove(&unfinished).map_err(EngineError::io("remove", &unfinished))?;
        let job = Job { schema, positions, batches, order: &order, threads: options.threads.max(1) };
        let written = job.write(disk, &unfinished).and_then(|summary| {
            disk.rename(&unfinished, path).map_err(EngineError::io("rename", &unfinished))?;
            Ok(summary)
        });
        if written.is_err() {
            // The first error is what matters; a file left behind has a name nobody reads.
            let _ = disk.remove(&unfinished);
        }
        written
    }
}

fn unfinished_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

struct Job<'a> {
    schema: &'a TableSchema,
    positions: PositionRange,
    batches: &'a [RowBatch],
    order: &'a Order,
    threads: usize,
}

impl Job<'_> {
    fn write(&self, disk: &dyn Disk, path: &Path) -> Result<PartSummary> {
        let mut file =
            Sink { file: disk.create(path).map_err(EngineError::io("create", path))?, path, at: 0 };
        file.append(&header(VERSION))?;
        let columns = self.write_columns(&mut file)?;
        let footer = self.footer(&columns);
        let trailer = Trailer {
            footer_offset: file.at,
            footer_bytes: footer.len() as u64,
            file_bytes: file.at + (footer.len() + super::layout::TRAILER_BYTES) as u64,
            footer_crc: crc32c::crc32c(&footer),
            version: VERSION,
        };
        file.append(&footer)?;
        file.append(&trailer.to_bytes())?;
        file.file.sync().map_err(EngineError::io("sync", path))?;
        Ok(PartSummary { rows: self.rows() as u64, times: self.times(), file_bytes: file.at })
    }

    fn rows(&self) -> usize {
        self.batches.iter().map(RowBatch::rows).sum()
    }

    fn times(&self) -> Option<(i64, i64)> {
        let bounds = || self.order.slices.iter().filter_map(|sorted| sorted.slice.times);
        Some((bounds().next()?.0, bounds().next_back()?.1))
    }

    /// Encodes columns on `threads` threads and writes each as soon as those before it are.
    fn write_columns(&self, file: &mut Sink<'_>) -> Result<Vec<WrittenColumn>> {
        let columns = self.schema.columns();
        let next = AtomicUsize::new(0);
        let encode_next = || {
            let column = next.fetch_add(1, Ordering::Relaxed);
            let column_type = columns.get(column)?.column_type;
            Some((
                column,
                encode_column(column_type, self.batches, column, self.schema.timestamp(), self.order),
            ))
        };
        let mut written = Vec::with_capacity(columns.len());
        if self.threads == 1 {
            while let Some((column, chunks)) = encode_next() {
                written.push(self.write_column(file, column, chunks)?);
            }
            return Ok(written);
        }
        // Bounded, so that a slow disk holds the encoders up and not the memory.
        let (sender, receiver) = mpsc::sync_channel(self.threads);
        thread::scope(|scope| {
            for _ in 0..self.threads.min(columns.len()) {
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
            let mut early = BTreeMap::new();
            while written.len() < columns.len() {
                let Ok((column, chunks)) = receiver.recv() else { break };
                early.insert(column, chunks);
                while let Some(chunks) = early.remove(&written.len()) {
                    written.push(self.write_column(file, written.len(), chunks)?);
                }
            }
            Ok(written)
        })
    }

    fn write_column(&self, file: &mut Sink<'_>, column: usize, chunks: Vec<Chunk>) -> Result<WrittenColumn> {
        let kind = StatKind::of(self.schema.columns()[column].column_type);
        let mut written =
            WrittenColumn { total: TotalStats::empty(), chunks: Vec::with_capacity(chunks.len()) };
        for chunk in chunks {
            written.total.add(kind, &chunk.total);
            let data_offset = file.at;
            file.append(&chunk.data)?;
            written.chunks.push(ChunkRecord {
                data_offset,
                data_bytes: chunk.data.len() as u64,
                page_offset: file.at,
                page_bytes: u32::try_from(chunk.page.len()).expect("4 G rows have 200 MB of block records"),
                page_crc: crc32c::crc32c(&chunk.page),
            });
            file.append(&chunk.page)?;
        }
        Ok(written)
    }

    fn footer(&self, columns: &[WrittenColumn]) -> Vec<u8> {
        let schema = schema_bytes(self.schema);
        let slices = &self.order.slices;
        let stride = self.schema.series().len() + 1;
        let count = |value: usize| u32::try_from(value).expect("columns, slices and series are under 4 G");
        let (time_min, time_max) = self.times().unwrap_or((0, 0));
        let mut out = Vec::new();
        FooterHead {
            rows: self.rows() as u64,
            first_position: self.positions.first,
            last_position: self.positions.last,
            time_min,
            time_max,
            columns: count(columns.len()),
            slices: count(slices.len()),
            series_columns: count(self.schema.series().len()),
            schema_bytes: count(schema.len()),
            series_entries: count(slices.iter().map(|sorted| sorted.series.len() / stride).sum()),
            flags: u32::from(self.schema.timestamp().is_some()),
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
        out
    }
}

/// Where a column's chunks went.
struct WrittenColumn {
    total: TotalStats,
    chunks: Vec<ChunkRecord>,
}

/// The file being written, and how much of it is.
struct Sink<'a> {
    file: Box<dyn AppendFile>,
    path: &'a Path,
    at: u64,
}

impl Sink<'_> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes).map_err(EngineError::io("write", self.path))?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}
