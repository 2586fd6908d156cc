use super::*;

fn frame(position: u64, payload: &[u8], synced_bytes: u64) -> Vec<u8> {
    let header = FrameHeader {
        kind: 1,
        payload_bytes: payload.len(),
        payload_crc: crc32c::crc32c(payload),
        position,
        received_ns: 7,
        synced_bytes,
    };
    [&header.encode()[..], payload, &END_MARKER.to_le_bytes()].concat()
}

/// A payload without a zero byte: a zero sector in it can only be one that was not written.
fn dense(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| u8::try_from(i % 255).unwrap() + 1).collect()
}

fn check(segment: &[u8], offset: usize, expect: &Tail) {
    let broken = read_frame(segment, offset).unwrap_err();
    assert_eq!(classify_tail(segment, offset, &broken), *expect, "{broken:?}");
}

#[test]
fn a_frame_is_read_back() {
    let bytes = frame(9, b"rows", 3);
    let frame = read_frame(&bytes, 0).unwrap();
    assert_eq!((frame.payload, frame.header.position, frame.header.synced_bytes), (&b"rows"[..], 9, 3));
    assert_eq!(frame.size(), bytes.len());
}

#[test]
fn every_flipped_bit_breaks_a_frame() {
    let bytes = frame(9, b"rows", 3);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(read_frame(&flipped, 0).is_err(), "bit {bit}");
    }
}

#[test]
fn every_shortened_last_frame_is_torn() {
    let bytes = frame(9, &dense(2_000), 0);
    for length in 0..bytes.len() {
        check(&bytes[..length], 0, &Tail::Torn);
    }
}

#[test]
fn a_last_frame_with_an_unwritten_sector_is_torn() {
    let mut bytes = frame(9, &dense(2_000), 0);
    bytes[512..1_024].fill(0);
    check(&bytes, 0, &Tail::Torn);
    let mut never_begun = frame(9, &dense(100), 0);
    never_begun.fill(0);
    check(&never_begun, 0, &Tail::Torn);
}

#[test]
fn a_whole_last_frame_with_a_flipped_byte_is_damaged() {
    let mut bytes = frame(9, &dense(2_000), 0);
    bytes[700] ^= 1;
    check(&bytes, 0, &Tail::Damaged);
}

#[test]
fn a_later_frame_that_proves_a_sync_makes_it_damage() {
    let mut first = frame(9, &dense(2_000), 0);
    first[512..1_024].fill(0);
    let offset_after = first.len() as u64;
    check(&[&first[..], &frame(10, b"x", offset_after)].concat(), 0, &Tail::Damaged);
    // Written in the same unsynced group, it proves nothing.
    check(&[&first[..], &frame(10, b"x", 0)].concat(), 0, &Tail::Torn);
}
