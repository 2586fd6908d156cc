//! CSV and NDJSON files into a load.

use super::pipeline::{self, ChunkSource, Parsed, TextParser};
use super::shape::{FileFields, Shape};
use super::source::{RawFile, ReadState};
use super::{
    BadRowExample, BadRows, Compression, FileFormat, FileImport, ImportError, ImportRequest, Loaded, Result,
    append, encoding, json_array,
};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tickstone_engine::BulkLoad;
use tickstone_model::ColumnType;
use tickstone_wire::infer::ColumnSample;
use tickstone_wire::{BadRow, Fault, Plan, RECORD_BYTES_MAX, csv, ndjson};

/// Bytes and rows looked at to infer types.
const SAMPLE_BYTES: usize = 1 << 20;
const SAMPLE_ROWS: usize = 10_000;

/// Chunks are this large, or smaller where the memory budget is.
const CHUNK_BYTES_MAX: usize = 2 << 20;
const CHUNK_BYTES_MIN: usize = 64 << 10;
/// Memory a chunk's bytes and columns take, at most, as a multiple of its bytes.
const CHUNK_MEMORY_FACTOR: usize = 8;

/// Bad rows told of in full.
const EXAMPLES_MAX: usize = 5;

/// A text file, opened and sampled.
pub(crate) struct TextFile {
    records: RecordReader,
    state: Arc<ReadState>,
    layout: Layout,
    fields: FileFields,
    /// Lines before the first record's.
    lines_before: u64,
    /// The header as it stands in the file, for the file of bad rows.
    header: Vec<u8>,
    /// The same with its line's end.
    first: Vec<u8>,
    bytes: u64,
}

#[derive(Debug, Clone, Copy)]
enum Layout {
    Csv { delimiter: u8 },
    Ndjson,
}

impl TextFile {
    /// As [`Self::open`], of the file at a path.
    pub(crate) fn open_at(
        path: &Path,
        format: FileFormat,
        compression: Compression,
        request: &ImportRequest,
    ) -> Result<Self> {
        Self::open(RawFile::open(path)?, format, compression, request, None)
    }

    /// Opens a file and looks at its first rows, but where it begins as a `known` one: then its columns are that one's.
    pub(crate) fn open(
        raw: RawFile,
        format: FileFormat,
        compression: Compression,
        request: &ImportRequest,
        known: Option<&KnownText>,
    ) -> Result<Self> {
        let (bytes, path) = (raw.bytes(), raw.path().to_path_buf());
        let (reader, state) = raw.unpack(compression)?;
        let mut head = Vec::new();
        let failed = |source| ImportError::Read { path: path.clone(), source };
        let reader = encoding::decoded(reader).map_err(failed)?;
        let mut reader = reader.map_err(|encoding| ImportError::Encoding { path: path.clone(), encoding })?;
        if format == FileFormat::Ndjson {
            reader = json_array::as_lines(reader).map_err(failed)?;
        }
        let mut ended = fill(&mut *reader, &mut head, SAMPLE_BYTES).map_err(failed)?;
        // A header and a row, however long they are.
        while !ended && records_in(&head, format, request) < 2 {
            if head.len() > 2 * RECORD_BYTES_MAX {
                return Err(ImportError::RecordTooLong { path, most: RECORD_BYTES_MAX });
            }
            let wanted = head.len() * 2;
            ended = fill(&mut *reader, &mut head, wanted).map_err(failed)?;
        }
        if head.starts_with(csv::BYTE_ORDER_MARK) {
            head.drain(..csv::BYTE_ORDER_MARK.len());
        }
        let known = known.filter(|known| format == FileFormat::Csv && head.starts_with(&known.first));
        let (layout, header, fields) = match (format, known) {
            (_, Some(known)) => {
                let first = head.drain(..known.first.len()).collect();
                (known.layout, first, known.fields.clone())
            }
            (FileFormat::Ndjson, None) => {
                let head = whole(&head, ended, Layout::Ndjson);
                let mut sample = ndjson::sample(head, SAMPLE_ROWS);
                if let (true, Some((line, text, what))) = (sample.is_empty(), ndjson::first_fault(head)) {
                    return Err(ImportError::NoObject { path, line: line + 1, text, what });
                }
                if !ended {
                    // Keys that come later, of which the request says so.
                    let is_new = |name: &&String| {
                        let renamed = request.renames.iter().map(|(_, to)| to.as_str());
                        let mut known = sample.iter().map(ColumnSample::name).chain(renamed);
                        !known.any(|known| known.eq_ignore_ascii_case(name))
                    };
                    let new: Vec<&String> =
                        request.types.iter().map(|(name, _)| name).filter(is_new).collect();
                    sample.extend(new.into_iter().map(ColumnSample::new));
                }
                (Layout::Ndjson, Vec::new(), FileFields::of_samples(sample, true, request, &path)?)
            }
            _ => {
                let (layout, header, samples, named) = sample_csv(&mut head, ended, request);
                if named && std::str::from_utf8(&header).is_err() {
                    let text = String::from_utf8_lossy(header.trim_ascii_end()).into_owned();
                    return Err(ImportError::Header { path, text });
                }
                (layout, header, FileFields::of_samples(samples, named, request, &path)?)
            }
        };
        if fields.fields.is_empty() {
            return Err(ImportError::Empty { path });
        }
        let lines_before = memchr_count(&header);
        let first: Vec<u8> = header;
        let header = first.trim_ascii_end().to_vec();
        let records = RecordReader { path, reader, layout, carry: head, ended, chunk_bytes: 0 };
        Ok(Self { records, state, layout, fields, lines_before, header, first, bytes })
    }

    /// Its columns.
    pub(crate) fn fields(&self) -> &FileFields {
        &self.fields
    }

    /// Whether it begins as a file that is known.
    pub(crate) fn begins_as(&self, known: Option<&KnownText>) -> bool {
        known.is_some_and(|known| self.first == known.first)
    }

    /// What it is known by, for a file that begins as it does: `None` where its first line names no columns or does not
    /// end, and where a column has no value, which says nothing of how times are written.
    pub(crate) fn known(&self) -> Option<KnownText> {
        let known =
            || KnownText { first: self.first.clone(), layout: self.layout, fields: self.fields.clone() };
        let shows_all = self.fields.fields.iter().all(|field| field.inferred.seen);
        (self.first.ends_with(b"\n") && self.fields.named && shows_all).then(known)
    }

    /// Parses all of it by a plan, on this thread alone.
    pub(crate) fn parsed(&mut self, plan: &Arc<Plan>, reading: &Reading) -> Result<Vec<Parsed>> {
        self.records.chunk_bytes = CHUNK_BYTES_MAX;
        let mut parser = self.parser(plan, reading);
        let mut all = Vec::new();
        loop {
            let mut bytes = Vec::new();
            if !self.records.next(&mut bytes)? {
                return Ok(all);
            }
            let chunk = parser.parse(&bytes, reading.stop_at_bad);
            all.push(Parsed { chunk, bytes });
        }
    }

    /// A parser by a plan. What no column takes is a fault where one ends it, else it is told of.
    fn parser(&self, plan: &Arc<Plan>, reading: &Reading) -> TextParser {
        match self.layout {
            Layout::Csv { delimiter } => TextParser::Csv(csv::Parser::new(Arc::clone(plan), delimiter)),
            Layout::Ndjson => {
                TextParser::Ndjson(ndjson::Parser::new(Arc::clone(plan)).strict(reading.strict))
            }
        }
    }

    /// Puts all of it into `load`: what is `parsed` already, or what is parsed now.
    pub(crate) fn load(
        &mut self,
        import: &mut FileImport<'_, '_>,
        shape: &Shape,
        load: &mut BulkLoad,
        parsed: Option<Vec<Parsed>>,
    ) -> Result<Loaded> {
        let mut loaded = Loaded { rows: 0, bad_rows: 0, examples: Vec::new(), ignored: Vec::new(), hash: 0 };
        let (header, state, bytes) = (self.header.clone(), Arc::clone(&self.state), self.bytes);
        let reading = Reading::of(import.request());
        let mut take = |parsed: &mut Parsed, lines| {
            let chunk = &mut parsed.chunk;
            for bad in &chunk.bad {
                let record = parsed.bytes.get(bad.record.clone()).unwrap_or_default();
                import.collect(&header, record)?;
                if loaded.examples.len() < EXAMPLES_MAX {
                    loaded.examples.push(BadRowExample { line: lines + bad.line + 1, what: describe(bad) });
                }
            }
            loaded.bad_rows += chunk.bad.len() as u64;
            loaded.rows += chunk.rows as u64;
            for key in std::mem::take(&mut chunk.ignored) {
                if !loaded.ignored.contains(&key) {
                    loaded.ignored.push(key);
                }
            }
            if chunk.rows > 0 {
                append(load, shape, std::mem::take(&mut chunk.columns))?;
            }
            import.step(state.bytes(), bytes, loaded.rows)
        };
        match parsed {
            None => self.read(shape.plan(), &reading, &mut take)?,
            Some(parsed) => {
                let mut lines = self.lines_before;
                for mut parsed in parsed {
                    take_chunk(&self.records.path, &reading, &mut lines, &mut parsed, &mut take)?;
                }
            }
        }
        loaded.hash = self.state.hash();
        Ok(loaded)
    }

    /// Parses all of it by a plan, and hands each chunk on in the file's order, with the number of lines before it.
    pub(crate) fn read(&mut self, plan: Plan, reading: &Reading, take: &mut Take<'_>) -> Result<()> {
        let buffers = reading.threads + 2;
        let chunk_bytes = reading.memory_bytes / (buffers * CHUNK_MEMORY_FACTOR);
        self.records.chunk_bytes = chunk_bytes.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        let plan = Arc::new(plan);
        let parsers = (0..reading.threads).map(|_| self.parser(&plan, reading)).collect();
        let path = self.records.path.clone();
        let mut lines = self.lines_before;
        pipeline::run(&mut self.records, parsers, buffers, reading.stop_at_bad, |parsed: &mut Parsed| {
            take_chunk(&path, reading, &mut lines, parsed, take)
        })
    }
}

/// Has a chunk taken, and counts its lines; an error where it has a bad row and none may be.
fn take_chunk(
    path: &Path,
    reading: &Reading,
    lines: &mut u64,
    parsed: &mut Parsed,
    take: &mut Take<'_>,
) -> Result<()> {
    if let (Some(bad), true) = (parsed.chunk.bad.first(), reading.stop_at_bad) {
        return Err(bad_row(path, *lines, bad));
    }
    let before = *lines;
    *lines += parsed.chunk.lines;
    take(parsed, before)
}

/// How a text file begins, and what was made of it.
#[derive(Debug, Clone)]
pub(crate) struct KnownText {
    /// Its first record, with its line's end.
    first: Vec<u8>,
    layout: Layout,
    fields: FileFields,
}

/// Takes a chunk, and how many lines of the file are before it.
pub(crate) type Take<'a> = dyn FnMut(&mut Parsed, u64) -> Result<()> + 'a;

/// How a text file is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// Threads that parse.
    threads: usize,
    /// Most memory for chunks under way, in bytes.
    memory_bytes: usize,
    /// Whether a bad row ends it.
    stop_at_bad: bool,
    /// Whether a key of NDJSON that no column takes makes a row bad.
    strict: bool,
}

impl Reading {
    /// Threads that parse.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// As a request says.
    pub(crate) fn of(request: &ImportRequest) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            threads: request.threads.unwrap_or(cores).max(1),
            memory_bytes: request.memory_budget_bytes,
            stop_at_bad: request.on_bad_row == BadRows::Fail,
            strict: request.on_bad_row == BadRows::Fail,
        }
    }

    /// Where only some of the columns are read: keys of the others are no faults.
    pub(crate) fn of_some_columns(self) -> Self {
        Self { strict: false, ..self }
    }
}

/// Layout, header and columns of a CSV, and whether these have names; takes the header off `head`.
fn sample_csv(
    head: &mut Vec<u8>,
    ended: bool,
    request: &ImportRequest,
) -> (Layout, Vec<u8>, Vec<ColumnSample>, bool) {
    let delimiter = request.delimiter.unwrap_or_else(|| csv::sniff_delimiter(whole_csv(head, ended)));
    let sample = whole(head, ended, Layout::Csv { delimiter });
    let has_header = request.header.unwrap_or_else(|| csv::has_header(sample, delimiter));
    let mut records = csv::Records::new(sample, delimiter);
    let mut names: Vec<String> = Vec::new();
    if has_header {
        let first = records.next().unwrap_or_default();
        names =
            first.iter().map(|field| String::from_utf8_lossy(field.text.trim_ascii()).into_owned()).collect();
    }
    let header_end = records.position();
    let named = has_header || !request.columns.is_empty();
    if !request.columns.is_empty() {
        names.clone_from(&request.columns);
    }
    let mut samples: Vec<ColumnSample> =
        names.iter().enumerate().map(|(i, name)| column_sample(i, name)).collect();
    for record in records.take(SAMPLE_ROWS) {
        if samples.is_empty() {
            samples = (0..record.len()).map(|index| column_sample(index, "")).collect();
        }
        for (sample, field) in samples.iter_mut().zip(&record) {
            if !field.text.is_empty() {
                sample.see(&field.text);
            }
        }
    }
    let header = head.drain(..header_end).collect();
    (Layout::Csv { delimiter }, header, samples, named)
}

/// How many whole records a sample begins with, counted up to two.
fn records_in(head: &[u8], format: FileFormat, request: &ImportRequest) -> usize {
    match format {
        FileFormat::Ndjson => head.iter().filter(|byte| **byte == b'\n').take(2).count(),
        _ => {
            let delimiter = request.delimiter.unwrap_or_else(|| csv::sniff_delimiter(whole_csv(head, false)));
            csv::record_count(head, delimiter, 2)
        }
    }
}

fn column_sample(index: usize, name: &str) -> ColumnSample {
    if name.is_empty() { ColumnSample::new(format!("column{}", index + 1)) } else { ColumnSample::new(name) }
}

/// The whole records of a sample: all of it where the file ends with it.
fn whole(head: &[u8], ended: bool, layout: Layout) -> &[u8] {
    if ended { head } else { head.get(..last_record_end(head, layout)).unwrap_or(head) }
}

/// The sample up to its last line end, before the delimiter is known.
fn whole_csv(head: &[u8], ended: bool) -> &[u8] {
    whole(head, ended, Layout::Ndjson)
}

fn last_record_end(bytes: &[u8], layout: Layout) -> usize {
    match layout {
        Layout::Csv { delimiter } => csv::last_record_end(bytes, delimiter),
        Layout::Ndjson => ndjson::last_record_end(bytes),
    }
}

fn memchr_count(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Reads until `buffer` holds `length` bytes; whether the input ended before.
fn fill(reader: &mut dyn Read, buffer: &mut Vec<u8>, length: usize) -> io::Result<bool> {
    let missing = length.saturating_sub(buffer.len());
    let read = reader.take(missing as u64).read_to_end(buffer)?;
    Ok(read < missing)
}

fn bad_row(path: &Path, lines_before: u64, bad: &BadRow) -> ImportError {
    let fits = match &bad.fault {
        Fault::UnknownKey { key } => Some((key.clone(), ColumnType::Varchar.to_string())),
        fault => bad.field.as_ref().and_then(|(_, name)| Some((name.clone(), fault.fitting_type()?))),
    };
    let line = lines_before + bad.line + 1;
    let is_other_unit = matches!(bad.fault, Fault::OtherUnit { .. });
    ImportError::BadRow { path: path.to_path_buf(), line, what: describe(bad), fits, is_other_unit }
}

/// `, column 3 'price': '1.5x' is not a DOUBLE`, or `: the record has 3 fields …`.
fn describe(bad: &BadRow) -> String {
    match &bad.field {
        Some((number, name)) if name.is_empty() => format!(", column {number}: '{}' {}", bad.text, bad.fault),
        Some((number, name)) => format!(", column {number} '{name}': '{}' {}", bad.text, bad.fault),
        None => format!(": '{}' {}", bad.text, bad.fault),
    }
}

/// Cuts a file into chunks of whole records.
struct RecordReader {
    path: PathBuf,
    reader: Box<dyn Read + Send>,
    layout: Layout,
    /// The beginning of the next chunk, read already.
    carry: Vec<u8>,
    /// Whether the reader has nothing more.
    ended: bool,
    chunk_bytes: usize,
}

impl ChunkSource for RecordReader {
    fn next(&mut self, buffer: &mut Vec<u8>) -> Result<bool> {
        buffer.clear();
        // The sample may be larger than a chunk.
        let taken = self.carry.len().min(self.chunk_bytes);
        let mut wanted = self.chunk_bytes;
        buffer.extend_from_slice(self.carry.get(..taken).unwrap_or_default());
        self.carry.drain(..taken);
        loop {
            self.fill(buffer, wanted)?;
            let last = self.ended && self.carry.is_empty();
            let end = if last { buffer.len() } else { last_record_end(buffer, self.layout) };
            if end > 0 || last {
                let rest = buffer.split_off(end);
                self.carry.splice(..0, rest);
                return Ok(!buffer.is_empty());
            }
            if buffer.len() > RECORD_BYTES_MAX {
                let path = self.path.clone();
                return Err(ImportError::RecordTooLong { path, most: RECORD_BYTES_MAX });
            }
            wanted = buffer.len() * 2;
        }
    }
}

impl RecordReader {
    /// Fills `buffer` up to `length` bytes from what was read already, then from the file.
    fn fill(&mut self, buffer: &mut Vec<u8>, length: usize) -> Result<()> {
        let taken = self.carry.len().min(length.saturating_sub(buffer.len()));
        buffer.extend(self.carry.drain(..taken));
        if !self.ended && buffer.len() < length {
            let failed = |source| ImportError::Read { path: self.path.clone(), source };
            self.ended = fill(&mut *self.reader, buffer, length).map_err(failed)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
