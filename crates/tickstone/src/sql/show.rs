//! Runs one statement and shows what it gave.

use super::table;
use crate::output::{Output, OutputFormat};
use crate::units;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tickstone_query::export::{Format, Layout, Room};
use tickstone_query::import::Compression;
use tickstone_query::{ErrorKind, Outcome, QueryError, export};

/// How outcomes are shown.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// The format of rows.
    pub(crate) format: OutputFormat,
    /// Whether the user named it.
    pub(crate) given: bool,
    /// The file for the rows of the one query; taken by it.
    pub(crate) output: Option<PathBuf>,
    /// Most rows a table shows; 0 for all.
    pub(crate) rows_max: usize,
    /// Whether counts and times are shown.
    pub(crate) timing: bool,
}

impl View {
    /// Waits for what a statement gives, and shows its rows, or what it did. Rows that are live are lines, each shown
    /// when it comes.
    pub(crate) async fn show(
        &mut self,
        run: impl Future<Output = Result<Outcome, QueryError>>,
        is_live: bool,
    ) -> Result<(), QueryError> {
        let start = Instant::now();
        match run.await? {
            Outcome::Done { tag, rows } => {
                if self.timing {
                    let rows = rows.map(|rows| format!(": {}", units::rows(rows))).unwrap_or_default();
                    self.say(&format!("{tag}{rows} ({})", units::duration(start.elapsed())));
                }
            }
            Outcome::Rows { schema, stream, planning, progress } => {
                match (self.output.take(), self.format.file_format()) {
                    (Some(path), format) => {
                        let given = format.filter(|_| self.given);
                        let (format, compression) = export::detect(&path, given)?;
                        let layout = Layout::new(format, compression);
                        let written = export::write_file(stream, &path, &layout, &Room::default()).await?;
                        let rows = units::rows(written.rows);
                        self.say(&format!("{}: {rows}, {}", path.display(), units::bytes(written.bytes)));
                    }
                    (None, format) if is_live => {
                        let format = format.unwrap_or(Format::Ndjson);
                        export::write(stream, &plain(format), &Room::default(), &mut Output::live()).await?;
                    }
                    (None, Some(format)) => {
                        export::write(stream, &plain(format), &Room::default(), &mut Output::new()).await?;
                    }
                    (None, None) => {
                        let shown = table::collect(schema, stream, self.rows_max).await?;
                        let footer = self.footer(&shown, planning, start.elapsed());
                        print(&format!("{}{footer}", shown.text()?))?;
                    }
                }
                progress.warnings().iter().for_each(|warning| eprintln!("warning: {warning}"));
            }
        }
        Ok(())
    }

    /// A line for the user, beside the results where those are for a machine.
    fn say(&self, line: &str) {
        if self.format == OutputFormat::Table {
            println!("{line}");
        } else {
            eprintln!("{line}");
        }
    }

    fn footer(&self, shown: &table::Rows, planning: Duration, elapsed: Duration) -> String {
        let mut footer = String::new();
        if shown.cut() {
            let (few, all) = (units::count(shown.kept() as u64), units::count(shown.total()));
            footer = format!("first {few} of {all} rows; --max-rows 0 (here: \\limit 0) shows all\n");
        }
        if self.timing {
            let (rows, elapsed) = (units::rows(shown.total()), units::duration(elapsed));
            let planned = if planning.is_zero() {
                String::new()
            } else {
                format!(" (planning {})", units::duration(planning))
            };
            footer.push_str(&format!("{rows} in {elapsed}{planned}\n"));
        }
        footer
    }
}

/// One file or stream of a format, not packed.
fn plain(format: Format) -> Layout {
    Layout::new(format, Compression::None)
}

fn print(text: &str) -> Result<(), QueryError> {
    let mut out = Output::new();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| QueryError::new(ErrorKind::Report, format!("cannot write the result: {error}")))
}
