//! Rows left out, written to a file as they came.

use super::{BadRows, ImportError, Result};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

/// Writes bad rows to the file a request names, which is made with the first of them.
#[derive(Debug)]
pub(crate) struct BadRowCollector {
    path: Option<PathBuf>,
    file: Option<BufWriter<File>>,
}

impl BadRowCollector {
    pub(crate) fn new(on_bad_row: &BadRows) -> Self {
        let path = match on_bad_row {
            BadRows::Collect(path) => Some(path.clone()),
            BadRows::Fail | BadRows::Skip => None,
        };
        Self { path, file: None }
    }

    /// Writes one record, under the header where it is the first.
    pub(crate) fn collect(&mut self, header: &[u8], record: &[u8]) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let written = match &mut self.file {
            Some(file) => write_line(file, record),
            None => File::create(path).map(BufWriter::new).and_then(|mut file| {
                if !header.is_empty() {
                    write_line(&mut file, header)?;
                }
                write_line(&mut file, record)?;
                self.file = Some(file);
                Ok(())
            }),
        };
        written.map_err(|source| ImportError::Write { path: path.clone(), source })
    }

    /// Puts what is buffered into the file.
    pub(crate) fn finish(self) -> Result<()> {
        match (self.file, self.path) {
            (Some(mut file), Some(path)) => {
                file.flush().map_err(|source| ImportError::Write { path, source })
            }
            _ => Ok(()),
        }
    }
}

fn write_line(file: &mut BufWriter<File>, line: &[u8]) -> io::Result<()> {
    file.write_all(line)?;
    file.write_all(b"\n")
}
