//! `tickstone replay`: past rows of tables in order of time, at the pace they had.

use crate::failure::Result;
use crate::open::DataArgs;
use crate::output::OutputFormat;
use crate::sql;

const EXAMPLES: &str = "\
Examples:
  tickstone replay trades quotes --from 2024-08-08T09:30:00Z --to 2024-08-08T10:00:00Z --speed 10x
  tickstone replay trades --speed max --format csv > trades.csv
  tickstone replay trades --connect tickstone://localhost | strategy

Each line is a row as a subscription tells it. A reader that stops reading pauses the replay.";

/// Past rows of tables in order of time, at the pace they had.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The tables
    #[arg(required = true, value_name = "TABLE")]
    tables: Vec<String>,
    /// The first instant: 2024-08-08T09:30:00Z
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// The instant before which it ends
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// How many times as fast as it was, as in 10x; max for as fast as it can be
    #[arg(long, value_name = "SPEED", default_value = "1x")]
    speed: String,
    /// Of a server: tickstone://host[:port], or tickstone+tls://host[:port][?ca=FILE]
    #[arg(long, value_name = "URL", conflicts_with_all = ["data", "memory_budget", "query_memory"])]
    connect: Option<String>,
    /// How rows are written
    #[arg(long, value_enum, default_value = "ndjson")]
    format: OutputFormat,
    #[command(flatten)]
    data: DataArgs,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let tables = args.tables.iter().flat_map(|names| names.split(',')).filter(|name| !name.is_empty());
    let tables: Vec<String> = tables.map(|name| format!("\"{}\"", name.replace('"', "\"\""))).collect();
    let mut statement = format!("REPLAY {}", tables.join(", "));
    for (word, instant) in [("FROM", &args.from), ("TO", &args.to)] {
        if let Some(instant) = instant {
            statement += &format!(" {word} {}", text(instant));
        }
    }
    statement += &format!(" SPEED {}", text(&args.speed));
    sql::run(&sql::Args::of_statement(statement, args.connect, args.format, args.data))
}
