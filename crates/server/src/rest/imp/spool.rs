//! The bytes of an upload, in a file of the directory for temporary files (`TMPDIR`), which goes with its last user.
//!
//! Unpacked where they are packed with gzip, and limited: one upload by `request_bytes_max`, all bodies together by
//! `requests_bytes_max`.

use super::super::words::Fault;
use crate::shared::Shared;
use axum::http::StatusCode;
use flate2::write::MultiGzDecoder;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are put into the file at once.
const PIECE_BYTES: usize = 1 << 20;

/// What gzip begins with (RFC 1952).
const GZIP: &[u8] = &[0x1f, 0x8b];

/// A file for a while.
#[derive(Debug)]
pub(super) struct TemporaryFile {
    path: PathBuf,
}

impl TemporaryFile {
    /// Makes one that only this user can open.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn create() -> io::Result<(Self, File)> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = format!("tickstone-upload-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            match options.open(&path) {
                // Of a process long gone.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(file) => return Ok((Self { path }, file)),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever cleans that directory.
        let _ = fs::remove_file(&self.path);
    }
}

/// An upload that is there as a whole.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) file: TemporaryFile,
    _share: Share,
}

/// An upload on its way.
pub(super) struct Spool {
    shared: Arc<Shared>,
    /// Bytes that are not in the file yet.
    waiting: Vec<u8>,
    /// `None` before the first bytes, and while they are put into the file.
    sink: Option<Sink>,
}

impl Spool {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::clone(shared), waiting: Vec::new(), sink: None }
    }

    /// Takes some more bytes.
    ///
    /// # Errors
    /// Where there are too many, they are no gzip after all, or the system refuses them.
    pub(super) async fn add(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= PIECE_BYTES {
            let sink = self.put().await?;
            self.sink = Some(sink);
        }
        Ok(())
    }

    /// The whole upload.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub(super) async fn finish(mut self) -> Result<Upload, Fault> {
        let plain = match self.put().await? {
            Sink::Plain(plain) => plain,
            Sink::Gzip(decoder) => decoder.finish().map_err(|error| fault(&self.shared, &error))?,
        };
        Ok(Upload { file: plain.file, _share: plain.share })
    }

    /// Puts what waits into the file, on a thread for such.
    async fn put(&mut self) -> Result<Sink, Fault> {
        let (shared, sink) = (Arc::clone(&self.shared), self.sink.take());
        let bytes = std::mem::take(&mut self.waiting);
        let put = move || {
            let mut sink = match sink {
                Some(sink) => sink,
                None => Sink::of(&bytes, &shared)?,
            };
            sink.write_all(&bytes)?;
            Ok(sink)
        };
        let put = tokio::task::spawn_blocking(put).await;
        put.unwrap_or_else(|_| Err(io::ErrorKind::Other.into())).map_err(|error| fault(&self.shared, &error))
    }
}

enum Sink {
    Plain(Limited),
    Gzip(Box<MultiGzDecoder<Limited>>),
}

impl Sink {
    /// One for an upload that begins with `head`.
    fn of(head: &[u8], shared: &Arc<Shared>) -> io::Result<Self> {
        let (file, open) = TemporaryFile::create()?;
        let share = Share { shared: Arc::clone(shared), bytes: 0 };
        let plain = Limited { file, open, share };
        Ok(match head.starts_with(GZIP) {
            true => Sink::Gzip(Box::new(MultiGzDecoder::new(plain))),
            false => Sink::Plain(plain),
        })
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::Plain(plain) => plain.write_all(bytes),
            Sink::Gzip(decoder) => decoder.write_all(bytes),
        }
    }
}

/// A file that takes so many bytes and no more.
struct Limited {
    file: TemporaryFile,
    open: File,
    share: Share,
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.share.grow(bytes.len() as u64)?;
        self.open.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.open.flush()
    }
}

/// What an upload takes of that which all bodies may take, until it goes.
#[derive(Debug)]
struct Share {
    shared: Arc<Shared>,
    bytes: u64,
}

impl Share {
    fn grow(&mut self, bytes: u64) -> io::Result<()> {
        let settings = &self.shared.settings;
        if self.bytes + bytes > settings.bytes("request_bytes_max") as u64 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes += bytes;
        let all = self.shared.body_bytes.fetch_add(bytes as usize, Ordering::Relaxed) + bytes as usize;
        match all > settings.bytes("requests_bytes_max") {
            true => Err(io::ErrorKind::OutOfMemory.into()),
            false => Ok(()),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shared.body_bytes.fetch_sub(self.bytes as usize, Ordering::Relaxed);
    }
}

/// Why bytes were not taken.
pub(super) fn fault(shared: &Shared, error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::FileTooLarge => {
            let most = shared.settings.text("request_bytes_max");
            let what = format!("the upload is longer than request_bytes_max, {most}; send it in pieces");
            (StatusCode::PAYLOAD_TOO_LARGE, what)
        }
        io::ErrorKind::OutOfMemory => {
            let most = shared.settings.text("requests_bytes_max");
            let what = format!("the bodies of all requests take requests_bytes_max, {most}; try again");
            (StatusCode::SERVICE_UNAVAILABLE, what)
        }
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            (StatusCode::BAD_REQUEST, "the upload begins as gzip does and is none, or is cut off".to_string())
        }
        _ => unkept(error),
    }
}

/// Why a file of the directory for temporary files was not written.
pub(super) fn unkept(error: &io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            let what =
                "there is no room for the upload in the server's directory for temporary files (TMPDIR)";
            (StatusCode::INSUFFICIENT_STORAGE, what.to_string())
        }
        _ => (StatusCode::INTERNAL_SERVER_ERROR, format!("the upload cannot be kept: {error}")),
    }
}
