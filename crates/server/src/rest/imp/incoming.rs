//! The body of an upload as it comes: unpacked where the request is packed, limited, and not waited for forever.

use super::super::words::{Fault, wrong};
use super::spool::fault;
use crate::http::is_too_long;
use crate::shared::Shared;
use axum::body::{Body, BodyDataStream};
use axum::http::header::CONTENT_ENCODING;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that a form of several parts has besides its file.
const PARTS_BYTES_MAX: usize = 1 << 20;

/// Packed bytes that are unpacked at once: they become a thousand times as many at most.
const PACKED_BYTES: usize = 4 << 10;

/// What went wrong on the way, for whoever was only told that something did.
#[derive(Debug, Clone, Default)]
pub(super) struct FirstFault(Arc<Mutex<Option<Fault>>>);

impl FirstFault {
    fn set(&self, fault: Fault) -> io::Error {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
        io::ErrorKind::Other.into()
    }

    /// What went wrong first; `otherwise` where that is not known.
    pub(super) fn or(&self, otherwise: Fault) -> Fault {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or(otherwise)
    }
}

struct Incoming {
    shared: Arc<Shared>,
    chunks: BodyDataStream,
    /// What came and is not unpacked yet.
    packed: Bytes,
    decoder: Option<MultiGzDecoder<Vec<u8>>>,
    bytes: usize,
    faults: FirstFault,
}

/// The bytes of a body; what is wrong with them is in the [`FirstFault`].
///
/// # Errors
/// Where it is packed with something else than gzip, and where it says that it is too long.
pub(super) fn incoming(
    body: Body,
    headers: &HeaderMap,
    shared: &Arc<Shared>,
) -> Result<(BoxStream<'static, io::Result<Bytes>>, FirstFault), Fault> {
    let encoding = headers.get(CONTENT_ENCODING).map(|encoding| encoding.as_bytes().to_ascii_lowercase());
    let decoder = match encoding.as_deref() {
        None | Some(b"identity" | b"") => None,
        Some(b"gzip" | b"x-gzip") => Some(MultiGzDecoder::new(Vec::new())),
        Some(other) => {
            let other = String::from_utf8_lossy(other);
            let what = format!("Content-Encoding {other} is not read: send gzip or none");
            return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
        }
    };
    if is_too_long(headers, bytes_max(shared)) {
        return Err(fault(shared, &io::ErrorKind::FileTooLarge.into()));
    }
    let faults = FirstFault::default();
    let incoming = Incoming {
        shared: Arc::clone(shared),
        chunks: body.into_data_stream(),
        packed: Bytes::new(),
        decoder,
        bytes: 0,
        faults: faults.clone(),
    };
    let bytes = stream::try_unfold(incoming, |mut incoming| async move {
        let next = incoming.next().await.map_err(|fault| incoming.faults.set(fault))?;
        Ok(next.map(|bytes| (bytes, incoming)))
    });
    Ok((bytes.boxed(), faults))
}

/// The most bytes of a body, its file and what is beside it.
fn bytes_max(shared: &Shared) -> usize {
    shared.settings.bytes("request_bytes_max").saturating_add(PARTS_BYTES_MAX)
}

impl Incoming {
    /// The next bytes; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            let plain = match &mut self.decoder {
                None => match self.chunk().await? {
                    Some(chunk) => chunk,
                    None => return Ok(None),
                },
                Some(_) => self.unpacked().await?,
            };
            self.bytes += plain.len();
            if self.bytes > bytes_max(&self.shared) {
                return Err(fault(&self.shared, &io::ErrorKind::FileTooLarge.into()));
            }
            if !plain.is_empty() {
                return Ok(Some(plain));
            }
        }
    }

    /// Unpacks some bytes; nothing may come of them.
    async fn unpacked(&mut self) -> Result<Bytes, Fault> {
        if self.packed.is_empty() {
            self.packed = self.chunk().await?.unwrap_or_default();
        }
        let piece = self.packed.split_to(self.packed.len().min(PACKED_BYTES));
        let Some(decoder) = &mut self.decoder else { return Ok(piece) };
        let done = if piece.is_empty() { decoder.try_finish() } else { decoder.write_all(&piece) };
        done.map_err(|error| wrong(format!("the body is no gzip: {error}")))?;
        let plain = std::mem::take(decoder.get_mut());
        if piece.is_empty() {
            // Nothing more comes.
            self.decoder = None;
        }
        Ok(plain.into())
    }

    /// What comes next over the wire.
    async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        let patience = self.shared.settings.time("idle_timeout");
        let chunk = self.chunks.next();
        let chunk = match patience {
            None => chunk.await,
            Some(patience) => tokio::time::timeout(patience, chunk).await.map_err(|_| {
                let what = format!("nothing of the body came for {patience:?} (idle_timeout)");
                (StatusCode::REQUEST_TIMEOUT, what)
            })?,
        };
        chunk.transpose().map_err(|_| wrong("the body ended too soon"))
    }
}
