//! The survey: what a check reports and a repair acts on.
//!
//! Invariants:
//! - nothing on disk is changed;
//! - every damage that is reported has its entry among the troubles, so that a repair misses none.

use super::report::{BringsBack, Finding, Progress, Report};
use super::{CheckOptions, files, names, parts, streams, tables, tape};
use crate::Result;
use crate::disk::Disk;
use crate::paths::BACKUP_FILE;
use crate::store::snapshot::Snapshot;
use crate::store::switch;
use crate::streams::described::Described;
use crate::tape::change::PartEntry;
use crate::tape::named::TapeFound;
use crate::tape::segment::epoch_of;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is wrong with one table.
#[derive(Debug, Default)]
pub(crate) struct TableTrouble {
    /// The manifest, or a symbol file it relies on, has to be written anew.
    pub(crate) rewrite: bool,
    /// Damaged files of the table's own: manifests, symbol files.
    pub(crate) files: Vec<PathBuf>,
    /// Damaged parts by their path.
    pub(crate) parts: BTreeMap<PathBuf, PartTrouble>,
    /// Parts of bulk loads whose frame is lost: they become the table's again.
    pub(crate) adopted: Vec<PartEntry>,
    /// Whether the tape has DELETEs or UPDATEs of it that cannot be done again.
    pub(crate) undone: bool,
    /// What of them a repair undoes: it asks first.
    pub(crate) brings_back: Option<BringsBack>,
}

/// What can be done about a part.
#[derive(Debug)]
pub(crate) enum PartTrouble {
    /// Nothing can be read, or there is no file.
    Lost,
    /// The tape has its rows.
    InTape,
    /// These rows of it are good.
    Partly(Vec<Range<usize>>),
}

impl PartTrouble {
    /// Rows of the part that are not lost, of `rows`.
    pub(crate) fn kept(&self, rows: u64) -> u64 {
        match self {
            PartTrouble::Lost => 0,
            PartTrouble::InTape => rows,
            PartTrouble::Partly(good) => good.iter().map(|good| good.len() as u64).sum(),
        }
    }
}

/// What is wrong with one stream.
#[derive(Debug)]
pub(crate) struct StreamTrouble {
    /// What describes it, or the best there is in its place.
    pub(crate) described: Described,
    /// Files that describe it and are damaged, or missing.
    pub(crate) files: Vec<PathBuf>,
    /// Files of its log with damage inside, or whose end is missing.
    pub(crate) damaged: BTreeSet<u64>,
}

/// What is wrong with the tape.
#[derive(Debug, Default)]
pub(crate) struct TapeTrouble {
    /// Segments with damage inside.
    pub(crate) segments: BTreeSet<u64>,
    /// Segments whose header is torn or broken.
    pub(crate) headers: BTreeSet<u64>,
    /// Positions of whole frames that cannot be replayed.
    pub(crate) unusable: HashSet<u64>,
    /// Whole frames that stand in a segment that is not theirs: segment and position.
    pub(crate) foreign: HashSet<(u64, u64)>,
    /// Tables that frames speak of and nothing describes, ascending.
    pub(crate) unknown: Vec<u32>,
    /// Segments that must be there, as far as that is known, and those that are.
    pub(crate) found: TapeFound,
    /// Whether the tape manifest, or its copy, has to be written anew.
    pub(crate) manifest: bool,
    /// Segments that are missing, with the last position they held as far as that is known.
    pub(crate) missing: BTreeMap<u64, u64>,
    /// Segments whose last frames are missing, with the last position they held.
    pub(crate) ends: BTreeMap<u64, u64>,
}

/// Which frames the tape holds, as far as it decides what may be taken from it.
#[derive(Debug, Default)]
pub(crate) struct TapeCover {
    /// Position of the first frame.
    pub(crate) first: Option<u64>,
    /// Position of the last frame.
    pub(crate) last: u64,
    /// Whether the database was closed after it.
    pub(crate) closed: bool,
    /// Positions that are missing in between, those that an earlier repair has noted included.
    pub(crate) lost: Vec<(u64, u64)>,
    /// Those of them that are missing now.
    pub(crate) found_lost: Vec<(u64, u64)>,
    /// Frames that do more than add rows.
    pub(crate) changes: Vec<TapeChange>,
}

/// A frame that does more than add rows.
#[derive(Debug)]
pub(crate) struct TapeChange {
    /// The table it concerns; `None` where it may be any.
    pub(crate) table: Option<u32>,
    pub(crate) position: u64,
    /// Whether it only adds parts.
    pub(crate) is_load: bool,
}

impl TapeTrouble {
    /// Whether there is nothing to mend.
    pub(crate) fn is_none(&self) -> bool {
        let of_segments = self.segments.len() + self.headers.len() + self.missing.len() + self.ends.len();
        let of_frames = self.unusable.len() + self.foreign.len() + self.unknown.len();
        of_segments + of_frames == 0 && !self.manifest
    }

    /// First positions of the segments that are there and of those that are missing, ascending.
    pub(crate) fn segments_all(&self) -> Vec<u64> {
        let all: BTreeSet<u64> = self.found.segments.iter().chain(self.missing.keys()).copied().collect();
        all.into_iter().collect()
    }
}

impl TapeCover {
    pub(crate) fn add_lost(&mut self, positions: (u64, u64)) {
        self.lost.push(positions);
        self.found_lost.push(positions);
    }

    /// The first position found lost that may have been that of a load which wrote its parts in this epoch.
    pub(crate) fn lost_load(&self, epoch: u64) -> Option<u64> {
        let of_epoch = |(first, last): &&(u64, u64)| (epoch_of(*first)..=epoch_of(*last)).contains(&epoch);
        self.found_lost.iter().find(of_epoch).map(|(first, _)| *first)
    }

    /// Whether the process that wrote in this epoch may have died with loads under way.
    pub(crate) fn may_have_died(&self, epoch: u64) -> bool {
        epoch == epoch_of(self.last) && !self.closed
    }

    /// Whether a table's rows of these positions are all in row frames that can be replayed once more.
    pub(crate) fn has_rows(&self, table: u32, first: u64, last: u64) -> bool {
        let harmless = |change: &TapeChange| {
            let other = change.table.is_some_and(|id| id != table);
            other || change.position < first || (change.is_load && last < change.position)
        };
        self.first.is_some_and(|start| start <= first)
            && last <= self.last
            && self.lost.iter().all(|(from, to)| *to < first || last < *from)
            && self.changes.iter().all(harmless)
    }
}

/// A manifest's or symbol file's copy that is not there.
#[derive(Debug)]
pub(crate) struct MissingCopy {
    pub(crate) table: u32,
    /// The table's name.
    pub(crate) name: String,
    /// Last position that the table's manifest holds.
    pub(crate) saved_at: u64,
    pub(crate) path: PathBuf,
}

/// A database, looked at.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) report: Report,
    /// The state that the files tell, without rows that are only in the tape.
    pub(crate) snapshot: Snapshot,
    /// No position up to this one is free.
    pub(crate) last_position: u64,
    pub(crate) tables: BTreeMap<u32, TableTrouble>,
    pub(crate) tape: TapeTrouble,
    pub(crate) streams: BTreeMap<u32, StreamTrouble>,
    /// Folders of tables that nothing describes though they hold parts, and broken files nothing needs.
    pub(crate) strays: Vec<PathBuf>,
    /// The file that tells a backup is to be written anew.
    pub(crate) marker_is_damaged: bool,
}

impl Survey {
    /// Whether there is nothing to mend.
    pub(crate) fn has_no_trouble(&self) -> bool {
        let files = self.strays.is_empty() && !self.marker_is_damaged;
        self.tables.is_empty() && self.streams.is_empty() && self.tape.is_none() && files
    }

    /// Looks at everything.
    ///
    /// # Errors
    /// As [`super::check`].
    pub(crate) fn take(
        disk: &Arc<dyn Disk>,
        options: &CheckOptions,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Self> {
        let mut look = Look::new(disk, options, progress)?;
        let found = tables::look(&mut look)?;
        let walked = tape::walk(&mut look, found)?;
        tables::missing_copies(&mut look, &walked);
        names::missing_copy(&mut look, &walked);
        parts::look(&mut look, &walked)?;
        files::look(&mut look, &walked)?;
        let backup = look.disk.read(Path::new(BACKUP_FILE)).is_ok();
        streams::look(&mut look, backup || walked.cover.closed)?;
        tape::lost_symbols(&mut look, &walked.snapshot);
        Ok(Self {
            report: look.report,
            snapshot: walked.snapshot,
            last_position: walked.last_position,
            tables: look.tables,
            tape: look.tape,
            streams: look.streams,
            strays: look.strays,
            marker_is_damaged: look.marker_is_damaged,
        })
    }
}

/// A survey under way.
pub(crate) struct Look<'a> {
    /// The database, seen through a switch that is not finished.
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) options: &'a CheckOptions,
    progress: &'a mut dyn FnMut(Progress<'_>),
    pub(crate) report: Report,
    pub(crate) tables: BTreeMap<u32, TableTrouble>,
    pub(crate) tape: TapeTrouble,
    pub(crate) streams: BTreeMap<u32, StreamTrouble>,
    pub(crate) strays: Vec<PathBuf>,
    /// The file that tells a backup is not what it was.
    pub(crate) marker_is_damaged: bool,
    /// Copies that are not there.
    pub(crate) missing_copies: Vec<MissingCopy>,
    /// Tables whose manifest had to be told from their parts.
    pub(crate) rebuilt: BTreeSet<u32>,
    bytes_total: u64,
}

impl<'a> Look<'a> {
    fn new(
        disk: &Arc<dyn Disk>,
        options: &'a CheckOptions,
        progress: &'a mut dyn FnMut(Progress<'_>),
    ) -> Result<Self> {
        let mut look = Self {
            disk: Arc::clone(disk),
            options,
            progress,
            report: Report::default(),
            tables: BTreeMap::new(),
            tape: TapeTrouble::default(),
            streams: BTreeMap::new(),
            strays: Vec::new(),
            marker_is_damaged: false,
            missing_copies: Vec::new(),
            rebuilt: BTreeSet::new(),
            bytes_total: 0,
        };
        files::look_at_switch(&mut look)?;
        if look.report.is_clean() {
            look.disk = switch::settled(disk)?;
        }
        look.bytes_total = files::total_bytes(look.disk.as_ref(), Path::new(""))?;
        Ok(look)
    }

    /// Notes a finding.
    pub(crate) fn add(&mut self, finding: Finding) {
        self.report.add(finding, self.options.findings_max);
    }

    /// Notes that a file of this size is read.
    pub(crate) fn begin_file(&mut self, path: &Path, bytes: u64) {
        self.report.files += 1;
        self.step(path, bytes);
    }

    /// Notes that so many bytes of a file were read.
    pub(crate) fn step(&mut self, path: &Path, bytes: u64) {
        self.report.bytes += bytes;
        let bytes_total = self.bytes_total.max(self.report.bytes);
        (self.progress)(Progress { path, bytes: self.report.bytes, bytes_total });
    }

    pub(crate) fn stream_trouble(&mut self, described: &Described) -> &mut StreamTrouble {
        let new =
            || StreamTrouble { described: described.clone(), files: Vec::new(), damaged: BTreeSet::new() };
        self.streams.entry(described.id).or_insert_with(new)
    }

    pub(crate) fn trouble(&mut self, table: u32) -> &mut TableTrouble {
        self.tables.entry(table).or_default()
    }
}
