//! The commands and their help.

use crate::{backup, check, demo, export, r#gen, import, sql};
use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  tickstone demo                                    see what it does
  tickstone import --table trades trades.csv        make a table from a file
  tickstone sql                                     ask, interactively
  tickstone sql -c \"SELECT * FROM trades LATEST BY symbol\"
  tickstone export --table trades trades.parquet

The data lives in ./tickstone-data unless --data names another directory.";

/// Tickstone, a time-series database for market data: trades, quotes, order books.
#[derive(Debug, Parser)]
#[command(name = "tickstone", version, about, after_help = EXAMPLES, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run SQL: one text, a file, or an interactive shell
    Sql(sql::Args),
    /// Import files into a table: CSV, NDJSON (.gz, .zst), Parquet, Arrow
    Import(import::Args),
    /// Write a table or a query's rows to a file
    Export(export::Args),
    /// Read all of a database, name every damage; with --repair, keep what can be kept
    Check(check::Args),
    /// Copy a database to another directory, only what is new there
    Backup(backup::BackupArgs),
    /// Make a database of a backup
    Restore(backup::RestoreArgs),
    /// Make market data from a seed: trades, order books
    Gen(r#gen::Args),
    /// Make a million ticks, import them, run six analyses
    Demo(demo::Args),
    /// Serve the database: line protocol, SQL over HTTP
    ///
    /// Settings come from flags, from the environment (TICKSTONE_HTTP_PORT=9000), from the configuration file
    /// (http_port = 9000) and from their defaults, in this order.
    Serve(crate::serve::ServeArgs),
    /// Users of a database that no server has open
    User(crate::user::Args),
    /// Make a certificate authority and a server's certificate, for labs and tests
    Cert(crate::cert::Args),
    /// Let an AI assistant ask the database: Model Context Protocol on standard input and output
    ///
    /// For the configuration of the assistant's program. The database is opened for reading, also beside a server that
    /// writes it; a server that runs answers at /mcp itself.
    Mcp(crate::mcp::Args),
    /// Past rows of tables in order of time, at the pace they had
    Replay(crate::replay::Args),
    /// Raw streams: documents as they came
    Stream(crate::stream::Args),
}
