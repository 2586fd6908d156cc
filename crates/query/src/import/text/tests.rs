use super::*;

fn chunks(text: &[u8], layout: Layout, carry: usize, chunk_bytes: usize) -> Vec<Vec<u8>> {
    let (head, rest) = text.split_at(carry);
    let mut records = RecordReader {
        path: PathBuf::from("t"),
        reader: Box::new(io::Cursor::new(rest.to_vec())),
        layout,
        carry: head.to_vec(),
        ended: false,
        chunk_bytes,
    };
    let mut chunks = Vec::new();
    let mut buffer = Vec::new();
    while records.next(&mut buffer).expect("readable") {
        chunks.push(buffer.clone());
    }
    chunks
}

#[test]
fn chunks_are_whole_records_and_lose_nothing() {
    let text: String = (0..200).map(|n| format!("{n},\"a\n{}\"\n", "x".repeat(n % 40))).collect();
    let text = format!("{text}last,row");
    for carry in [0, 1, 57, text.len()] {
        for chunk_bytes in [1, 10, 64, 1_000, 1 << 20] {
            let chunks = chunks(text.as_bytes(), Layout::Csv { delimiter: b',' }, carry, chunk_bytes);
            assert_eq!(chunks.concat(), text.as_bytes());
            for chunk in &chunks[..chunks.len() - 1] {
                assert!(chunk.ends_with(b"\"\n"), "{carry} {chunk_bytes}");
            }
        }
    }
}

#[test]
fn an_unclosed_quote_is_an_error_not_a_hang() {
    let text = [b"a,\"".to_vec(), vec![b'x'; RECORD_BYTES_MAX * 2]].concat();
    let mut records = RecordReader {
        path: PathBuf::from("t"),
        reader: Box::new(io::Cursor::new(text)),
        layout: Layout::Csv { delimiter: b',' },
        carry: Vec::new(),
        ended: false,
        chunk_bytes: 1 << 16,
    };
    assert!(matches!(records.next(&mut Vec::new()), Err(ImportError::RecordTooLong { .. })));
}
