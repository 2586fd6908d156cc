//! What compressed buffers of Arrow messages claim to hold, looked at before a reader makes room for it.
//!
//! The eight bytes before a compressed buffer say how long it is unpacked. arrow-ipc 59.3 makes room for as much, and
//! where there is none the process ends: one flipped bit of a file, or one message of a client, is enough. A claim that
//! no compression could keep is refused here. Whatever else is wrong with a message is told by its reader.

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

/// Looks at all messages of an Arrow file or stream, and goes back to its beginning.
///
/// # Errors
/// As [`check_message`], and where the file cannot be read.
pub fn check_file(file: &mut (impl Read + Seek)) -> Result<(), ArrowError> {
    let end = file.seek(SeekFrom::End(0))?;
    match blocks_of(file, end)? {
        Some(blocks) => {
            for block in blocks {
                let at = u64::try_from(block.offset()).unwrap_or(end);
                check_at(file, at, end, u64::try_from(block.metaDataLength()).ok())?;
            }
        }
        None => {
            let mut at = 0;
            while let Some(next) = check_at(file, at, end, None)? {
                at = next;
            }
        }
    }
    file.rewind()?;
    Ok(())
}

/// Where the messages of an Arrow file lie; `None` where it has no footer, as a stream has none.
fn blocks_of(file: &mut (impl Read + Seek), end: u64) -> Result<Option<Vec<Block>>, ArrowError> {
    const MAGIC: &[u8; 6] = b"ARROW1";
    let tail = 4 + MAGIC.len() as u64;
    let Some(tail) = end.checked_sub(tail).map(|at| bytes_at(file, at, tail)).transpose()? else {
        return Ok(None);
    };
    let (length, magic) = tail.split_at(4);
    let length = length.try_into().map_or(-1, i32::from_le_bytes);
    let from = u64::try_from(length).ok().and_then(|length| (end - tail.len() as u64).checked_sub(length));
    let (true, Some(from)) = (magic == MAGIC, from) else { return Ok(None) };
    let footer = bytes_at(file, from, end - tail.len() as u64 - from)?;
    let blocks = root_as_footer(&footer).map(|footer| {
        let lists = [footer.dictionaries(), footer.recordBatches()];
        lists.into_iter().flatten().flatten().copied().collect()
    });
    Ok(blocks.ok())
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
    let Some(length) = length.filter(|length| *length > 0 && before + length <= left) else {
        return Ok(None);
    };
    let header = bytes_at(file, at + before, length)?;
    let Ok(message) = root_as_message(&header) else { return Ok(None) };
    let body = at + before + length;
    check(&message, |offset| {
        let at = body.checked_add(offset).filter(|at| *at <= end.saturating_sub(CLAIM_BYTES))?;
        bytes_at(file, at, CLAIM_BYTES).ok()?.try_into().ok().map(i64::from_le_bytes)
    })?;
    Ok(u64::try_from(message.bodyLength()).ok().and_then(|bytes| body.checked_add(bytes)))
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
        if bytes > 0 && claimed > bytes.saturating_mul(UNPACKED_MAX) {
            let what = format!("a buffer of {bytes} bytes claims to hold {claimed}");
            return Err(ArrowError::IpcError(what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
    use std::io::Cursor;
    use std::sync::Arc;

    fn written(is_file: bool, compression: CompressionType) -> Vec<u8> {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7; 10_000]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["seven"; 10_000]));
        let batch = RecordBatch::try_from_iter([("n", numbers), ("s", texts)]).unwrap();
        let options = IpcWriteOptions::default().try_with_compression(Some(compression)).unwrap();
        let mut bytes = Vec::new();
        if is_file {
            let mut writer = FileWriter::try_new_with_options(&mut bytes, &batch.schema(), options).unwrap();
            (0..3).for_each(|_| writer.write(&batch).unwrap());
            writer.finish().unwrap();
        } else {
            let mut writer =
                StreamWriter::try_new_with_options(&mut bytes, &batch.schema(), options).unwrap();
            (0..3).for_each(|_| writer.write(&batch).unwrap());
            writer.finish().unwrap();
        }
        bytes
    }

    /// Places of the claim of 80,000 bytes, one in each batch.
    fn claims(bytes: &[u8]) -> Vec<usize> {
        let claim = 80_000_i64.to_le_bytes();
        (0..bytes.len() - 8).filter(|at| bytes[*at..*at + 8] == claim).collect()
    }

    #[test]
    fn claims_are_kept_or_refused() {
        for (is_file, compression) in [
            (true, CompressionType::ZSTD),
            (false, CompressionType::ZSTD),
            (true, CompressionType::LZ4_FRAME),
            (false, CompressionType::LZ4_FRAME),
        ] {
            let whole = written(is_file, compression);
            check_file(&mut Cursor::new(&whole)).unwrap();
            let places = claims(&whole);
            assert_eq!(places.len(), 3);
            for at in places {
                let mut damaged = whole.clone();
                damaged[at + 6] = 0x7f;
                let told = check_file(&mut Cursor::new(&damaged)).unwrap_err().to_string();
                assert!(told.contains("claims to hold"), "{told}");
            }
        }
    }

    #[test]
    fn what_is_no_message_is_left_to_its_reader() {
        for bytes in [&b""[..], b"ARROW1", b"ARROW1\0\0\xff\xff\xff\x7fARROW1", &[0xff; 64], &[0; 64]] {
            check_file(&mut Cursor::new(bytes)).unwrap();
            check_message(bytes, bytes).unwrap();
        }
        let whole = written(true, CompressionType::ZSTD);
        for at in (0..whole.len()).step_by(7) {
            check_file(&mut Cursor::new(&whole[..at])).unwrap();
        }
    }
}
