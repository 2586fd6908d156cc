//! `tickstone backup` and `tickstone restore`: copies of a database.

use crate::check::Bar;
use crate::failure::Result;
use crate::open::DataArgs;
use crate::units;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tickstone_engine::backup::BackupSummary;
use tickstone_engine::disk::{Disk, FileDisk};
use tickstone_engine::{Engine, EngineOptions};

const BACKUP: &str = "\
Examples:
  tickstone backup /backup/ticks                    back ./tickstone-data up
  tickstone backup /backup/ticks --data /data/ticks again: only what is new is copied

The target is a database itself: `tickstone sql --read-only --data /backup/ticks` opens it. A backup that
is broken off leaves the one before it as it was. docs/backup.md has more.";

const RESTORE: &str = "\
Examples:
  tickstone restore /backup/ticks --data /data/ticks

The directory that --data names must not exist or be empty. Every checksum is verified on the way.";

/// Copy a database to another directory, only what is new there.
#[derive(Debug, clap::Args)]
#[command(after_help = BACKUP)]
pub(crate) struct BackupArgs {
    /// Where the backup is, or is to be made
    #[arg(value_name = "DIR")]
    to: PathBuf,
    /// No progress bar
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    data: DataArgs,
}

/// Make a database of a backup.
#[derive(Debug, clap::Args)]
#[command(after_help = RESTORE)]
pub(crate) struct RestoreArgs {
    /// The backup
    #[arg(value_name = "DIR")]
    from: PathBuf,
    /// No progress bar
    #[arg(long)]
    quiet: bool,
    #[command(flatten)]
    data: DataArgs,
}

pub(crate) fn backup(args: &BackupArgs) -> Result<()> {
    let start = Instant::now();
    // For reading: another process may be writing it meanwhile.
    let engine = Engine::open_read_only(&args.data.data, EngineOptions::default())?;
    let to: Arc<dyn Disk> = Arc::new(FileDisk::open(&args.to)?);
    let mut bar = Bar::new(args.quiet);
    let done = engine.backup(&to, &mut |progress| bar.show(&progress));
    bar.clear();
    say(&args.to, &done?, start);
    Ok(())
}

pub(crate) fn restore(args: &RestoreArgs) -> Result<()> {
    let start = Instant::now();
    let from: Arc<dyn Disk> = Arc::new(FileDisk::open_read_only(&args.from)?);
    let to: Arc<dyn Disk> = Arc::new(FileDisk::open(&args.data.data)?);
    let mut bar = Bar::new(args.quiet);
    let done = tickstone_engine::backup::restore(&from, &to, &mut |progress| bar.show(&progress));
    bar.clear();
    say(&args.data.data, &done?, start);
    Ok(())
}

fn say(to: &Path, done: &BackupSummary, start: Instant) {
    println!(
        "{}: {} in {} tables and {} parts; {} parts copied, {} removed, {} written in {}",
        to.display(),
        units::rows(done.rows),
        units::count(done.tables),
        units::count(done.parts),
        units::count(done.parts_copied),
        units::count(done.parts_removed),
        units::bytes(done.bytes_copied),
        units::duration(start.elapsed())
    );
}
