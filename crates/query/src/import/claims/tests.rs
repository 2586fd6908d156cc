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
        let mut writer = StreamWriter::try_new_with_options(&mut bytes, &batch.schema(), options).unwrap();
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
        check_file(&mut Cursor::new(&whole), is_file).unwrap();
        let places = claims(&whole);
        assert_eq!(places.len(), 3);
        for at in places {
            let mut damaged = whole.clone();
            damaged[at + 6] = 0x7f;
            let told = check_file(&mut Cursor::new(&damaged), is_file).unwrap_err().to_string();
            assert!(told.contains("claims to hold"), "{told}");
        }
    }
}

#[test]
fn what_is_no_message_is_left_to_its_reader() {
    for bytes in [&b""[..], b"ARROW1", b"ARROW1\0\0\xff\xff\xff\x7fARROW1", &[0; 64]] {
        check_file(&mut Cursor::new(bytes), bytes.starts_with(MAGIC)).unwrap();
        check_message(bytes, bytes).unwrap();
    }
}

#[test]
fn a_message_ends_within_its_file() {
    let past = |bytes: &[u8]| {
        let told = check_file(&mut Cursor::new(bytes), bytes.starts_with(MAGIC))
            .err()
            .map(|error| error.to_string());
        told.is_some_and(|told| told.contains("claims to end at byte"))
    };
    assert!(past(&[0xff; 64]));
    for is_file in [true, false] {
        let whole = written(is_file, CompressionType::ZSTD);
        // Lengths of bodies: in a file's footer and in each message.
        let batch = (0..whole.len() - 8).filter(|at| {
            let length = i64::from_le_bytes(whole[*at..*at + 8].try_into().unwrap());
            let mut damaged = whole.clone();
            damaged[*at + 6] = 0x28;
            (64..whole.len() as i64).contains(&length) && past(&damaged)
        });
        assert!(batch.count() >= 3);
    }
    let stream = written(false, CompressionType::ZSTD);
    assert!((9..stream.len()).step_by(7).any(|at| past(&stream[..at])));
}
