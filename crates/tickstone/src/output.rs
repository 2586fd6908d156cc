//! Formats of results, and standard output.

use clap::ValueEnum;
use std::io::{self, BufWriter, Stdout, Write};
use tickstone_query::export::Format;

/// How rows are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Aligned columns for people
    Table,
    /// Comma-separated, with a header
    Csv,
    /// One JSON array
    Json,
    /// One JSON object a line
    Ndjson,
    /// Apache Parquet
    Parquet,
    /// Arrow IPC file
    Arrow,
}

impl OutputFormat {
    /// The file format, `None` for the table, which is for eyes.
    pub(crate) fn file_format(self) -> Option<Format> {
        Some(match self {
            OutputFormat::Table => return None,
            OutputFormat::Csv => Format::Csv,
            OutputFormat::Json => Format::Json,
            OutputFormat::Ndjson => Format::Ndjson,
            OutputFormat::Parquet => Format::Parquet,
            OutputFormat::Arrow => Format::Arrow,
        })
    }
}

/// Buffered standard output that ends the process when nobody reads it any more, as `| head` does.
#[derive(Debug)]
pub(crate) enum Output {
    Whole(BufWriter<Stdout>),
    /// Each line goes at once.
    Lines(Stdout),
}

impl Output {
    pub(crate) fn new() -> Self {
        Output::Whole(BufWriter::new(io::stdout()))
    }

    /// For rows that come as time goes by.
    pub(crate) fn live() -> Self {
        Output::Lines(io::stdout())
    }

    fn inner(&mut self) -> &mut dyn Write {
        match self {
            Output::Whole(out) => out,
            Output::Lines(out) => out,
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner().write(bytes).inspect_err(end_if_unread)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner().flush().inspect_err(end_if_unread)
    }
}

fn end_if_unread(error: &io::Error) {
    if error.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
}
