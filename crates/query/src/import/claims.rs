//! Checks the lengths that Arrow messages claim, before arrow-ipc 59.3 allocates them.
//!
//! Its readers allocate the claimed length of a header, of a body and of an uncompressed buffer, and an allocation that
//! fails ends the process: one flipped bit of a file, or one message of a client, is enough. A header or body that ends
//! past the file is refused here, and so is an uncompressed length that no compression reaches or that memory cannot
//! hold. Every other damage is reported by the reader.

use arrow_ipc::{Block, Message, root_as_footer, root_as_message};
use arrow_schema::ArrowError;
use std::io::{Read, Seek, SeekFrom};

/// Most bytes that one compressed byte stands for: a block of zstd that repeats a byte has 128 KiB in four, one of LZ4
/// has 255 for each.
const UNPACKED_MAX: u64 = 1 << 15;
/// Bytes before a compressed buffer: its length, -1 where it is as it is.
const CLAIM_BYTES: u64 = 8;
/// What stands before the length of a message.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// First and last bytes of an Arrow file; a stream has none.
pub(super) const MAGIC: &[u8; 6] = b"ARROW1";

/// Looks at one message: its header, and the body behind it.
///
/// # Errors
/// Where a buffer claims more than it can hold.
pub fn check_message(header: &[u8], body: &[u8]) -> Result<(), ArrowError> {
    let claim = |at: u64| {
        let at = usize::try_from(at).ok()?;
        body.get(at..at.checked_add(CLAIM_BYTES as usize)?)?.try_into().ok().map(i64::from_le_bytes)
    };
    root_as_message(header).map_or(Ok(()), |message| check(&message, claim))
}

/// Checks all messages of an Arrow file, or of a stream where `is_file` is false, and rewinds it.
///
/// # Errors
/// As [`check_message`], where a message ends past the file, and where the file cannot be read.
pub fn check_file(file: &mut (impl Read + Seek), is_file: bool) -> Result<(), ArrowError> {
    let end = file.seek(SeekFrom::End(0))?;
    if is_file {
        for block in blocks_of(file, end)? {
            let at = u64::try_from(block.offset()).unwrap_or(end);
            let lengths = [i64::from(block.metaDataLength()), block.bodyLength()];
            let lengths = lengths.map(|length| u64::try_from(length).unwrap_or(u64::MAX));
            ends_within(lengths.into_iter().fold(at, u64::saturating_add), end)?;
            check_at(file, at, end, Some(lengths[0]))?;
        }
    } else {
        let mut at = 0;
        while let Some(next) = check_at(file, at, end, None)? {
            at = next;
        }
    }
    file.rewind()?;
    Ok(())
}

/// The messages that the footer of an Arrow file lists; none where it has no footer, which its reader reports.
fn blocks_of(file: &mut (impl Read + Seek), end: u64) -> Result<Vec<Block>, ArrowError> {
    let Some(tail_at) = end.checked_sub(4 + MAGIC.len() as u64) else { return Ok(Vec::new()) };
    let tail = bytes_at(file, tail_at, end - tail_at)?;
    let (length, magic) = tail.split_at(4);
    let length = length.try_into().map_or(-1, i32::from_le_bytes);
    let from = u64::try_from(length).ok().and_then(|length| tail_at.checked_sub(length));
    let (true, Some(from)) = (magic == MAGIC, from) else { return Ok(Vec::new()) };
    let footer = bytes_at(file, from, tail_at - from)?;
    let blocks = root_as_footer(&footer).map(|footer| {
        let lists = [footer.dictionaries(), footer.recordBatches()];
        lists.into_iter().flatten().flatten().copied().collect()
    });
    Ok(blocks.unwrap_or_default())
}

/// Looks at the message at a place of a file; where the next one is. `bytes` is how long it is before its body, which
/// it says itself in a stream.
fn check_at(
    file: &mut (impl Read + Seek),
    at: u64,
    end: u64,
    bytes: Option<u64>,
) -> Result<Option<u64>, ArrowError> {
    let left = end.saturating_sub(at);
    let prefix = bytes_at(file, at, left.min(8))?;
    let word = |at: usize| prefix.get(at..at + 4).and_then(|word| word.try_into().ok());
    let before = if word(0) == Some(CONTINUATION) { 8 } else { 4 };
    let length = match bytes {
        Some(bytes) => bytes.checked_sub(before),
        None => word(before as usize - 4).map(u32::from_le_bytes).map(u64::from),
    };
    let Some(length) = length.filter(|length| *length > 0) else { return Ok(None) };
    ends_within(at.saturating_add(before).saturating_add(length), end)?;
    let header = bytes_at(file, at + before, length)?;
    let Ok(message) = root_as_message(&header) else { return Ok(None) };
    let body = at + before + length;
    check(&message, |offset| {
        let at = body.checked_add(offset).filter(|at| *at <= end.saturating_sub(CLAIM_BYTES))?;
        bytes_at(file, at, CLAIM_BYTES).ok()?.try_into().ok().map(i64::from_le_bytes)
    })?;
    let next = body.saturating_add(u64::try_from(message.bodyLength()).unwrap_or(u64::MAX));
    ends_within(next, end)?;
    Ok(Some(next))
}

/// Refuses a message that claims to end at `at` in a file of `end` bytes.
fn ends_within(at: u64, end: u64) -> Result<(), ArrowError> {
    if at <= end {
        return Ok(());
    }
    Err(ArrowError::IpcError(format!("a message claims to end at byte {at} of {end}")))
}

fn bytes_at(file: &mut (impl Read + Seek), at: u64, bytes: u64) -> Result<Vec<u8>, ArrowError> {
    let mut read = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    file.take(bytes).read_to_end(&mut read)?;
    Ok(read)
}

/// Compares what the compressed buffers of a message claim with how long they are; `claim` is what stands at a place of
/// its body.
fn check(message: &Message<'_>, mut claim: impl FnMut(u64) -> Option<i64>) -> Result<(), ArrowError> {
    let batch = message.header_as_record_batch();
    let batch = batch.or_else(|| message.header_as_dictionary_batch().and_then(|batch| batch.data()));
    let Some(batch) = batch.filter(|batch| batch.compression().is_some()) else { return Ok(()) };
    for buffer in batch.buffers().iter().flatten() {
        let (Ok(at), Ok(bytes)) = (u64::try_from(buffer.offset()), u64::try_from(buffer.length())) else {
            continue;
        };
        let claimed = claim(at).and_then(|claimed| u64::try_from(claimed).ok()).unwrap_or_default();
        if bytes > 0 && (claimed > bytes.saturating_mul(UNPACKED_MAX) || !fits_memory(claimed)) {
            let what = format!("a buffer of {bytes} bytes claims to hold {claimed}");
            return Err(ArrowError::IpcError(what));
        }
    }
    Ok(())
}

/// Whether an allocation of as many bytes succeeds. What it allocates is freed before it is written.
fn fits_memory(bytes: u64) -> bool {
    usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok())
}

#[cfg(test)]
mod tests;
