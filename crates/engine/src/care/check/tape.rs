//! The tape, frame by frame: each against its checksums, its place in the sequence and the schema of its
//! tables, replayed as recovery would, past damage.

use super::report::{BringsBack, Finding, Remedy, Severity};
use super::survey::{Look, TapeChange, TapeCover};
use super::tables::{Found, broken_file};
use crate::paths::{TAPE_DIR, symbols_path, table_dir};
use crate::recovery::{Replay, Surveying, UndoneRows};
use crate::store::snapshot::{Snapshot, TableSnapshot};
use crate::tape::change::{KIND_CLOSE, KIND_GAP, Scope, scope_of};
use crate::tape::frame::Frame;
use crate::tape::named::NamedSegment;
use crate::tape::scan::{Item, scan};
use crate::tape::segment::{SEGMENT_HEADER_BYTES, Segment, epoch_of, position_after, segment_path};
use crate::{EngineError, Result};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use tickstone_model::SymbolId;

/// What the tape made of the tables.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) snapshot: Snapshot,
    pub(crate) last_position: u64,
    pub(crate) cover: TapeCover,
    /// Tables and ids of columns whose symbol files were looked at: those that a manifest knows.
    pub(crate) symbols_seen: BTreeSet<(u32, u32)>,
}

/// Replays all of the tape that can be.
pub(crate) fn walk(look: &mut Look<'_>, found: Found) -> Result<Walked> {
    super::names::look(look)?;
    let (segments, named) = (look.tape.segments_all(), look.tape.found.named.clone());
    if look.tape.found.segments.is_empty() && look.tape.missing.is_empty() && !found.tables.is_empty() {
        let what = "there is no segment of the tape, though there are tables";
        look.add(Finding::new(Severity::Damage, TAPE_DIR, what).loses(None, None).remedy(Remedy::Rebuild));
    }
    let replay = Replay::surveying(&look.disk, found.tables, look.rebuilt.clone(), found.position);
    // The name of the oldest segment tells its first position: what is missing there is lost as well.
    let chain = segments.first().map(|first| first.saturating_sub(1));
    let (next_segment, named_segment) = (None, None);
    let cover = TapeCover::default();
    let mut walk = Walk { replay, chain, next_segment, named: named_segment, broken: None, cover };
    for (index, first) in segments.iter().enumerate() {
        walk.next_segment = segments.get(index + 1).copied();
        walk.named = named.segment(*first).copied();
        match (look.tape.missing.contains_key(first), walk.named) {
            (true, Some(named)) => walk.missing(look, &named),
            _ => walk.segment(look, *first)?,
        }
    }
    walk.settle(look, None);
    walk.reach(look, found.position);
    walk.unknown_tables(look);
    walk.undone_tables(look);
    let held = walk.cover.last.max(walk.chain.unwrap_or(0)).max(segments.last().copied().unwrap_or(0));
    let last_position = held.max(found.position).max(found.opened_last);
    let snapshot = walk.replay.snapshot().clone();
    look.report.tables = snapshot.tables().filter(|table| table.schema().view().is_none()).count() as u64;
    look.report.rows += walk.replay.rows_seen();
    let mut symbols_seen = BTreeSet::new();
    for (id, column, count) in found.symbol_counts {
        symbols_seen.insert((id, column));
        let place = |table: &TableSnapshot| table.schema.column_of_id(column);
        let table = snapshot.table_by_id(id);
        if let Some(dictionary) = table.and_then(|table| table.dictionary(place(table)?)) {
            dictionary.fill_to(count);
        }
    }
    Ok(Walked { snapshot, last_position, cover: walk.cover, symbols_seen })
}

struct Walk {
    replay: Replay<Surveying>,
    /// Position of the last whole frame.
    chain: Option<u64>,
    /// First position of the segment after the one at hand.
    next_segment: Option<u64>,
    /// What the tape manifest says of the segment at hand.
    named: Option<NamedSegment>,
    /// Damage after it, until the next whole frame tells which positions are lost.
    broken: Option<Broken>,
    cover: TapeCover,
}

struct Broken {
    path: PathBuf,
    segment: u64,
    extent: Range<usize>,
    reason: String,
    /// Position of the frame, where its header could be read.
    position: Option<u64>,
}

impl Walk {
    fn segment(&mut self, look: &mut Look<'_>, first: u64) -> Result<()> {
        let (path, newest) = (segment_path(first), self.next_segment.is_none());
        let segment = match Segment::open(look.disk.as_ref(), first) {
            Ok(segment) => segment,
            Err(error) => {
                look.tape.headers.insert(first);
                look.tape.segments.insert(first);
                look.add(broken_file(&path, error).loses(None, None).remedy(Remedy::PutAside));
                return Ok(());
            }
        };
        look.begin_file(&path, 0);
        match segment.check_header(newest) {
            Ok(true) => {}
            Ok(false) if self.named.is_some() => {
                look.tape.headers.insert(first);
                self.end_of_segment(look, first, segment.contents().len() as u64);
                return Ok(());
            }
            Ok(false) => {
                let what = "the segment's header was not written to its end: nothing was in it yet";
                look.tape.headers.insert(first);
                look.add(Finding::new(Severity::Note, &path, what).at(0, None).remedy(Remedy::NextOpening));
                return Ok(());
            }
            Err(error @ EngineError::NewerFormat { .. }) => return Err(error),
            Err(error) => {
                look.tape.headers.insert(first);
                look.tape.segments.insert(first);
                let finding = broken_file(&path, error).at(0, Some(SEGMENT_HEADER_BYTES as u64));
                look.add(finding.remedy(Remedy::Rebuild));
            }
        }
        let bytes = segment.contents().clone();
        let mut done = 0;
        scan(&bytes, first, newest, |item| {
            let end = match &item {
                Item::Frame(at, frame) => at + frame.size(),
                Item::Broken { extent, .. } => extent.end,
            };
            self.item(look, first, &path, item);
            look.step(&path, (end - done) as u64);
            done = end;
        });
        look.step(&path, (bytes.len() - done.min(bytes.len())) as u64);
        self.end_of_segment(look, first, bytes.len() as u64);
        Ok(())
    }

    /// A segment that must be there and is not.
    fn missing(&mut self, look: &mut Look<'_>, named: &NamedSegment) {
        self.settle(look, None);
        let next = self.next_segment.filter(|next| epoch_of(*next) == epoch_of(named.first));
        let last = named.last.max(named.first).max(next.map_or(0, |next| next - 1));
        look.tape.missing.insert(named.first, last);
        self.cover.add_lost((named.first, last));
        self.cover.closed = false;
        self.chain = Some(last);
        let what = format!("the segment is missing: {}", named.held());
        let finding = Finding::new(Severity::Damage, segment_path(named.first), what).loses(None, None);
        look.add(finding.remedy(Remedy::KeepFrames));
    }

    /// Compares what was found of a segment of so many bytes with what the tape manifest says of it.
    fn end_of_segment(&mut self, look: &mut Look<'_>, first: u64, bytes: u64) {
        let Some(named) = self.named else { return };
        let lost = (named.last > 0).then(|| self.lost_before(named.last.checked_add(1))).flatten();
        let short = named.shortfall(bytes);
        if lost.is_none() && short.is_none() {
            return;
        }
        look.tape.segments.insert(first);
        self.cover.closed = false;
        if lost.is_some() {
            look.tape.ends.insert(first, named.last);
        }
        if self.broken.is_some() {
            self.settle(look, Some((first, named.last.saturating_add(1))));
        } else {
            lost.into_iter().for_each(|lost| self.cover.add_lost(lost));
            let what = short.unwrap_or_else(|| format!("frames are missing at its end: {}", named.held()));
            let finding = Finding::new(Severity::Damage, segment_path(first), what);
            // Without the last frame of all, which only says that the database was closed, nothing is lost.
            let finding = if lost.is_some() { finding.loses(None, None) } else { finding };
            look.add(finding.at(bytes, None).remedy(Remedy::KeepFrames));
        }
        self.chain = self.chain.max(lost.map(|(_, last)| last));
    }

    /// The tape must reach the last frame that a manifest holds.
    fn reach(&mut self, look: &mut Look<'_>, saved: u64) {
        let found = &look.tape.found;
        let Some(newest) = found.segments.last().copied() else { return };
        if let Some(what) = found.shortfall(self.chain, saved).filter(|_| self.cover.found_lost.is_empty()) {
            let expected = self.chain.map_or(saved, |last| position_after(last, saved));
            self.cover.add_lost((expected.min(saved), saved));
            let finding = Finding::new(Severity::Damage, segment_path(newest), what).loses(None, None);
            look.add(finding.remedy(Remedy::KeepFrames));
        }
    }

    /// Bytes of the segment at hand that are no torn write, wherever they are broken.
    fn least_bytes(&self) -> u64 {
        self.named.map_or(0, |named| named.bytes)
    }

    fn item(&mut self, look: &mut Look<'_>, segment: u64, path: &Path, item: Item<'_>) {
        match item {
            Item::Frame(at, frame) => {
                look.report.frames += 1;
                self.frame(look, segment, path, at, &frame);
            }
            Item::Broken { extent, reason, torn: true, .. } if self.least_bytes() <= extent.start as u64 => {
                let what = format!(
                    "the last write was cut short ({reason}): nothing of it was acknowledged under sync 'always'"
                );
                let bytes = Some(extent.len() as u64);
                let note = Finding::new(Severity::Note, path, what).at(extent.start as u64, bytes);
                look.add(note.remedy(Remedy::NextOpening));
            }
            Item::Broken { extent, reason, header, .. } => {
                self.settle(look, None);
                look.tape.segments.insert(segment);
                let position = header.map(|header| header.position);
                let (path, reason) = (path.to_path_buf(), reason.to_string());
                self.broken = Some(Broken { path, segment, extent, reason, position });
            }
        }
    }

    fn frame(&mut self, look: &mut Look<'_>, segment: u64, path: &Path, at: usize, frame: &Frame<'_>) {
        let position = frame.header.position;
        let late = self.next_segment.is_some_and(|next| next <= position);
        if late || self.chain.is_some_and(|chain| position <= chain) {
            let what = format!("the frame at position {position:#x} does not belong into this segment");
            let finding = Finding::new(Severity::Damage, path, what).at(at as u64, Some(frame.size() as u64));
            look.add(finding.remedy(Remedy::KeepFrames));
            look.tape.foreign.insert((segment, position));
            look.tape.segments.insert(segment);
            return;
        }
        let first = match frame.payload.first_chunk() {
            Some(first) if frame.header.kind == KIND_GAP => u64::from_le_bytes(*first),
            _ => position,
        };
        self.settle(look, Some((segment, first)));
        if frame.header.kind == KIND_GAP {
            self.cover.lost.push((first, position));
        }
        self.chain = Some(position);
        self.cover.first.get_or_insert(first);
        self.cover.last = position;
        self.cover.closed = frame.header.kind == KIND_CLOSE;
        if let Some(scope) = scope_of(frame.header.kind) {
            let table = frame.payload.first_chunk().map(|id| u32::from_le_bytes(*id));
            let table = table.filter(|_| scope != Scope::Any);
            let is_load = scope == Scope::Load;
            self.cover.changes.push(TapeChange { table, position, is_load });
        }
        let mut outcome = self.replay.frame(&segment, frame);
        while outcome.is_err() && self.replay.fill_symbols(frame) {
            outcome = self.replay.frame(&segment, frame);
        }
        if let Err(error) = outcome {
            let what = match error {
                EngineError::Damaged { what, .. } => what,
                other => other.to_string(),
            };
            look.tape.unusable.insert(position);
            look.tape.segments.insert(segment);
            self.cover.add_lost((position, position));
            let finding = Finding::new(Severity::Damage, path, what).at(at as u64, Some(frame.size() as u64));
            look.add(finding.loses(None, None).remedy(Remedy::KeepFrames));
        }
    }

    /// Reports the damage or the hole before the frame at `next` of a segment, or before the end.
    fn settle(&mut self, look: &mut Look<'_>, next: Option<(u64, u64)>) {
        let lost = self.lost_before(next.map(|(_, position)| position));
        if let Some(lost) = lost {
            self.cover.add_lost(lost);
        }
        let frames = |(from, to): (u64, u64)| match to - from {
            0 => format!("the frame at position {from:#x}"),
            more => format!("{} frames from position {from:#x} to {to:#x}", more + 1),
        };
        if let Some(broken) = self.broken.take() {
            let lost = lost.or_else(|| broken.position.map(|position| (position, position)));
            if let Some(lost) = lost {
                self.cover.add_lost(lost);
            }
            let reason = &broken.reason;
            let what = match lost {
                Some(lost) => format!("{reason}; it takes {} with it", frames(lost)),
                None => format!("{reason}; which frames stood there is not known"),
            };
            look.tape.segments.insert(broken.segment);
            let bytes = Some(broken.extent.len() as u64);
            let finding = Finding::new(Severity::Damage, broken.path, what);
            let finding = finding.at(broken.extent.start as u64, bytes).loses(None, None);
            look.add(finding.remedy(Remedy::KeepFrames));
        } else if let (Some(lost), Some((segment, _))) = (lost, next) {
            let what = format!("{} that must come before this are missing", frames(lost));
            look.tape.segments.insert(segment);
            let finding = Finding::new(Severity::Damage, segment_path(segment), what).loses(None, None);
            look.add(finding.remedy(Remedy::KeepFrames));
        }
    }

    /// The positions between the last whole frame and the one at `next`.
    fn lost_before(&self, next: Option<u64>) -> Option<(u64, u64)> {
        let (previous, next) = (self.chain?, next?);
        let expected = position_after(previous, next);
        (expected < next && epoch_of(expected) == epoch_of(next)).then(|| (expected, next - 1))
    }

    fn unknown_tables(&self, look: &mut Look<'_>) {
        for id in self.replay.unknown_tables() {
            let what =
                format!("the tape has rows of table {id}, of which neither manifest nor CREATE is left");
            let finding = Finding::new(Severity::Damage, table_dir(id), what);
            look.add(finding.loses(None, None).remedy(Remedy::PutAside));
            look.tape.unknown.push(id);
        }
    }

    /// Tables of which the tape has DELETEs and UPDATEs that cannot be done again: their manifests are gone. Tables
    /// that were dropped since are none of them.
    fn undone_tables(&self, look: &mut Look<'_>) {
        for undone in self.replay.undone_tables() {
            let Some(table) = self.replay.snapshot().table_by_id(undone.table) else { continue };
            let (name, UndoneRows { missing, deleted, changed, .. }) = (table.schema.name(), undone);
            // A view is worked out anew in any case.
            let comes_back = deleted + changed > 0 && table.schema.materialized().is_none();
            if !comes_back && look.rebuilt.contains(&table.id) {
                // The parts that are left tell everything; the manifest was reported.
                continue;
            }
            let what =
                format!("the manifest is missing: a DELETE or UPDATE replaced {missing}, which is not there");
            let finding = Finding::new(Severity::Damage, table_dir(table.id), what);
            let finding = finding.of_table(name).loses(None, None).remedy(Remedy::Rebuild);
            let trouble = look.trouble(table.id);
            (trouble.rewrite, trouble.undone) = (true, true);
            if !comes_back {
                look.add(finding);
                continue;
            }
            let brings_back = BringsBack { table: name.to_string(), deleted, changed };
            trouble.brings_back = Some(brings_back.clone());
            let what = format!("{}; {}", finding.what, brings_back.sentence(false));
            look.add(Finding { what, ..finding }.remedy(Remedy::BringBack));
        }
    }
}

/// Reports the ids that no file and no frame has a text for.
pub(crate) fn lost_symbols(look: &mut Look<'_>, snapshot: &Snapshot) {
    for table in snapshot.tables() {
        for column in table.schema.symbol_columns() {
            let Some(dictionary) = table.dictionary(column) else { continue };
            let lost = dictionary.placeholders();
            if lost.is_empty() {
                continue;
            }
            let name = &table.schema.columns()[column].name;
            let what = format!("the text of {} of column '{name}' is lost", ids_in_words(&lost));
            look.trouble(table.id).rewrite = true;
            let finding =
                Finding::new(Severity::Damage, symbols_path(table.id, table.schema.column_id(column)), what);
            look.add(finding.of_table(table.schema.name()).remedy(Remedy::Placeholders));
        }
    }
}

fn ids_in_words(ids: &[Range<SymbolId>]) -> String {
    let words = |range: &Range<SymbolId>| match range.len() {
        1 => format!("id {}", range.start),
        _ => format!("ids {} to {}", range.start, range.end - 1),
    };
    ids.iter().map(words).collect::<Vec<_>>().join(", ")
}
