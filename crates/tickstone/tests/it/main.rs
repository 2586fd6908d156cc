//! Runs the program as a user does: arguments in, text and exit codes out.

mod export;
mod import;
mod shell;
mod sql;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A directory with a database and the files of one test.
struct Place {
    dir: TempDir,
}

/// What a run gave.
#[derive(Debug)]
struct Run {
    code: i32,
    out: String,
    err: String,
}

impl Place {
    fn new() -> Self {
        Self { dir: TempDir::new().expect("a temporary directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file.
    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.path(name), content).expect("written");
        self
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("read")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tickstone"));
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Run {
        finished(&self.command(args).output().expect("the program starts"))
    }

    /// Runs and expects success.
    fn ok(&self, args: &[&str]) -> Run {
        let run = self.run(args);
        assert_eq!(run.code, 0, "{args:?}: {run:?}");
        run
    }

    /// Runs and expects exit code 1; what it said.
    fn error(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert_eq!(run.code, 1, "{args:?}: {run:?}");
        run.err
    }

    /// The rows of a query as CSV, without the header.
    fn query(&self, sql: &str) -> String {
        let out = self.ok(&["sql", "--format", "csv", "-c", sql]).out;
        out.split_once('\n').map_or(String::new(), |(_, rows)| rows.to_string())
    }
}

fn finished(output: &Output) -> Run {
    Run {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Trades as CSV: `rows` of them, a second apart, of two symbols in turn.
fn trades_csv(rows: usize) -> String {
    let mut text = "ts,symbol,side,price,amount,id\n".to_string();
    for row in 0..rows {
        let (symbol, side) = (["BTC-USD", "ETH-USD"][row % 2], ["buy", "sell"][row / 2 % 2]);
        let time = 1_723_161_253_000_i64 + row as i64 * 1_000;
        text.push_str(&format!("{time},{symbol},{side},{}.25,0.5,{row}\n", 100 + row % 10));
    }
    text
}

/// The directory of recorded market data, `None` where it is missing.
fn sample_data() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    [root.join("../shared/data"), root.join("../../shared/data")].into_iter().find(|path| path.is_dir())
}
