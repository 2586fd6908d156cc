//! `tickstone export`: a table or a query's rows into a file.

use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::open::DataArgs;
use crate::output::{Output, OutputFormat};
use crate::sql;
use crate::units;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tickstone_query::export::{self, Format, Layout};
use tickstone_query::import::Compression;
use tickstone_query::{Database, Outcome};

const EXAMPLES: &str = "\
Examples:
  tickstone export --table trades trades.parquet
  tickstone export --query \"SELECT * FROM trades WHERE symbol = 'BTC-USD'\" btc.csv.gz
  tickstone export --table trades --format csv -      to standard output

The file's ending tells the format: .csv, .json, .ndjson, .parquet, .arrow; .gz or .zst after the
first three packs it. It is there whole or not at all.";

/// Write a table or a query's rows to a file.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[group(id = "source", required = true, multiple = false, args = ["table", "query"])]
pub(crate) struct Args {
    /// The table to write
    #[arg(long, value_name = "T")]
    table: Option<String>,
    /// The query whose rows to write
    #[arg(long, value_name = "SQL")]
    query: Option<String>,
    /// The file; `-` is standard output, with --format
    file: PathBuf,
    /// Its format; without it, by the file's ending
    #[arg(long, value_enum)]
    format: Option<OutputFormat>,
    #[command(flatten)]
    data: DataArgs,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let format = match args.format {
        Some(OutputFormat::Table) => {
            return Err(Failure::Usage("a table is for eyes: `tickstone sql` shows it".to_string()));
        }
        Some(format) => format.file_format(),
        None => None,
    };
    let database = args.data.open(true)?;
    let sql = match (&args.table, &args.query) {
        (Some(table), _) => table_query(&database, table),
        (None, query) => query.clone().unwrap_or_default(),
    };
    write(&database, &sql, &args.file, format)
}

/// All rows of a table (named in any case), in order of time where it has one.
fn table_query(database: &Database, name: &str) -> String {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let snapshot = database.engine().snapshot();
    let Some(table) = snapshot.table(name) else { return format!("SELECT * FROM {}", quoted(name)) };
    let schema = table.schema();
    let order =
        schema.timestamp().map(|index| format!(" ORDER BY {}", quoted(&schema.columns()[index].name)));
    format!("SELECT * FROM {}{}", quoted(schema.name()), order.unwrap_or_default())
}

fn write(database: &Database, sql: &str, file: &Path, format: Option<Format>) -> Result<()> {
    let start = Instant::now();
    let interrupt = Interrupt::install();
    let mut session = database.session();
    let in_sql = |error| sql::failure(sql, &error);
    let mut statements = session.parse(sql).map_err(in_sql)?;
    let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
        return Err(Failure::Usage("--query takes one query".to_string()));
    };
    let to_stdout = file.as_os_str() == "-";
    let target = match (to_stdout, format) {
        (true, None) => return Err(Failure::Usage("standard output needs --format".to_string())),
        (true, Some(format)) => (format, Compression::None),
        (false, format) => export::detect(file, format)?,
    };
    let target = Layout::new(target.0, target.1);
    let work = async {
        let Outcome::Rows { stream, .. } = session.run(statement).await? else {
            return Ok(None);
        };
        if to_stdout {
            export::write(stream, &target, &session.room_to_write(), &mut Output::new()).await?;
            return Ok(None);
        }
        export::write_file(stream, file, &target, &session.room_to_write()).await.map(Some)
    };
    let written = database.runtime().block_on(async {
        tokio::select! {
            done = work => done.map_err(in_sql),
            () = interrupt.pressed() => Err(Failure::Interrupted),
        }
    })?;
    if let Some(written) = written {
        eprintln!(
            "{}: {}, {} in {}",
            file.display(),
            units::rows(written.rows),
            units::bytes(written.bytes),
            units::duration(start.elapsed())
        );
    }
    Ok(())
}
