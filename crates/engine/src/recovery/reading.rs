//! A database that another process writes, as it is now: read whole, then followed frame by frame.
//!
//! ```text
//! whole: segments listed -> manifests -> segments listed again -> every frame     (read_whole)
//! then:  frames that were added since                                             (Reader::refresh)
//! ```
//!
//! Nothing tells the writer that somebody reads (docs/decisions/0010-readers-follow.md). It replaces manifests, removes
//! parts that were merged, and cuts and removes segments of the tape at any moment.
//!
//! Invariants:
//! - the tape is listed after the manifests were read, and begins where it did before: it holds every frame that
//!   one of them does not, so that all tables are as of one position;
//! - only what is found twice, while no file changed, is damage;
//! - frames are followed as long as the last one taken is still where it was: one that a full disk refused is cut
//!   off again, and others take its place. What does not follow is read anew;
//! - a close is passed over, as the next opening cuts it off.

use super::replay::{Opening, Replay};
use crate::disk::Disk;
use crate::lock::lock;
use crate::paths::{TAPE_DIR, table_dir};
use crate::store::manifest::list_tables;
use crate::store::publisher::Publisher;
use crate::store::snapshot::Snapshot;
use crate::store::switch::{self, Switch};
use crate::tape::frame::{Frame, read_frame};
use crate::tape::named::TapeFound;
use crate::tape::segment::{SEGMENT_HEADER_BYTES, Segment, list_segments, segment_path};
use crate::{EngineError, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often a database is read from the beginning while its files change.
const TRIES: usize = 200;
/// Pauses between these tries grow up to this, which makes ten seconds of them.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// The readings of a database that is open for reading.
#[derive(Debug)]
pub(crate) struct Reader {
    disk: Arc<dyn Disk>,
    /// What the current snapshot holds of the tape; `None` where there is no tape.
    place: Mutex<Option<Place>>,
}

/// How far the tape was read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    /// The first position of the segment.
    segment: u64,
    /// Bytes of it that were read.
    end: usize,
    /// Where the last frame's header (the segment's, where there is no frame) begins, and its bytes.
    last_at: usize,
    last: Vec<u8>,
    /// Position of the last frame.
    position: Option<u64>,
}

impl Place {
    /// After the header of a segment.
    fn after_header(segment: &Segment, first: u64, position: Option<u64>) -> Self {
        let last = segment.bytes(SEGMENT_HEADER_BYTES).to_vec();
        Self { segment: first, end: SEGMENT_HEADER_BYTES, last_at: 0, last, position }
    }

    fn pass(&mut self, frame: &Frame<'_>) {
        self.last_at = self.end;
        self.last = frame.header.encode().to_vec();
        self.end += frame.size();
        self.position = Some(frame.header.position);
    }
}

/// A state, and how far the tape was read for it.
struct Whole {
    snapshot: Snapshot,
    place: Option<Place>,
}

impl Reader {
    /// Reads a database.
    ///
    /// # Errors
    /// [`EngineError::Damaged`], [`EngineError::NewerFormat`], [`EngineError::Io`], or [`EngineError::Unsettled`].
    pub(crate) fn open(disk: &Arc<dyn Disk>) -> Result<(Self, Snapshot)> {
        let whole = read_whole(disk, &[])?;
        Ok((Self { disk: Arc::clone(disk), place: Mutex::new(whole.place) }, whole.snapshot))
    }

    /// Brings the snapshot up to what the tape holds now.
    ///
    /// # Errors
    /// As [`Self::open`]; the snapshot stays as it was.
    pub(crate) fn refresh(&self, publisher: &Publisher) -> Result<()> {
        let mut place = lock(&self.place);
        let mut ahead = Ahead::new(&self.disk, publisher.snapshot(), place.clone());
        // What cannot be followed may have been replaced: reading it anew tells what is damage.
        if !ahead.go().unwrap_or(false) {
            return self.read_anew(&mut place, publisher, &[]);
        }
        if let Some(mut snapshot) = ahead.replay.map(|replay| replay.snapshot) {
            snapshot.let_go_of_retired();
            publisher.replace(snapshot);
        }
        *place = ahead.place;
        Ok(())
    }

    /// Reads everything anew, and opens the parts of these tables at once.
    ///
    /// # Errors
    /// As [`Self::open`]; the snapshot stays as it was.
    pub(crate) fn reread(&self, publisher: &Publisher, opened: &[u32]) -> Result<()> {
        self.read_anew(&mut lock(&self.place), publisher, opened)
    }

    fn read_anew(&self, place: &mut Option<Place>, publisher: &Publisher, opened: &[u32]) -> Result<()> {
        let whole = read_whole(&self.disk, opened);
        // The newest segment always stays.
        if place.is_some() && list_segments(self.disk.as_ref())?.is_empty() {
            let what = "the files of the database were removed while it was open";
            let source = io::Error::new(io::ErrorKind::StaleNetworkFileHandle, what);
            return Err(EngineError::io("read", TAPE_DIR)(source));
        }
        let Whole { mut snapshot, place: read } = whole?;
        snapshot.come_after(&publisher.snapshot());
        publisher.replace(snapshot);
        *place = read;
        Ok(())
    }
}

/// Frames that were added to the tape.
struct Ahead<'a> {
    disk: &'a Arc<dyn Disk>,
    snapshot: Arc<Snapshot>,
    place: Option<Place>,
    /// There once there is a frame.
    replay: Option<Replay<Opening>>,
}

impl<'a> Ahead<'a> {
    fn new(disk: &'a Arc<dyn Disk>, snapshot: Arc<Snapshot>, place: Option<Place>) -> Self {
        Self { disk, snapshot, place, replay: None }
    }

    /// Replays what was added; `false` where everything is to be read anew.
    fn go(&mut self) -> Result<bool> {
        let segments = list_segments(self.disk.as_ref())?;
        let Some(place) = &self.place else { return Ok(segments.is_empty()) };
        let Ok(at) = segments.binary_search(&place.segment) else { return Ok(false) };
        // Rows that the writer has sealed and let go of need not stay in memory here.
        if self.snapshot.oldest_run().is_some_and(|oldest| oldest < segments[0]) {
            return Ok(false);
        }
        for (index, first) in segments.iter().enumerate().skip(at) {
            let newest = index + 1 == segments.len();
            let followed = if index == at { self.go_on(newest)? } else { self.begin(*first, newest)? };
            if !followed {
                return Ok(false);
            }
        }
        let complete = |replay: &Replay<Opening>| replay.unknown.is_empty() && replay.incomplete.is_empty();
        Ok(self.replay.as_ref().is_none_or(complete))
    }

    /// Goes on in the segment it was in.
    fn go_on(&mut self, newest: bool) -> Result<bool> {
        let Some(place) = &self.place else { return Ok(false) };
        let path = segment_path(place.segment);
        let read = self.disk.read_from(&path, place.last_at as u64);
        let bytes = read.map_err(EngineError::io("read", &path))?;
        let start = place.end - place.last_at;
        if bytes.len() < start || !bytes.starts_with(&place.last) {
            return Ok(false);
        }
        self.frames(&bytes, start, newest)
    }

    /// Begins the next segment.
    fn begin(&mut self, first: u64, newest: bool) -> Result<bool> {
        let segment = Segment::open(self.disk.as_ref(), first)?;
        if !segment.check_header(newest)? {
            // It is being begun.
            return Ok(true);
        }
        let position = self.place.as_ref().and_then(|place| place.position);
        self.place = Some(Place::after_header(&segment, first, position));
        self.frames(segment.contents(), SEGMENT_HEADER_BYTES, newest)
    }

    /// Replays the frames from byte `at` of some bytes on, which end where the segment does.
    fn frames(&mut self, bytes: &[u8], mut at: usize, newest: bool) -> Result<bool> {
        while at < bytes.len() {
            let frame = match read_frame(bytes, at) {
                Ok(frame) => frame,
                // It is being written.
                Err(broken) if newest && broken.extent.end > bytes.len() => return Ok(true),
                Err(_) => return Ok(false),
            };
            let Some(place) = &mut self.place else { return Ok(false) };
            let replay = self
                .replay
                .get_or_insert_with(|| Replay::going_on(self.disk, &self.snapshot, place.position));
            replay.frame(&place.segment, &frame)?;
            at += frame.size();
            if !replay.clean_close {
                place.pass(&frame);
            }
        }
        Ok(true)
    }
}

impl Replay<Opening> {
    /// Goes on with a state that was read up to this position of the tape.
    fn going_on(disk: &Arc<dyn Disk>, snapshot: &Snapshot, chain: Option<u64>) -> Self {
        Self { chain, ..Self::begin(disk, snapshot.clone(), snapshot.position(), Opening) }
    }

    /// Opens the parts of these tables.
    fn open_parts(&self, tables: &[u32]) -> Result<()> {
        let tables = tables.iter().filter_map(|id| self.snapshot.table_by_id(*id));
        tables.into_iter().try_for_each(|table| table.open_parts())
    }
}

/// Recovers without changing a file; starts again where the writer replaces files meanwhile.
///
/// # Errors
/// As [`Reader::open`].
pub(crate) fn read_only(disk: &Arc<dyn Disk>) -> Result<Snapshot> {
    read_whole(disk, &[]).map(|whole| whole.snapshot)
}

fn read_whole(disk: &Arc<dyn Disk>, opened: &[u32]) -> Result<Whole> {
    let mut cause = "its tape began elsewhere each time".to_string();
    let mut found_before = None;
    for tried in 0..TRIES {
        match try_whole(disk, opened) {
            Ok(Some(whole)) => return Ok(whole),
            Ok(None) => found_before = None,
            Err(error) if !may_pass(&error) => return Err(error),
            Err(error) => {
                let found = Some((error.to_string(), files_now(disk.as_ref()).ok()));
                if found == found_before && found.as_ref().is_some_and(|(_, files)| files.is_some()) {
                    return Err(error);
                }
                cause = error.to_string();
                found_before = found;
            }
        }
        std::thread::sleep(PAUSE_MAX.min(Duration::from_millis(1 << tried.min(10))));
    }
    Err(EngineError::Unsettled { tries: TRIES, cause })
}

/// Whether files that change may be why.
fn may_pass(error: &EngineError) -> bool {
    match error {
        EngineError::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
        EngineError::Damaged { .. } | EngineError::PartGone { .. } => true,
        _ => false,
    }
}

/// `None` where files were replaced meanwhile.
fn try_whole(disk: &Arc<dyn Disk>, opened: &[u32]) -> Result<Option<Whole>> {
    let under_way = Switch::load(disk.as_ref())?;
    let settled = switch::settled(disk)?;
    let found = TapeFound::look(settled.as_ref())?;
    found.check_complete()?;
    let begins = found.segments.first().copied();
    let mut replay = Replay::from_manifests(&settled)?;
    replay.open_parts(opened)?;
    let found = found.with(list_segments(settled.as_ref())?);
    let segments = &found.segments;
    if segments.first().copied() != begins {
        return Ok(None);
    }
    let mut place: Option<Place> = None;
    for (index, first) in segments.iter().enumerate() {
        let newest = index + 1 == segments.len();
        let segment = Segment::open(settled.as_ref(), *first)?;
        if segment.check_header(newest)? {
            let position = place.as_ref().and_then(|place| place.position);
            place = Some(Place::after_header(&segment, *first, position));
        }
        segment.read(newest, found.named.segment(*first), |frame| {
            replay.frame(first, frame)?;
            if !replay.clean_close
                && let Some(place) = &mut place
            {
                place.pass(frame);
            }
            Ok(())
        })?;
    }
    replay.check_reach(&found)?;
    // Those that frames brought, too.
    replay.open_parts(opened)?;
    let (mut snapshot, ..) = replay.finish()?;
    snapshot.let_go_of_retired();
    // Files seen through a switch are under other names once it is done.
    let place = place.filter(|_| under_way.is_none());
    let unchanged = Switch::load(disk.as_ref())? == under_way;
    Ok(unchanged.then_some(Whole { snapshot, place }))
}

/// Path, length, and what it ends with: manifests and symbol files have their checksums there.
type FileNow = (PathBuf, u64, Vec<u8>);

/// What tells whether files were replaced (the tape manifest is among those of the first folder): all but parts, and
/// how long segments of the tape are.
fn files_now(disk: &dyn Disk) -> Result<Vec<FileNow>> {
    const END_BYTES: u64 = 4;
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new(), PathBuf::from(TAPE_DIR)];
    folders.extend(list_tables(disk)?.into_iter().map(table_dir));
    for folder in folders {
        let entries = disk.list(&folder).map_err(EngineError::io("list", &folder))?;
        for entry in entries.into_iter().filter(|entry| !entry.is_dir) {
            let path = folder.join(entry.name);
            let grows = folder == Path::new(TAPE_DIR);
            let end = match grows {
                true => Vec::new(),
                // One that was removed meanwhile makes a difference, too.
                false => disk
                    .read_from(&path, entry.len.saturating_sub(END_BYTES))
                    .map_or_else(|_| Vec::new(), |bytes| bytes.to_vec()),
            };
            files.push((path, if grows { 0 } else { entry.len }, end));
        }
    }
    Ok(files)
}
