//! The interactive shell: a line editor around [`Runner`].

use super::Runner;
use super::complete::{EditorHelper, is_command};
use super::line::Sent;
use crate::failure::{Failure, Result};
use crate::output::OutputFormat;
use clap::ValueEnum;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};
use std::path::{Path, PathBuf};
use tickstone_query::dialect::Statement;

const PROMPT: &str = "tickstone> ";

const HELP: &str = "\
A statement ends with a semicolon and may take several lines.
  \\dt              the tables               \\d TABLE         a table's columns
  \\limit N         rows a table shows (0: all)
  \\format NAME     table, csv, json, ndjson
  \\timing          row counts and times on or off
  \\i FILE          run a file of SQL
  \\q               quit (or Ctrl-D)
Ctrl-C cancels the statement that runs. Tab completes keywords, tables and columns.
  SELECT symbol, vwap(price, amount) FROM trades SAMPLE BY 1m;
  SELECT * FROM trades LATEST BY symbol;
  SELECT * FROM trades ASOF JOIN quotes ON (symbol);";

/// Reads and runs statements until the user leaves.
pub(super) fn run(runner: &mut Runner) -> Result<()> {
    let config = Config::builder().completion_type(CompletionType::List).auto_add_history(true).build();
    let mut editor: Editor<EditorHelper, DefaultHistory> = Editor::with_config(config).map_err(terminal)?;
    editor.set_helper(Some(EditorHelper::new(runner.line.again())));
    let history = history_path();
    if let Some(path) = &history {
        // None yet on the first start.
        let _ = editor.load_history(path);
    }
    println!("tickstone {}: help for help, \\q to quit", env!("CARGO_PKG_VERSION"));
    loop {
        match editor.readline(PROMPT) {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) => match runner.line(&line) {
                Ok(true) => {}
                Ok(false) => break,
                Err(Failure::Interrupted) => eprintln!("cancelled"),
                Err(failure) => eprintln!("{failure}"),
            },
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(terminal(error)),
        }
    }
    if let Some(path) = &history {
        if let Some(folder) = path.parent() {
            let _ = std::fs::create_dir_all(folder);
        }
        // A history that cannot be kept is no reason to fail.
        let _ = editor.save_history(path);
    }
    Ok(())
}

/// Whether the user wants a database in a directory where there is none.
pub(super) fn confirms(path: &Path) -> Result<bool> {
    eprint!("There is no database in {}. Make one? [y/N] ", path.display());
    let mut answer = String::new();
    let failed = |source| Failure::Io { action: "read", path: PathBuf::from("standard input"), source };
    std::io::stdin().read_line(&mut answer).map_err(failed)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

fn terminal(error: ReadlineError) -> Failure {
    Failure::Terminal(error.to_string())
}

/// `tickstone/history` in the user's data directory.
fn history_path() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local").join("share")))?;
    Some(data.join("tickstone").join("history"))
}

impl Runner {
    /// Runs a line; `false` to leave.
    fn line(&mut self, line: &str) -> Result<bool> {
        self.interrupt.reset();
        if !is_command(line) {
            return self.run_text(line).map(|()| true);
        }
        let line = line.trim().trim_end_matches(';').trim();
        let (command, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let argument = argument.trim();
        match (command.to_ascii_lowercase().as_str(), argument) {
            ("\\q" | "quit" | "exit", _) => return Ok(false),
            ("help" | "\\h" | "\\?", _) => println!("{HELP}"),
            ("\\dt", _) | ("\\d", "") => {
                let placed = "SHOW TABLES".to_string();
                self.run_statement("", Sent { statement: Statement::ShowTables, text: None, placed })?;
            }
            ("\\d", table) => {
                let placed = format!("SHOW COLUMNS FROM \"{}\"", table.replace('"', "\"\""));
                let statement = Statement::ShowColumns { table: table.to_string() };
                self.run_statement("", Sent { statement, text: None, placed })?;
            }
            ("\\timing", _) => {
                self.view.timing = !self.view.timing;
                println!("timing is {}", if self.view.timing { "on" } else { "off" });
            }
            ("\\limit", number) => match number.parse() {
                Ok(number) => self.view.rows_max = number,
                Err(_) => {
                    return Err(Failure::Terminal("\\limit takes a number; 0 shows all rows".to_string()));
                }
            },
            ("\\format", name) => match OutputFormat::from_str(name, true) {
                Ok(OutputFormat::Parquet | OutputFormat::Arrow) | Err(_) => {
                    return Err(Failure::Terminal("\\format takes table, csv, json or ndjson".to_string()));
                }
                Ok(format) => self.view.format = format,
            },
            ("\\i", path) => {
                let failed = |source| Failure::Io { action: "read", path: PathBuf::from(path), source };
                let text = std::fs::read_to_string(path).map_err(failed)?;
                self.run_text(&text)?;
            }
            (other, _) => {
                return Err(Failure::Terminal(format!("unknown command {other}; help lists them")));
            }
        }
        Ok(true)
    }
}
