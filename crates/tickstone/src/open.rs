//! Opening the database a command works on.

use crate::failure::Result;
use crate::units::parse_bytes;
use std::error::Error;
use std::io;
use std::path::PathBuf;
use tickstone_query::{Database, DatabaseOptions};

/// Where the database is, for every command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DataArgs {
    /// Directory of the database; made where it is missing
    #[arg(long, value_name = "DIR", default_value = "./tickstone-data")]
    pub(crate) data: PathBuf,
    /// Most memory for rows and chunks under way, such as 256MB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) memory_budget: Option<usize>,
    /// Most memory that running queries take together, such as 1GB; three quarters of the
    /// machine's, or the container's, if it is not given
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) query_memory: Option<usize>,
}

impl DataArgs {
    /// Opens the database for writing, or for reading only: that, too, where the file system is read-only.
    pub(crate) fn open(&self, read_only: bool) -> Result<Database> {
        let mut options = DatabaseOptions::default();
        if let Some(bytes) = self.memory_budget {
            options.engine.memory_budget_bytes = bytes;
        }
        options.query_memory_bytes = self.query_memory;
        if read_only {
            return Ok(Database::open_read_only(&self.data, options)?);
        }
        match Database::open(&self.data, options.clone()) {
            Err(error) if is_read_only(&error) => Ok(Database::open_read_only(&self.data, options)?),
            opened => Ok(opened?),
        }
    }
}

/// Whether an opening failed since nothing can be written on the file system.
fn is_read_only(error: &(dyn Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let of_system = |error: &(dyn Error + 'static)| error.downcast_ref::<io::Error>().map(io::Error::kind);
    causes.filter_map(of_system).any(|kind| kind == io::ErrorKind::ReadOnlyFilesystem)
}
