//! An upload that is there as a whole into its table.

use super::super::words::{Fault, wrong};
use super::kind;
use super::mend::{Mended, Mending, mend};
use super::report::{Column, Report};
use super::spool::{TemporaryFile, Upload, unkept};
use super::wishes::{Atomicity, Wishes};
use crate::http::{status_of, status_of_kind};
use axum::http::StatusCode;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use tickstone_engine::Engine;
use tickstone_model::{Rights, TableSchema};
use tickstone_query::Aside;
use tickstone_query::import::{
    BadRows, FileFormat, FileReport, ImportError, ImportRequest, Progress, import,
};
use tickstone_query::{Access, Database, QueryError};
use tickstone_wire::TimeFormat;
use tickstone_wire::csv::{BYTE_ORDER_MARK, Layout, has_header, sniff_delimiter};

/// Memory for the pieces of an upload that are read at once.
const MEMORY_BYTES: usize = 64 << 20;

/// Bytes at the beginning of an upload that its layout is found by: as many as an import looks at.
const SAMPLE_BYTES: usize = 1 << 20;

/// Imports an upload.
///
/// # Errors
/// What is wrong with it; nothing of it is stored then. Where the rows of a second commit could not be stored, the report
/// says so.
pub(super) fn load(
    access: &Access,
    database: &Database,
    wishes: &Wishes,
    table: &str,
    upload: &Upload,
    cancelled: Arc<AtomicBool>,
) -> Result<Report, Fault> {
    let engine = database.engine();
    let is_there = engine.snapshot().table(table).is_some();
    let may = match (is_there, wishes.overwrite) {
        (false, _) => access.may_make(table),
        (true, false) => access.may(Rights::INSERT, table),
        (true, true) => access.may(Rights::INSERT | Rights::ALTER, table),
    };
    may.and_then(|()| access.check_audit()).map_err(|error| of_query(&error))?;
    if !is_there && !wishes.create {
        return Err(wrong(format!("table '{table}' does not exist, and create=false makes none")));
    }
    if !(is_there && wishes.overwrite) {
        return Load::of(access, database, wishes, table, upload, cancelled)?.run();
    }
    // The old table stays until the new one is whole.
    let aside = Arc::new(engine.aside().map_err(|error| of_query(&error.into()))?);
    let load = Load {
        aside: Some(Arc::clone(&aside)),
        ..Load::of(access, database, wishes, aside.name(), upload, cancelled)?
    };
    let begun = Instant::now();
    let report = load.run()?;
    access.put_in_place(&aside, table).map_err(|error| of_query(&error))?;
    // Its rows are an INGEST, which says nothing of those that went.
    let text = format!("/imp?overwrite=true&name={table}");
    access.tell("CREATE OR REPLACE TABLE", text.into(), report.rows_imported, begun.elapsed(), None);
    Ok(Report { table: table.to_string(), ..report })
}

/// The import of one upload.
struct Load<'a> {
    database: &'a Database,
    wishes: &'a Wishes,
    table: &'a str,
    upload: &'a Upload,
    /// Who imports.
    access: &'a Access,
    format: FileFormat,
    /// How a CSV is laid out, where it can be told before it is decoded.
    layout: Option<Layout>,
    /// The table aside that it goes into, if it does.
    aside: Option<Arc<Aside>>,
    cancelled: Arc<AtomicBool>,
}

impl<'a> Load<'a> {
    fn of(
        access: &'a Access,
        database: &'a Database,
        wishes: &'a Wishes,
        table: &'a str,
        upload: &'a Upload,
        cancelled: Arc<AtomicBool>,
    ) -> Result<Self, Fault> {
        let head = head(upload.file.path()).map_err(|error| {
            of_query(&QueryError::from(ImportError::Read { path: table.into(), source: error }))
        })?;
        let format = match wishes.format {
            Some(format) => format,
            None => format_of(&head)?,
        };
        if matches!(format, FileFormat::Csv | FileFormat::Ndjson)
            && let Some(what) = kind::no_text(&head, wishes.delimiter)
        {
            return Err(not_taken(&format!("is {what}")));
        }
        let layout = (format == FileFormat::Csv).then(|| layout_of(&head, wishes)).flatten();
        Ok(Self { access, database, wishes, table, upload, format, layout, aside: None, cancelled })
    }

    fn run(&self) -> Result<Report, Fault> {
        let (aside, _) = TemporaryFile::create().map_err(|error| unkept(&error))?;
        let mut request = self.request(self.upload.file.path());
        let wishes = self.wishes;
        request.timestamp.clone_from(&wishes.timestamp);
        request.series.clone_from(&wishes.series);
        request.types.clone_from(&wishes.types);
        request.time_units.clone_from(&wishes.units);
        request.partition_by = wishes.partition_by;
        request.delimiter = self.layout.map(|layout| layout.delimiter).or(wishes.delimiter);
        request.header = self.layout.map(|layout| layout.header).or(wishes.force_header.then_some(true));
        let atomicity = self.atomicity()?;
        request.on_bad_row = match (atomicity, self.layout) {
            (Atomicity::Abort, _) => BadRows::Fail,
            (_, Some(_)) => BadRows::Collect(aside.path().to_path_buf()),
            (_, None) => BadRows::Skip,
        };
        let file = self.import(&request)?;
        let mending = Mending { values: atomicity == Atomicity::SkipCol, extra: wishes.skip_extra };
        let mended = match self.layout.filter(|_| file.bad_rows > 0) {
            Some(layout) => mend(aside.path(), layout.delimiter, layout.header, &file, mending)
                .map(Some)
                .map_err(|error| unkept(&error)),
            None => Ok(None),
        };
        let added = match &mended {
            Ok(Some(Mended { file: Some(rows), fields, .. })) => {
                self.import(&self.second(rows, fields, &file)).map(|second| second.rows)
            }
            _ => Ok(0),
        };
        // The good rows are stored by now: sent again for an error, they would be there twice.
        let unstored = [mended.as_ref().err(), added.as_ref().err()].into_iter().flatten().next();
        let unstored = unstored.map(|(_, what)| format!("rows with bad values were not stored: {what}"));
        let errors = mended.as_ref().ok().and_then(Option::as_ref).map(|mended| mended.errors.clone());
        let mut report = self.report(&file, added.as_ref().copied().unwrap_or(0), errors);
        if let Some(what) = unstored {
            report.warnings.insert(0, what);
        }
        Ok(report)
    }

    /// What happens to bad rows, as QuestDB has it where nothing else is asked for: of a CSV their bad values are NULL.
    fn atomicity(&self) -> Result<Atomicity, Fault> {
        let asked = self.wishes.atomicity;
        match self.format {
            FileFormat::Csv if self.layout.is_some() => Ok(asked.unwrap_or(Atomicity::SkipCol)),
            FileFormat::Csv | FileFormat::Ndjson if asked != Some(Atomicity::SkipCol) => {
                Ok(asked.unwrap_or(Atomicity::SkipRow))
            }
            FileFormat::Parquet | FileFormat::Arrow if matches!(asked, None | Some(Atomicity::Abort)) => {
                Ok(Atomicity::Abort)
            }
            FileFormat::Csv => {
                Err(wrong("skipCol is not done for a text that is not UTF-8: skipRow or abort"))
            }
            FileFormat::Ndjson => Err(wrong("skipCol is done for CSV only: skipRow or abort")),
            FileFormat::Parquet | FileFormat::Arrow => {
                Err(wrong(format!("a {} file is taken as a whole: atomicity=abort", self.format)))
            }
        }
    }

    /// A request for one file, with nothing said of its columns.
    fn request(&self, path: &Path) -> ImportRequest {
        let mut request = ImportRequest::new(self.table, [path]);
        request.format = Some(self.format);
        // The same rows may be sent twice, as to QuestDB.
        request.again = true;
        // As in QuestDB, a table may be made without a timestamp.
        request.untimed = true;
        request.memory_budget_bytes = MEMORY_BYTES;
        request.cancelled = Some(Arc::clone(&self.cancelled));
        request.access = Some(self.access.clone());
        request.aside.clone_from(&self.aside);
        request
    }

    /// The request for rows that were mended.
    fn second(&self, rows: &TemporaryFile, fields: &[String], first: &FileReport) -> ImportRequest {
        let mut request = self.request(rows.path());
        let unit = |column: &tickstone_query::import::ColumnReport| {
            Some((column.name.clone(), column.time.and_then(TimeFormat::unit)?))
        };
        request.time_units =
            first.columns.iter().filter(|column| fields.contains(&column.name)).filter_map(unit).collect();
        request.delimiter = self.layout.map(|layout| layout.delimiter);
        request.header = Some(false);
        request.columns = fields.to_vec();
        request.on_bad_row = BadRows::Skip;
        request
    }

    fn import(&self, request: &ImportRequest) -> Result<FileReport, Fault> {
        let mut ignored = |_: &Progress<'_>| {};
        match import(self.database, request, &mut ignored) {
            Ok(report) => report.files.into_iter().next().ok_or_else(|| wrong("there was nothing to import")),
            Err(error) => Err(self.told(&error, request)),
        }
    }

    /// An error in the words of a request.
    fn told(&self, error: &ImportError, request: &ImportRequest) -> Fault {
        let mut what = error.to_string();
        for path in &request.paths {
            what = what.replace(&path.display().to_string(), "the upload");
        }
        for (flag, word) in
            [("--type names", "schema names"), ("--timestamp", "timestamp"), ("--series", "series")]
        {
            what = what.replace(flag, word);
        }
        let hint = match error {
            ImportError::BadRow { .. } => {
                "atomicity=skipRow goes on without such rows, skipCol without such values; a part \
                                           schema gives the column another type"
                    .to_string()
            }
            ImportError::NoRows { .. } => "CREATE TABLE first, or send a part schema".to_string(),
            ImportError::Encoding { .. } | ImportError::Header { .. } => "send it as UTF-8".to_string(),
            ImportError::SameName { .. } => "send one of them under another name".to_string(),
            ImportError::PackedColumnar { .. } => "unpack it first".to_string(),
            other => other.hint().unwrap_or_default(),
        };
        if !hint.is_empty() {
            what = format!("{what}\nhint: {hint}");
        }
        (status_of_kind(error.kind()), what)
    }

    fn report(&self, file: &FileReport, added: u64, errors: Option<Vec<u64>>) -> Report {
        let schema = self.schema();
        let errors_of =
            |place: usize| errors.as_ref().and_then(|errors| errors.get(place)).copied().unwrap_or(0);
        let columns = file.columns.iter().enumerate().map(|(place, column)| Column {
            name: column.name.clone(),
            column_type: column.column_type,
            errors: errors_of(place),
        });
        let named = |columns: &[tickstone_query::import::ColumnReport]| {
            !columns.iter().enumerate().all(|(place, column)| column.name == format!("column{}", place + 1))
        };
        Report {
            table: self.table.to_string(),
            rows_rejected: file.bad_rows.saturating_sub(added),
            rows_imported: file.rows + added,
            header: match self.format {
                FileFormat::Csv => self.layout.map_or_else(|| named(&file.columns), |layout| layout.header),
                _ => false,
            },
            partition_by: schema.map_or_else(String::new, |schema| schema.partition_by().name().to_string()),
            timestamp: file.timestamp.clone(),
            columns: columns.collect(),
            warnings: file.examples.iter().map(|bad| format!("line {}{}", bad.line, bad.what)).collect(),
        }
    }

    fn schema(&self) -> Option<Arc<TableSchema>> {
        let engine: &Engine = self.database.engine();
        engine.snapshot().table(self.table).map(|table| Arc::clone(table.schema()))
    }
}

pub(super) fn of_query(error: &QueryError) -> Fault {
    (status_of(error), error.to_string())
}

fn head(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(SAMPLE_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// The answer to an upload in a format that is not read.
fn not_taken(what: &str) -> Fault {
    let what =
        format!("the upload {what}; CSV, NDJSON, Parquet and Arrow are taken, plain or packed with gzip");
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, what)
}

/// What a file is by its first bytes.
fn format_of(head: &[u8]) -> Result<FileFormat, Fault> {
    /// What each message of an Arrow stream begins with.
    const ARROW_STREAM: &[u8] = &[0xff; 4];
    if head.starts_with(b"PAR1") {
        return Ok(FileFormat::Parquet);
    }
    if head.starts_with(b"ARROW1") || head.starts_with(ARROW_STREAM) {
        return Ok(FileFormat::Arrow);
    }
    let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let is_json = text.trim_ascii_start().starts_with(b"{") || kind::is_json_array(text);
    Ok(if is_json { FileFormat::Ndjson } else { FileFormat::Csv })
}

/// The layout of a CSV, found as an import finds it; `None` where it is in another encoding, which shows by zeros or by
/// there being no line feed.
fn layout_of(head: &[u8], wishes: &Wishes) -> Option<Layout> {
    let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let is_whole = head.len() < SAMPLE_BYTES;
    if text.contains(&0) || text.starts_with(&[0xff, 0xfe]) || text.starts_with(&[0xfe, 0xff]) {
        return None;
    }
    let end = match text.iter().rposition(|byte| *byte == b'\n') {
        Some(_) if is_whole => text.len(),
        Some(last) => last + 1,
        None if is_whole && !text.contains(&b'\r') => text.len(),
        None => return None,
    };
    let sample = text.get(..end)?;
    let delimiter = wishes.delimiter.unwrap_or_else(|| sniff_delimiter(sample));
    Some(Layout { delimiter, header: wishes.force_header || has_header(sample, delimiter) })
}
