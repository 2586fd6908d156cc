//! Rows into a folder of files, by the values of some columns: `…/day=2024-11-04/data_0.parquet`, as Hive lays folders out.
//!
//! The folder is there whole or not at all: files are written beside it, and it takes its name when all are. The columns
//! that folders name are not in the files. Files that are written at once are bounded: what comes again after its file was
//! ended begins another.

use super::file::{TemporaryPath, Written, cannot_create};
use super::layout::Layout;
use super::{Encoder, Packer, Room, write_error};
use crate::paths::{FileFormat, NULL_KEY};
use crate::texts::{Cells, TimeStyle};
use crate::{QueryError, Result};
use arrow_array::{Array, RecordBatch, UInt32Array};
use arrow_schema::{Schema, SchemaRef};
use arrow_select::take::take_record_batch;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files that are written at once.
const OPEN_MAX: usize = 256;

/// Most folders that one statement makes.
const FOLDERS_MAX: usize = 100_000;

const BUFFER_BYTES: usize = 64 << 10;

/// What cannot stand in the name of a folder, or would be read as something else.
const ENCODED: &AsciiSet =
    &CONTROLS.add(b'/').add(b'%').add(b'=').add(b'\\').add(b':').add(b'*').add(b'?').add(b'"');

/// Writes the rows of `stream` to files below `path`.
///
/// # Errors
/// The stream's and those of the disk, where a column is not there, and where something is there already: that stays as
/// it was.
pub(super) async fn write_folders(
    mut stream: SendableRecordBatchStream,
    path: &Path,
    layout: &Layout,
    room: &Room,
) -> Result<Written> {
    let schema = stream.schema();
    let keys = layout.partition_by.iter().map(|name| column(&schema, name)).collect::<Result<Vec<_>>>()?;
    let values: Vec<usize> = (0..schema.fields().len()).filter(|column| !keys.contains(column)).collect();
    if values.is_empty() {
        return Err(QueryError::request("all columns are in partition_by, and none is left to write"));
    }
    if !layout.overwrite && is_in_use(path) {
        return Err(QueryError::request(format!("{} is there already", path.display()))
            .hint("overwrite true replaces it; or name another folder"));
    }
    if let Some(other) = not_written(path)? {
        let (path, other) = (path.display(), other.display());
        return Err(QueryError::request(format!("{path} is not replaced: no COPY wrote {other}"))
            .hint("name a folder that holds key=value folders of data files and nothing else"));
    }
    let inside = Arc::new(schema.project(&values)?);
    let temporary = TemporaryPath::beside(path);
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(|error| cannot_create(path, &error))?;
    }
    fs::create_dir(temporary.path()).map_err(|error| cannot_create(path, &error))?;
    let mut folders = Folders {
        root: temporary.path().to_path_buf(),
        layout,
        room,
        schema: inside,
        open: HashMap::new(),
        waiting: 0,
        files: HashMap::new(),
        turn: 0,
        bytes: 0,
    };
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        for (folder, numbers) in folders_of(&batch, &keys)? {
            let of_folder = take_record_batch(&batch.project(&values)?, &UInt32Array::from(numbers))?;
            folders.write(folder, &of_folder)?;
        }
    }
    let bytes = folders.finish()?;
    temporary.take_the_place_of(path)?;
    Ok(Written { rows, bytes })
}

fn column(schema: &Schema, name: &str) -> Result<usize> {
    let fields = schema.fields();
    let exact = fields.iter().position(|field| field.name() == name);
    exact.or_else(|| fields.iter().position(|field| field.name().eq_ignore_ascii_case(name))).ok_or_else(
        || {
            let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
            QueryError::request(format!("partition_by names '{name}', which is no column of the rows"))
                .hint(format!("they are {}", names.join(", ")))
        },
    )
}

/// What a folder holds, at any depth, that is neither a `key=value` folder nor a data file in one.
fn not_written(path: &Path) -> Result<Option<PathBuf>> {
    let Ok(about) = path.symlink_metadata() else { return Ok(None) };
    if !about.is_dir() {
        return Ok(Some(path.to_path_buf()));
    }
    let mut folders = vec![path.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| cannot_create(path, &error))? {
            let entry = entry.map_err(|error| cannot_create(path, &error))?;
            let (name, kind) =
                (entry.file_name(), entry.file_type().map_err(|error| cannot_create(path, &error))?);
            let is_data = kind.is_file() && folder != path && FileFormat::of_name(&entry.path()).0.is_some();
            if kind.is_dir() && name.to_string_lossy().contains('=') {
                folders.push(entry.path());
            } else if !is_data {
                return Ok(Some(entry.path()));
            }
        }
    }
    Ok(None)
}

fn is_in_use(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => path.symlink_metadata().is_ok(),
    }
}

/// The rows of each folder, in their order; folders as they first come.
fn folders_of(batch: &RecordBatch, keys: &[usize]) -> Result<Vec<(String, Vec<u32>)>> {
    let names: Vec<String> = keys.iter().map(|key| encoded(batch.schema().field(*key).name())).collect();
    let cells = keys.iter().map(|key| Cells::new(batch.column(*key), TimeStyle::Full));
    let cells = cells.collect::<std::result::Result<Vec<_>, _>>()?;
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut folders: Vec<(String, Vec<u32>)> = Vec::new();
    let (mut folder, mut value) = (String::new(), String::new());
    for row in 0..batch.num_rows() {
        folder.clear();
        for ((name, cells), key) in names.iter().zip(&cells).zip(keys) {
            value.clear();
            let is_null = batch.column(*key).is_null(row);
            if !is_null {
                cells.write(row, &mut value);
            }
            if !folder.is_empty() {
                folder.push('/');
            }
            folder.push_str(name);
            folder.push('=');
            folder.push_str(&if is_null { NULL_KEY.to_string() } else { encoded(&value) });
        }
        let place = match places.get(&folder) {
            Some(place) => *place,
            None => {
                places.insert(folder.clone(), folders.len());
                folders.push((folder.clone(), Vec::new()));
                folders.len() - 1
            }
        };
        folders[place].1.push(row as u32);
    }
    Ok(folders)
}

fn encoded(text: &str) -> String {
    // A name of points alone would be another folder.
    match text {
        "." => "%2E".to_string(),
        ".." => "%2E%2E".to_string(),
        // So would a text that reads as NULL.
        NULL_KEY => format!("%5F{}", &NULL_KEY[1..]),
        text => utf8_percent_encode(text, ENCODED).to_string(),
    }
}

/// Files under way.
struct Folders<'a> {
    root: PathBuf,
    layout: &'a Layout,
    room: &'a Room,
    schema: SchemaRef,
    open: HashMap<String, Open>,
    /// Bytes of the row groups of all that are open.
    waiting: usize,
    /// How many files each folder has by now.
    files: HashMap<String, usize>,
    turn: u64,
    bytes: u64,
}

struct Open {
    encoder: Encoder<'static>,
    path: PathBuf,
    used: u64,
}

impl Folders<'_> {
    fn write(&mut self, folder: String, rows: &RecordBatch) -> Result<()> {
        self.turn += 1;
        let turn = self.turn;
        if let Some(open) = self.open.get_mut(&folder) {
            open.used = turn;
            let before = open.encoder.waiting_bytes();
            open.encoder.write(rows)?;
            self.waiting = self.waiting - before + open.encoder.waiting_bytes();
            return self.make_room();
        }
        if self.open.len() >= OPEN_MAX {
            let oldest = self.open.iter().min_by_key(|(_, open)| open.used).map(|(folder, _)| folder.clone());
            if let Some(open) = oldest.and_then(|oldest| self.open.remove(&oldest)) {
                self.close(open)?;
            }
        }
        let mut open = self.begin(&folder)?;
        open.encoder.write(rows)?;
        self.waiting += open.encoder.waiting_bytes();
        self.open.insert(folder, open);
        self.make_room()
    }

    /// Writes row groups, the largest first, until the others have room.
    fn make_room(&mut self) -> Result<()> {
        while !self.room.has(self.waiting) {
            let largest = self.open.values_mut().max_by_key(|open| open.encoder.waiting_bytes());
            let Some(open) = largest else { break };
            let before = open.encoder.waiting_bytes();
            open.encoder.end_row_group()?;
            let after = open.encoder.waiting_bytes();
            self.waiting = self.waiting - before + after;
            if after >= before {
                // What is left of all is what writers have without rows.
                self.room.count(self.waiting);
                break;
            }
        }
        Ok(())
    }

    fn begin(&mut self, folder: &str) -> Result<Open> {
        if self.files.len() >= FOLDERS_MAX && !self.files.contains_key(folder) {
            return Err(QueryError::request(format!("the rows make more than {FOLDERS_MAX} folders"))
                .hint("partition by columns of fewer values: a day, not a time"));
        }
        let number = self.files.entry(folder.to_string()).or_default();
        let path = self.root.join(folder).join(format!("data_{number}.{}", self.layout.ending()));
        *number += 1;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|error| cannot_create(parent, &error))?;
        }
        let file = File::create(&path).map_err(|error| cannot_create(&path, &error))?;
        let out =
            Packer::new(self.layout.compression, Box::new(BufWriter::with_capacity(BUFFER_BYTES, file)))?;
        let encoder = Encoder::new(self.layout, &self.schema, out)?;
        Ok(Open { encoder, path, used: self.turn })
    }

    fn close(&mut self, open: Open) -> Result<()> {
        self.waiting -= open.encoder.waiting_bytes();
        open.encoder.finish()?.finish()?;
        self.bytes += open.path.metadata().map_err(write_error)?.len();
        Ok(())
    }

    /// Ends all files; their size together, in bytes.
    fn finish(mut self) -> Result<u64> {
        for (_, open) in std::mem::take(&mut self.open) {
            self.close(open)?;
        }
        Ok(self.bytes)
    }
}
