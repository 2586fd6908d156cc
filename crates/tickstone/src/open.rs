//! Opening the database a command works on.

use crate::failure::{Failure, Result};
use crate::units::parse_bytes;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use tickstone_query::{Database, DatabaseOptions};

/// The directory where none is named.
const DEFAULT: &str = "./tickstone-data";

/// Where the database is, for every command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DataArgs {
    /// Directory of the database; made by what writes where it is missing
    #[arg(long, value_name = "DIR", default_value = DEFAULT)]
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
    /// Whether its directory is there.
    pub(crate) fn is_there(&self) -> bool {
        self.data.exists()
    }

    /// A database for statements that only read, where the directory is not there: reading makes none.
    ///
    /// # Errors
    /// Where the directory was named.
    pub(crate) fn missing(&self) -> Result<Database> {
        if self.data != Path::new(DEFAULT) {
            return Err(Failure::NoDatabase { path: self.data.clone() });
        }
        Ok(Database::in_memory(self.options())?)
    }

    fn options(&self) -> DatabaseOptions {
        let mut options = DatabaseOptions::default();
        if let Some(bytes) = self.memory_budget {
            options.engine.memory_budget_bytes = bytes;
        }
        options.query_memory_bytes = self.query_memory;
        options
    }

    /// Opens the database for writing, or for reading only: that, too, where the file system is read-only.
    pub(crate) fn open(&self, read_only: bool) -> Result<Database> {
        let options = self.options();
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
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::ReadOnlyFilesystem)
        {
            return true;
        }
        cause = error.source();
    }
    false
}
