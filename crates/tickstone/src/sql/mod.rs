//! `tickstone sql`: one text, a file, standard input, or an interactive shell.
//!
//! Flow: text -> statements -> each run on the database's threads -> [`show`] its outcome. The shell
//! adds a line editor; what a statement does and how it is shown is the same.

mod caret;
mod complete;
mod line;
mod remote;
mod scan;
mod shell;
mod show;
pub(crate) mod table;

use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::open::DataArgs;
use crate::output::OutputFormat;
use line::{Line, Sent};
use remote::Remote;
use show::View;
use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;
use tickstone_client::placed;
use tickstone_query::dialect::{Statement, parse_with_texts};
use tickstone_query::{Database, QueryError};

/// Rows a table shows unless told otherwise.
const MAX_ROWS: usize = 100;

const EXAMPLES: &str = "\
Examples:
  tickstone sql                                              interactive
  tickstone sql -c \"SELECT symbol, count(*) FROM trades GROUP BY symbol\"
  tickstone sql -f report.sql --format csv --output report.csv
  echo \"SHOW TABLES\" | tickstone sql
  tickstone sql --read-only                                  beside a process that writes
  tickstone sql --connect tickstone://localhost              in a server
  tickstone sql --connect tickstone+tls://ann@db             as a user

In the shell a statement ends with a semicolon; help lists its commands. The password of a user comes from
TICKSTONE_PASSWORD, or is asked for; a token comes from TICKSTONE_TOKEN.";

/// Run SQL: one text, a file, or an interactive shell.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The SQL to run; statements are separated by semicolons
    #[arg(short, long, value_name = "SQL", conflicts_with = "file")]
    command: Option<String>,
    /// A file of SQL to run
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Open the database for reading only, also while another process writes it
    #[arg(long)]
    read_only: bool,
    /// Run it in a server: tickstone://[user@]host[:port], or tickstone+tls://[user@]host[:port][?ca=FILE]
    #[arg(long, value_name = "URL", conflicts_with_all = ["read_only", "data", "memory_budget", "query_memory"])]
    connect: Option<String>,
    /// How rows are shown
    #[arg(long, value_enum)]
    format: Option<OutputFormat>,
    /// Write the rows of the query to this file; its ending tells the format
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Most rows a table shows; 0 for all
    #[arg(long, value_name = "N", default_value_t = MAX_ROWS)]
    max_rows: usize,
    /// Leave out row counts and times
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    data: DataArgs,
}

impl Args {
    /// One statement whose rows go to standard output, of a database that is read only.
    pub(crate) fn of_statement(
        statement: String,
        connect: Option<String>,
        format: OutputFormat,
        data: DataArgs,
    ) -> Self {
        let (command, read_only) = (Some(statement), connect.is_none());
        let (file, output, format) = (None, None, Some(format));
        Self { command, file, read_only, connect, format, output, max_rows: 0, quiet: true, data }
    }

    /// The database that a text, or the shell, runs in. Where it is not there, statements that only read make none.
    fn database(&self, text: Option<&str>) -> Result<Database> {
        let only_reads = |text: &str| {
            let statements = parse_with_texts(text).map_err(|error| failure(text, &error.into()))?;
            Ok::<_, Failure>(statements.iter().all(|(_, statement)| statement.only_reads()))
        };
        match text {
            _ if self.read_only || self.data.is_there() => self.data.open(self.read_only),
            Some(text) if only_reads(text)? => self.data.missing(),
            None if !shell::confirms(&self.data.data)? => {
                Err(Failure::NoDatabase { path: self.data.data.clone() })
            }
            _ => self.data.open(false),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let text = match (&args.command, &args.file) {
        (Some(command), _) => Some(command.clone()),
        (None, Some(path)) => Some(std::fs::read_to_string(path).map_err(|source| Failure::Io {
            action: "read",
            path: path.clone(),
            source,
        })?),
        (None, None) if !io::stdin().is_terminal() => {
            let mut text = String::new();
            let failed =
                |source| Failure::Io { action: "read", path: PathBuf::from("standard input"), source };
            io::stdin().read_to_string(&mut text).map_err(failed)?;
            Some(text)
        }
        (None, None) => None,
    };
    let line = match &args.connect {
        Some(url) => Line::There(Box::new(Remote::connect(url)?)),
        None => Line::here(args.database(text.as_deref())?),
    };
    let interrupt = Interrupt::install();
    let view = View {
        format: args.format.unwrap_or(OutputFormat::Table),
        given: args.format.is_some(),
        output: args.output.clone(),
        rows_max: args.max_rows,
        timing: !args.quiet,
    };
    let mut runner = Runner { line, interrupt, view };
    let done = match text {
        Some(text) => runner.run_text(&text),
        None => shell::run(&mut runner),
    };
    runner.line.end();
    done
}

/// Runs statements and shows what they give.
pub(crate) struct Runner {
    line: Line,
    interrupt: Interrupt,
    view: View,
}

impl Runner {
    /// Runs the statements of a text up to the first that fails.
    fn run_text(&mut self, text: &str) -> Result<()> {
        self.interrupt.reset();
        let statements = parse_with_texts(text).map_err(|error| failure(text, &error.into()))?;
        let mut after = 0;
        statements.into_iter().try_for_each(|(own, statement)| {
            let placed = placed(text, &mut after, &own);
            self.run_statement(text, Sent { statement, text: Some(own), placed })
        })
    }

    /// Runs one statement of `text` as a task, so that Ctrl-C need not wait for it: a query is left behind, and ends
    /// when it next yields; anything that writes is awaited.
    fn run_statement(&mut self, text: &str, sent: Sent) -> Result<()> {
        let is_query = sent.statement.only_reads();
        let is_live = matches!(sent.statement, Statement::Subscribe(_) | Statement::Replay(_));
        let (mut line, mut view, runtime) = (self.line.lend(), self.view.clone(), self.line.runtime());
        let mut task = runtime.spawn(async move {
            let done = view.show(line.run(sent), is_live).await;
            (line, view, done)
        });
        let finished = runtime.block_on(async {
            tokio::select! {
                finished = &mut task => Some(finished),
                () = self.interrupt.pressed() => {
                    task.abort();
                    if is_query { None } else { Some(task.await) }
                }
            }
        });
        match finished {
            Some(Ok((line, view, done))) => {
                self.line.back(line);
                self.view = view;
                done.map_err(|error| failure(text, &error))
            }
            Some(Err(error)) if error.is_panic() => {
                Err(Failure::Terminal(format!("the statement failed: {error}")))
            }
            // A session of this process went with the statement, and its transaction was rolled back.
            Some(Err(_)) | None => Err(Failure::Interrupted),
        }
    }
}

/// The error of a statement of `text`, with the line it points at.
pub(crate) fn failure(text: &str, error: &QueryError) -> Failure {
    Failure::Sql(caret::describe(text, error))
}
