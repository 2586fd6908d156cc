//! A file's bytes: hashed as they are read, unpacked.

use super::{Compression, ImportError, Result};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use xxhash_rust::xxh3::Xxh3;

const READ_BYTES: usize = 256 << 10;

/// An open file, nothing read yet.
#[derive(Debug)]
pub(crate) struct RawFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl RawFile {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = |source| ImportError::Read { path: path.to_path_buf(), source };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        Ok(Self { path: path.to_path_buf(), file, bytes: metadata.len() })
    }

    /// Its size on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn into_file(self) -> File {
        self.file
    }

    /// xxh3 of the whole file, read through a handle of its own.
    pub(crate) fn hash_all(&self) -> Result<u64> {
        let failed = |source| ImportError::Read { path: self.path.clone(), source };
        let mut file = File::open(&self.path).map_err(failed)?;
        let mut hasher = Xxh3::new();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match file.read(&mut buffer).map_err(failed)? {
                0 => return Ok(hasher.digest()),
                length => hasher.update(&buffer[..length]),
            }
        }
    }

    /// Its unpacked bytes, and the counter of those read from disk.
    pub(crate) fn unpack(self, compression: Compression) -> Result<(Box<dyn Read + Send>, Arc<ReadState>)> {
        let state = Arc::new(ReadState::default());
        let hashed = HashedReader { file: self.file, state: Arc::clone(&state) };
        let failed = |source| ImportError::Read { path: self.path.clone(), source };
        let reader: Box<dyn Read + Send> = match compression {
            Compression::None => Box::new(hashed),
            Compression::Gzip => {
                Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(READ_BYTES, hashed)))
            }
            Compression::Zstd => {
                let buffered = BufReader::with_capacity(READ_BYTES, hashed);
                Box::new(zstd::Decoder::with_buffer(buffered).map_err(failed)?)
            }
        };
        Ok((reader, state))
    }
}

/// How much of a file was read from disk, and the hash of that.
#[derive(Default)]
pub(crate) struct ReadState {
    bytes: AtomicU64,
    hasher: Mutex<Xxh3>,
}

impl ReadState {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hasher.lock().unwrap_or_else(PoisonError::into_inner).digest()
    }
}

impl std::fmt::Debug for ReadState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadState").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

struct HashedReader {
    file: File,
    state: Arc<ReadState>,
}

impl Read for HashedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        let mut hasher = self.state.hasher.lock().unwrap_or_else(PoisonError::into_inner);
        hasher.update(buffer.get(..length).unwrap_or_default());
        self.state.bytes.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}
