//! `tickstone backup` and `tickstone restore`: copies of a database.

use crate::check::Bar;
use crate::failure::Result;
use crate::open::DataArgs;
use crate::units;
use std::path::PathBuf;
use std::time::Instant;

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
