//! `tickstone sql`: one text, a file, standard input, or an interactive shell.
//!
//! Flow: text -> statements -> each run on the database's threads -> [`show`] its outcome. The shell
//! adds a line editor; what a statement does and how it is shown is the same.

mod caret;
mod complete;
mod scan;
mod shell;
mod show;
pub(crate) mod table;

use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::open::DataArgs;
use crate::output::OutputFormat;
use show::View;
use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;
use tickstone_query::{Database, QueryError, Session};

/// Rows a table shows unless told otherwise.
const MAX_ROWS: usize = 100;

const EXAMPLES: &str = "\
Examples:
  tickstone sql                                              interactive
  tickstone sql -c \"SELECT symbol, count(*) FROM trades GROUP BY symbol\"
  tickstone sql -f report.sql --format csv --output report.csv
  echo \"SHOW TABLES\" | tickstone sql
  tickstone sql --read-only                                  beside a process that writes

In the shell a statement ends with a semicolon; help lists its commands.";

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
    let database = args.data.open(args.read_only)?;
    let interrupt = Interrupt::install();
    let view = View {
        format: args.format.unwrap_or(OutputFormat::Table),
        given: args.format.is_some(),
        output: args.output.clone(),
        rows_max: args.max_rows,
        timing: !args.quiet,
    };
    let mut runner = Runner { session: database.session(), database, interrupt, view };
    match text {
        Some(text) => runner.run_text(&text),
        None => shell::run(&mut runner),
    }
}

/// Runs statements and shows what they give.
pub(crate) struct Runner {
    database: Database,
    session: Session,
    interrupt: Interrupt,
    view: View,
}

impl Runner {
    /// Runs the statements of a text up to the first that fails.
    fn run_text(&mut self, text: &str) -> Result<()> {
        self.interrupt.reset();
        let in_text = |error| failure(text, &error);
        let statements = self.session.parse(text).map_err(in_text)?;
        for statement in statements {
            let (session, view) = (&mut self.session, &mut self.view);
            let work = view.show(session, statement);
            self.database.runtime().block_on(async {
                tokio::select! {
                    done = work => done.map_err(in_text),
                    () = self.interrupt.pressed() => Err(Failure::Interrupted),
                }
            })?;
        }
        Ok(())
    }
}

/// The error of a statement of `text`, with the line it points at.
pub(crate) fn failure(text: &str, error: &QueryError) -> Failure {
    Failure::Sql(caret::describe(text, error))
}
