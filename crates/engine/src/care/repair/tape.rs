//! Segments written anew with every frame that can be replayed, and gap frames where some are lost.
//!
//! A segment that is missing is one gap. The tape manifest is written anew with all of them.
//!
//! A gap frame keeps the promise that positions follow each other: it stands for those that are lost. The
//! repaired tape ends with a segment of a new epoch, so that no position and no name is used twice.

use super::Job;
use crate::care::check::survey::TapeTrouble;
use crate::store::switch::Switch;
use crate::tape::change::{Change, KIND_GAP, encode_change};
use crate::tape::frame::{END_MARKER, Frame, FrameHeader};
use crate::tape::named::{NamedSegment, TAPE_MANIFEST, TapeManifest};
use crate::tape::scan::{Item, scan};
use crate::tape::segment::{
    SEGMENT_HEADER_BYTES, Segment, first_position, position_after, segment_header, segment_path,
};
use crate::{EngineError, Result};
use std::path::Path;

impl Job<'_> {
    /// Stages the segments that have trouble, the one that ends the tape, and the tape manifest.
    pub(super) fn mend_tape(&mut self, switch: &mut Switch) -> Result<()> {
        let tape = &self.survey.tape;
        let segments = tape.segments_all();
        let mut chain = segments.first().map(|first| first.saturating_sub(1));
        let mut named = Vec::new();
        for (index, first) in segments.iter().enumerate() {
            let kept = match tape.missing.get(first) {
                Some(last) => self.stand_in(*first, *last, &mut chain, switch)?,
                None => self.mend_segment(*first, &segments[index + 1..], &mut chain, switch)?,
            };
            named.extend(kept);
        }
        named.push(self.stage_end(switch)?);
        for first in &tape.found.released {
            switch.remove(segment_path(*first));
        }
        self.stage_names(named, switch)
    }

    /// Stages a gap in the place of a segment that is missing.
    fn stand_in(
        &mut self,
        first: u64,
        last: u64,
        chain: &mut Option<u64>,
        switch: &mut Switch,
    ) -> Result<Option<NamedSegment>> {
        let mut writer = SegmentWriter::new(first, *chain, &self.survey.tape);
        writer.gap(first, last);
        *chain = writer.chain;
        self.keep(first, writer, switch)
    }

    /// Stages a segment where it has trouble; `None` where nothing is left of it.
    fn mend_segment(
        &mut self,
        first: u64,
        later: &[u64],
        chain: &mut Option<u64>,
        switch: &mut Switch,
    ) -> Result<Option<NamedSegment>> {
        let tape = &self.survey.tape;
        let Ok(segment) = Segment::open(self.disk, first) else {
            switch.remove(segment_path(first));
            return Ok(None);
        };
        let newest = later.is_empty();
        let next = self.first_frame_after(later);
        let next_segment = later.iter().copied().find(|first| Segment::open(self.disk, *first).is_ok());
        let mut writer = SegmentWriter::new(first, *chain, tape);
        let mut torn = tape.headers.contains(&first);
        scan(segment.contents(), first, newest, |item| match item {
            Item::Frame(_, frame) => writer.frame(&frame),
            Item::Broken { torn: true, .. } => torn = true,
            Item::Broken { header, .. } => writer.broken = header.map(|header| header.position),
        });
        *chain = writer.chain;
        if tape.segments.contains(&first) || torn {
            tape.ends.get(&first).into_iter().for_each(|last| writer.gap_before(last.saturating_add(1)));
            writer.end(next, next_segment);
            *chain = writer.chain;
            return self.keep(first, writer, switch);
        }
        let bytes = segment.contents().len() as u64;
        let (last, began_ns) = (chain.unwrap_or(0), segment.began_ns());
        if newest {
            // What was read must be stable before a manifest relies on it.
            let path = segment_path(first);
            drop(segment);
            self.disk.truncate(&path, bytes).map_err(EngineError::io("sync", &path))?;
        }
        Ok(Some(NamedSegment { first, bytes, last, began_ns, ended_ns: began_ns }))
    }

    /// Stages what a writer has put together in the place of a segment.
    fn keep(
        &mut self,
        old: u64,
        writer: SegmentWriter<'_>,
        switch: &mut Switch,
    ) -> Result<Option<NamedSegment>> {
        let SegmentWriter { name, frames, lost, chain, .. } = writer;
        self.done.positions_lost.extend(lost);
        self.stage_segment(old, name, &frames, switch)?;
        let known = self.survey.tape.found.named.segment(old);
        let (began_ns, ended_ns) = known.map_or((0, 0), |known| (known.began_ns, known.ended_ns));
        let bytes = (SEGMENT_HEADER_BYTES + frames.len()) as u64;
        let named = NamedSegment { first: name, bytes, last: chain.unwrap_or(0), began_ns, ended_ns };
        Ok((!frames.is_empty()).then_some(named))
    }

    /// Stages the tape manifest and its copy.
    fn stage_names(&self, segments: Vec<NamedSegment>, switch: &mut Switch) -> Result<()> {
        let begins = segments.first().map_or(0, |segment| segment.first);
        // The last one is of a new epoch: manifests hold no later position.
        let settled = segments.last().map_or(0, |segment| segment.last);
        let bytes = TapeManifest { begins, settled, segments }.encode();
        self.stage_with_copy(Path::new(TAPE_MANIFEST), bytes, switch)
    }

    fn stage_segment(&self, old: u64, name: u64, frames: &[u8], switch: &mut Switch) -> Result<()> {
        if name != old || frames.is_empty() {
            switch.remove(segment_path(old));
        }
        if frames.is_empty() {
            return Ok(());
        }
        let bytes = [&segment_header(name, 0)[..], frames].concat();
        switch.stage(self.disk, &segment_path(name), &bytes)
    }

    /// Position of the first frame, or gap, of these segments.
    fn first_frame_after(&self, segments: &[u64]) -> Option<u64> {
        segments.iter().find_map(|first| {
            let segment = Segment::open(self.disk, *first).ok()?;
            let mut position = None;
            scan(segment.contents(), *first, false, |item| {
                if let Item::Frame(_, frame) = item {
                    position.get_or_insert(first_position_of(&frame));
                }
            });
            position
        })
    }

    /// A segment of a new epoch: tables that nothing describes are dropped. It does not end as a close
    /// does, so that the next opening removes what nothing names any more.
    fn stage_end(&self, switch: &mut Switch) -> Result<NamedSegment> {
        let first = first_position(self.epoch()) + 1;
        let mut writer = SegmentWriter::new(first, None, &self.survey.tape);
        let end = first + self.survey.tape.unknown.len() as u64;
        let drops = self.survey.tape.unknown.iter().map(|id| Change::Drop { table: *id });
        for (change, position) in drops.chain([Change::Gap { first: end }]).zip(first..) {
            writer.write(&change, position);
        }
        self.stage_segment(first, first, &writer.frames, switch)?;
        let bytes = (SEGMENT_HEADER_BYTES + writer.frames.len()) as u64;
        Ok(NamedSegment { first, bytes, last: end, began_ns: 0, ended_ns: 0 })
    }
}

/// The first position that a frame stands for.
fn first_position_of(frame: &Frame<'_>) -> u64 {
    match frame.payload.first_chunk() {
        Some(first) if frame.header.kind == KIND_GAP => u64::from_le_bytes(*first),
        _ => frame.header.position,
    }
}

/// A segment being put together.
struct SegmentWriter<'a> {
    trouble: &'a TapeTrouble,
    /// The segment whose frames it takes over.
    segment: u64,
    /// Its first position.
    name: u64,
    frames: Vec<u8>,
    /// The last position written, here or in the segment before.
    chain: Option<u64>,
    /// Position of the last broken frame whose header could be read, until the next whole frame.
    broken: Option<u64>,
    lost: Vec<(u64, u64)>,
}

impl<'a> SegmentWriter<'a> {
    fn new(name: u64, chain: Option<u64>, trouble: &'a TapeTrouble) -> Self {
        Self { trouble, segment: name, name, frames: Vec::new(), chain, broken: None, lost: Vec::new() }
    }

    /// Takes a frame over, after a gap where some are missing before it.
    fn frame(&mut self, frame: &Frame<'_>) {
        let position = frame.header.position;
        if self.trouble.foreign.contains(&(self.segment, position)) {
            return;
        }
        self.gap_before(first_position_of(frame));
        self.broken = None;
        if self.trouble.unusable.contains(&position) {
            self.gap(position, position);
        } else {
            self.push(frame.header, frame.payload);
        }
        self.chain = Some(position);
    }

    fn gap_before(&mut self, next: u64) {
        if let Some(previous) = self.chain {
            let expected = position_after(previous, next);
            if expected < next {
                self.gap(expected, next - 1);
            }
        }
    }

    /// Ends the segment; `next` is the position that follows in a later one, before which the next segment
    /// may begin: it takes what is missing from there on.
    fn end(&mut self, next: Option<u64>, next_segment: Option<u64>) {
        let next = next.map(|next| next_segment.map_or(next, |limit| next.min(limit)));
        match (next, self.broken, self.chain) {
            (Some(next), _, _) => self.gap_before(next),
            (None, Some(broken), Some(previous)) if previous < broken => {
                self.gap(position_after(previous, broken), broken);
            }
            _ => {}
        }
    }

    fn gap(&mut self, first: u64, last: u64) {
        if self.frames.is_empty() {
            self.name = self.name.min(last);
        }
        self.lost.push((first, last));
        self.write(&Change::Gap { first }, last);
    }

    fn write(&mut self, change: &Change, position: u64) {
        let (kind, payload) = encode_change(change);
        let payload_crc = crc32c::crc32c(&payload);
        let (payload_bytes, received_ns, synced_bytes) = (payload.len(), 0, 0);
        let header = FrameHeader { kind, payload_bytes, payload_crc, position, received_ns, synced_bytes };
        self.push(header, &payload);
        self.chain = Some(position);
    }

    /// The segment gets its name when all of it is stable: all that stands before a frame is.
    fn push(&mut self, header: FrameHeader, payload: &[u8]) {
        let synced_bytes = (SEGMENT_HEADER_BYTES + self.frames.len()) as u64;
        self.frames.extend_from_slice(&FrameHeader { synced_bytes, ..header }.encode());
        self.frames.extend_from_slice(payload);
        self.frames.extend_from_slice(&END_MARKER.to_le_bytes());
    }
}
