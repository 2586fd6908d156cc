//! `tickstone import`: files into a table, with progress.

use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::open::DataArgs;
use crate::units;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::time::Instant;
use tickstone_model::{ColumnType, PartitionBy};
use tickstone_query::import::{
    self, BadRows, EpochUnit, FileFormat, FileReport, ImportReport, ImportRequest, Progress,
};

const EXAMPLES: &str = "\
Examples:
  tickstone import --table trades trades.csv
  tickstone import --table trades --timestamp time --series symbol,exchange day1.csv.gz day2.csv.gz
  tickstone import --table book --type id=BIGINT --type ts=TIMESTAMP_MS book.ndjson.zst
  tickstone import --table trades --on-bad-row collect=bad.csv trades.csv
  tickstone import --table trades --rename E=event_time --rename e=kind binance.ndjson

Each file is one atomic commit: it is there whole or not at all, and is not imported a second time
unless --again is given. A folder or a pattern ('data/**/*.parquet') is one commit of all its files but
those that the table has; folders named key=value in it are columns. Types, the timestamp's unit,
delimiter and header are found from the file; a table that is missing is made. A type is found only
where its values print as they are written in the file. TIMESTAMP_S, _MS, _US and _NS say the unit of
whole numbers.";

/// Import files into a table.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The table; made where it is missing
    #[arg(long, value_name = "T")]
    table: String,
    /// Files, patterns of them and folders: csv, ndjson (both also .gz, .zst), parquet, arrow
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The designated timestamp of a new table; none: it may be without
    #[arg(long, value_name = "COLUMN")]
    timestamp: Option<String>,
    /// The series key of a new table
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    series: Option<Vec<String>>,
    /// Another name for a column of the files, which spell it NAME; may be given several times
    #[arg(long, value_name = "NAME=COLUMN")]
    rename: Vec<String>,
    /// The type of a column, as in SQL; may be given several times
    #[arg(long = "type", value_name = "COLUMN=TYPE", value_parser = parse_type)]
    types: Vec<GivenType>,
    /// Partition length of a new table: hour, day (default), week, month, year
    #[arg(long, value_name = "UNIT", value_parser = parse_unit)]
    partition_by: Option<PartitionBy>,
    /// What becomes of rows that cannot be read: fail, skip, collect=FILE
    #[arg(long, value_name = "HOW", default_value = "fail", value_parser = parse_bad_rows)]
    on_bad_row: BadRows,
    /// Import files also where the table has them already
    #[arg(long)]
    again: bool,
    /// The files' format; without it, by their endings: csv, ndjson, parquet, arrow
    #[arg(long, value_parser = parse_format)]
    format: Option<FileFormat>,
    /// The character between fields of a CSV: found if not given
    #[arg(long, value_name = "CHAR", value_parser = parse_delimiter)]
    delimiter: Option<u8>,
    /// The CSV's first record names the columns, whatever it looks like
    #[arg(long, conflicts_with = "no_header")]
    header: bool,
    /// The CSV's first record is data
    #[arg(long)]
    no_header: bool,
    /// Say only what went wrong
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    data: DataArgs,
}

#[derive(Debug, Clone)]
struct GivenType {
    column: String,
    column_type: ColumnType,
    unit: Option<EpochUnit>,
}

fn parse_type(text: &str) -> std::result::Result<GivenType, String> {
    let (column, name) = text.split_once('=').ok_or("write it as COLUMN=TYPE, such as price=DOUBLE")?;
    let unit = match name.trim().to_ascii_uppercase().as_str() {
        "TIMESTAMP_S" => Some(EpochUnit::Second),
        "TIMESTAMP_MS" => Some(EpochUnit::Millisecond),
        "TIMESTAMP_US" => Some(EpochUnit::Microsecond),
        "TIMESTAMP_NS" => Some(EpochUnit::Nanosecond),
        _ => None,
    };
    let column_type = match unit {
        Some(_) => ColumnType::Timestamp,
        None => ColumnType::parse(name).map_err(|error| error.to_string())?,
    };
    Ok(GivenType { column: column.trim().to_string(), column_type, unit })
}

fn parse_unit(text: &str) -> std::result::Result<PartitionBy, String> {
    PartitionBy::parse(text).map_err(|error| error.to_string())
}

fn parse_bad_rows(text: &str) -> std::result::Result<BadRows, String> {
    BadRows::parse(text).ok_or_else(|| "it is fail, skip or collect=FILE".to_string())
}

fn parse_format(text: &str) -> std::result::Result<FileFormat, String> {
    FileFormat::parse(text).ok_or_else(|| format!("it is {}", FileFormat::NAMES))
}

fn parse_delimiter(text: &str) -> std::result::Result<u8, String> {
    import::parse_delimiter(text).ok_or_else(|| "it is one ASCII character, or tab".to_string())
}

impl Args {
    fn request(self) -> Result<ImportRequest> {
        let mut request = ImportRequest::new(self.table, self.files);
        request.format = self.format;
        if let Some(timestamp) = &self.timestamp {
            request.set_timestamp(timestamp);
        }
        for pair in &self.rename {
            if !request.add_renames(pair) {
                return Err(Failure::Usage(format!("--rename {pair}: it is NAME=COLUMN")));
            }
        }
        request.series = self.series;
        request.time_units =
            self.types.iter().filter_map(|given| Some((given.column.clone(), given.unit?))).collect();
        request.types = self.types.into_iter().map(|given| (given.column, given.column_type)).collect();
        request.partition_by = self.partition_by;
        request.on_bad_row = self.on_bad_row;
        request.again = self.again;
        request.delimiter = self.delimiter;
        request.header = (self.header || self.no_header).then_some(self.header);
        if let Some(bytes) = self.data.memory_budget {
            request.memory_budget_bytes = bytes;
        }
        Ok(request)
    }
}

pub(crate) fn run(args: Args) -> Result<()> {
    let (data, quiet) = (args.data.clone(), args.quiet);
    let mut request = args.request()?;
    let interrupt = Interrupt::install();
    request.cancelled = Some(interrupt.flag());
    let database = data.open(false)?;
    let mut bar = Bar::new(quiet);
    let done = import::import(&database, &request, &mut |progress| bar.show(progress));
    bar.clear();
    let report = done.map_err(Failure::from)?;
    if !quiet {
        print(&report);
    }
    Ok(())
}

/// Files told of one by one.
const FILES_TOLD_MAX: usize = 50;

/// The progress bar, drawn on standard error where that is a terminal.
struct Bar {
    bar: ProgressBar,
    file: usize,
    start: Instant,
}

impl Bar {
    fn new(quiet: bool) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(0) };
        let style = ProgressStyle::with_template("{prefix} {wide_bar} {percent:>3}% {msg}");
        bar.set_style(style.expect("the template is well-formed"));
        Self { bar, file: usize::MAX, start: Instant::now() }
    }

    fn show(&mut self, progress: &Progress<'_>) {
        if self.file != progress.file {
            self.file = progress.file;
            self.start = Instant::now();
            let name = progress.path.file_name().unwrap_or(progress.path.as_os_str()).to_string_lossy();
            self.bar.set_length(progress.bytes_total);
            self.bar.set_prefix(format!("{name} ({} of {})", progress.file + 1, progress.files));
        }
        let seconds = self.start.elapsed().as_secs_f64().max(1e-3);
        let rows = units::count((progress.rows as f64 / seconds) as u64);
        let megabytes = progress.bytes_read as f64 / seconds / 1e6;
        self.bar.set_position(progress.bytes_read);
        self.bar.set_message(if progress.bytes_read >= progress.bytes_total {
            "sorting and sealing".to_string()
        } else {
            format!("{rows} rows/s, {megabytes:.0} MB/s")
        });
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn print(report: &ImportReport) {
    if let (true, Some(file)) = (report.created, report.files.first()) {
        println!("{}", created(&report.table, file));
    }
    for file in report.files.iter().take(FILES_TOLD_MAX) {
        println!("{}", imported(file));
    }
    if let Some(more) = report.files.len().checked_sub(FILES_TOLD_MAX + 1) {
        println!("… and {} more files", more + 1);
    }
    if !report.known.is_empty() {
        println!("{} of its files are in the table already and were left out", report.known.len());
    }
    if report.files.len() > 1 {
        println!("{} in all", units::rows(report.rows()));
    }
}

/// What was found out about a new table.
fn created(table: &str, file: &FileReport) -> String {
    let mut text = format!("table '{table}'");
    match &file.timestamp {
        Some(timestamp) => text.push_str(&format!(" TIMESTAMP({timestamp})")),
        None => text.push_str(" without a designated timestamp"),
    }
    if !file.series.is_empty() {
        text.push_str(&format!(" SERIES BY ({})", file.series.join(", ")));
    }
    let width = file.columns.iter().map(|column| column.name.chars().count()).max().unwrap_or(0);
    for column in &file.columns {
        text.push_str(&format!("\n  {:width$}  {}", column.name, column.column_type));
        if let Some(time) = column.time {
            text.push_str(&format!(" ({time})"));
        }
        if !column.inferred {
            text.push_str(" (given)");
        }
    }
    text
}

fn imported(file: &FileReport) -> String {
    let seconds = file.elapsed.as_secs_f64().max(1e-9);
    let mut text = format!(
        "{}: {}, {} in {} ({} rows/s, {:.1} MB/s)",
        file.path.display(),
        units::rows(file.rows),
        units::bytes(file.bytes),
        units::duration(file.elapsed),
        units::count((file.rows as f64 / seconds) as u64),
        file.bytes as f64 / seconds / 1e6
    );
    if file.bad_rows > 0 {
        text.push_str(&format!("\n  {} left out:", bad_rows(file.bad_rows)));
        for example in &file.examples {
            text.push_str(&format!("\n    line {}{}", example.line, example.what));
        }
        if file.bad_rows > file.examples.len() as u64 {
            text.push_str("\n    …");
        }
    }
    if !file.ignored.is_empty() {
        text.push_str(&format!("\n  keys without a column, ignored: {}", file.ignored.join(", ")));
    }
    text
}

fn bad_rows(number: u64) -> String {
    format!("{} bad {}", units::count(number), if number == 1 { "row" } else { "rows" })
}
