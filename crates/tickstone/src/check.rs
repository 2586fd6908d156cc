//! `tickstone check [--repair]`: is every byte what was written?

use crate::failure::{Failure, Result};
use crate::open::DataArgs;
use crate::units;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::Arc;
use std::time::Instant;
use tickstone_engine::check::{self, CheckOptions, Progress, Report};
use tickstone_engine::disk::{Disk, FileDisk};
use tickstone_engine::repair::{self, RepairOptions};

const EXAMPLES: &str = "\
Examples:
  tickstone check --data /data/ticks              read everything, name what is damaged
  tickstone check --data /data/ticks --repair     keep all that can be kept, put the rest aside
  tickstone check --data /data/ticks --repair --bring-back
                                                  also where deleted rows come back

No other process may have the database open for writing. Exit codes: 0 all is as it was written (or is
after the repair), 1 damage or an error. docs/check.md says what each finding means.";

/// Read all of a database and name every damage.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Keep all that can be kept; what is damaged is put aside in DIR/damaged
    #[arg(long)]
    repair: bool,
    /// With --repair: also rebuild tables where that brings back rows that a DELETE or UPDATE had removed or changed
    #[arg(long, requires = "repair")]
    bring_back: bool,
    /// Checksums, names and the tape only: values are not compared with their statistics
    #[arg(long, conflicts_with = "repair")]
    quick: bool,
    /// Most findings to print
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    findings: usize,
    /// No progress bar
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    data: DataArgs,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let disk = open(args)?;
    let start = Instant::now();
    let mut bar = Bar::new(args.quiet);
    let mut left = false;
    if args.repair {
        let options = RepairOptions { bring_back: args.bring_back };
        let repaired = repair::repair(&disk, &options, &mut |progress| bar.show(&progress));
        bar.clear();
        let repaired = repaired?;
        for finding in &repaired.found.findings {
            println!("{finding}");
        }
        println!("{repaired}");
        left = !repaired.left.is_empty();
    }
    let options = CheckOptions { values: !args.quick, findings_max: args.findings };
    let mut bar = Bar::new(args.quiet);
    let report = check::check(&disk, &options, &mut |progress| bar.show(&progress));
    bar.clear();
    let report: Report = report?;
    println!("{report}");
    eprintln!("{}", units::duration(start.elapsed()));
    match report.is_clean() {
        true => Ok(()),
        false => {
            let hint = match (args.repair, left) {
                (false, _) => "\nhint: tickstone check --repair keeps all that can be kept",
                (true, true) => {
                    "\nhint: tickstone check --repair --bring-back rebuilds the tables that were left, with the rows \
                     from before the DELETE or UPDATE; a backup may have them as they were"
                }
                (true, false) => "",
            };
            Err(Failure::Damaged { hint, data: args.data.data.clone() })
        }
    }
}

/// The directory, locked where it can be: what another process writes meanwhile would look like damage.
fn open(args: &Args) -> Result<Arc<dyn Disk>> {
    let existing = FileDisk::open_read_only(&args.data.data)?;
    match FileDisk::open(&args.data.data) {
        Ok(locked) => Ok(Arc::new(locked)),
        // A read-only file system: nobody writes there, and nothing can be repaired.
        Err(tickstone_engine::EngineError::Io { .. }) if !args.repair => Ok(Arc::new(existing)),
        Err(error) => Err(error.into()),
    }
}

/// The progress bar, drawn on standard error where that is a terminal.
pub(crate) struct Bar {
    bar: ProgressBar,
    start: Instant,
}

impl Bar {
    pub(crate) fn new(quiet: bool) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(0) };
        let style = ProgressStyle::with_template("{wide_bar} {percent:>3}% {msg}");
        bar.set_style(style.expect("the template is well-formed"));
        Self { bar, start: Instant::now() }
    }

    pub(crate) fn show(&mut self, progress: &Progress<'_>) {
        let seconds = self.start.elapsed().as_secs_f64().max(1e-3);
        self.bar.set_length(progress.bytes_total);
        self.bar.set_position(progress.bytes);
        let name = progress.path.file_name().unwrap_or(progress.path.as_os_str()).to_string_lossy();
        self.bar.set_message(format!("{:.0} MB/s, {name}", progress.bytes as f64 / seconds / 1e6));
    }

    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
