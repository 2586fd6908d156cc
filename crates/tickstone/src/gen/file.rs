//! The files that generated rows go to.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;

/// A CSV file under way: it has its name only once it is whole.
#[derive(Debug)]
pub(crate) struct CsvFile {
    file: Sink,
    partial: PathBuf,
    path: PathBuf,
    pending: Vec<u8>,
    written: u64,
    rows: u64,
}

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    /// Not.
    None,
    /// gzip, `.gz`.
    Gzip,
    /// Zstandard, `.zst`.
    Zstd,
}

enum Sink {
    Plain(File),
    Gzip(Box<GzEncoder<File>>),
    Zstd(zstd::Encoder<'static, File>),
}

impl fmt::Debug for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sink::Plain(_) => "Plain",
            Sink::Gzip(_) => "Gzip",
            Sink::Zstd(_) => "Zstd",
        })
    }
}

/// Text gathered before it goes to the file, in bytes.
const BUFFER_BYTES: usize = 1 << 20;
/// Room for the longest row past the buffer's mark, in bytes.
const ROW_BYTES: usize = 1 << 12;

impl CsvFile {
    /// Begins the file `folder/name` (plus the compression's ending) with its header.
    ///
    /// # Errors
    /// What the file system says; nothing stands under the final name then.
    pub(crate) fn create(
        folder: &Path,
        name: &str,
        compression: Compression,
        header: &str,
    ) -> io::Result<Self> {
        let ending = match compression {
            Compression::None => "",
            Compression::Gzip => ".gz",
            Compression::Zstd => ".zst",
        };
        let path = folder.join(format!("{name}{ending}"));
        let partial = folder.join(format!("{name}{ending}.partial"));
        let file = File::create(&partial)?;
        let file = match compression {
            Compression::None => Sink::Plain(file),
            Compression::Gzip => Sink::Gzip(Box::new(GzEncoder::new(file, flate2::Compression::fast()))),
            Compression::Zstd => Sink::Zstd(zstd::Encoder::new(file, 3)?),
        };
        let mut pending = Vec::with_capacity(BUFFER_BYTES + ROW_BYTES);
        pending.extend_from_slice(header.as_bytes());
        Ok(Self { file, partial, path, pending, written: 0, rows: 0 })
    }

    /// Adds the row that `write` appends.
    ///
    /// # Errors
    /// What the file system says.
    #[inline]
    pub(crate) fn row(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        write(&mut self.pending);
        self.rows += 1;
        if self.pending.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Rows so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of text so far, before compression.
    pub(crate) fn text_bytes(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Finishes the file and gives it its name; returns where it is.
    ///
    /// # Errors
    /// What the file system says; nothing stands under the final name then.
    pub(crate) fn finish(mut self) -> io::Result<PathBuf> {
        self.flush()?;
        match self.file {
            Sink::Plain(file) => drop(file),
            Sink::Gzip(encoder) => drop(encoder.finish()?),
            Sink::Zstd(encoder) => drop(encoder.finish()?),
        }
        fs::rename(&self.partial, &self.path)?;
        Ok(self.path)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.file {
            Sink::Plain(file) => file.write_all(&self.pending)?,
            Sink::Gzip(encoder) => encoder.write_all(&self.pending)?,
            Sink::Zstd(encoder) => encoder.write_all(&self.pending)?,
        }
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }
}
