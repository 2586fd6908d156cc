use super::*;
use crate::tape::frame::END_MARKER;
use crate::tape::segment::segment_header;

/// A segment of frames with these positions and payloads, and where each begins.
fn segment(frames: &[(u64, Vec<u8>)]) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = segment_header(frames[0].0, 0).to_vec();
    let mut starts = Vec::new();
    for (position, payload) in frames {
        starts.push(bytes.len());
        let header = FrameHeader {
            kind: 1,
            payload_bytes: payload.len(),
            payload_crc: crc32c::crc32c(payload),
            position: *position,
            received_ns: 0,
            synced_bytes: bytes.len() as u64,
        };
        bytes.extend_from_slice(&header.encode());
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(&END_MARKER.to_le_bytes());
    }
    (bytes, starts)
}

/// Positions of the frames found, and the extents of what is broken.
fn found(bytes: &[u8], newest: bool) -> (Vec<u64>, Vec<(Range<usize>, bool)>) {
    let (mut frames, mut broken) = (Vec::new(), Vec::new());
    scan(bytes, 1, newest, |item| match item {
        Item::Frame(_, frame) => frames.push(frame.header.position),
        Item::Broken { extent, torn, .. } => broken.push((extent, torn)),
    });
    (frames, broken)
}

fn frames(count: u64) -> Vec<(u64, Vec<u8>)> {
    (1..=count).map(|position| (position, vec![0xA5; 40 + position as usize])).collect()
}

#[test]
fn every_flip_costs_one_frame_and_no_other() {
    let (bytes, starts) = segment(&frames(4));
    assert_eq!(found(&bytes, true), (vec![1, 2, 3, 4], vec![]));
    for at in starts[0]..starts[3] {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x40;
        let hit = starts.iter().rposition(|start| *start <= at).unwrap();
        let (good, broken) = found(&flipped, true);
        let rest: Vec<u64> = (1..=4).filter(|position| *position != hit as u64 + 1).collect();
        assert_eq!(good, rest, "byte {at}");
        assert_eq!(broken, [(starts[hit]..starts[hit + 1], false)], "byte {at}");
    }
}

#[test]
fn a_frame_inside_the_payload_of_a_broken_one_is_none() {
    let (inner, inner_starts) = segment(&[(9, vec![1; 30])]);
    let payload = inner[inner_starts[0]..].to_vec();
    let (bytes, starts) = segment(&[(1, vec![7; 9]), (2, payload), (3, vec![8; 9])]);
    let mut flipped = bytes.clone();
    // The payload's last byte: the header still tells where the frame ends.
    flipped[starts[2] - 5] ^= 1;
    assert_eq!(found(&flipped, true).0, [1, 3]);
}

#[test]
fn a_torn_end_is_torn_only_in_the_newest_segment() {
    let (bytes, starts) = segment(&frames(3));
    let cut = &bytes[..starts[2] + 20];
    assert_eq!(found(cut, true), (vec![1, 2], vec![(starts[2]..cut.len(), true)]));
    assert_eq!(found(cut, false), (vec![1, 2], vec![(starts[2]..cut.len(), false)]));
}

#[test]
fn any_bytes_are_scanned_to_their_end() {
    let (bytes, _) = segment(&frames(6));
    for step in 1..200_usize {
        let mut ruined = bytes.clone();
        for at in (0..ruined.len()).step_by(step) {
            ruined[at] = ruined[at].wrapping_mul(step as u8);
        }
        let (good, broken) = found(&ruined, step % 2 == 0);
        assert!(good.is_sorted());
        assert!(broken.is_sorted_by_key(|(extent, _)| extent.start));
    }
}
