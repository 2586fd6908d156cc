//! The feed: the newest changes, kept in memory while somebody follows them, and the parts that older ones name.
//!
//! Who follows has a place in the tape. What came since is here, or, where it is not any more, in the frames of the
//! tape ([`crate::follow`]): nobody who is slow keeps memory, and no writer waits for him.
//!
//! Invariants:
//! - a change is here before its frame is acknowledged, in the order of the tape;
//! - the parts that a load or a rewrite named stay, also merged or rewritten, while their age, and the bytes of those
//!   that no table has any more, are within what is kept, and their table is there; whose parts went is known.

use crate::lock::lock;
use crate::store::dictionary::Dictionary;
use crate::store::history::fit_rows;
use crate::store::snapshot::{Effect, HeldPart, RowsEffect, Snapshot, TableSnapshot};
use crate::tape::change::RewrittenPart;
use crate::tape::writer::Written;
use arrow_array::ArrayRef;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tickstone_model::{RowBatch, TableSchema, TimeRange};

/// Most partitions that were sealed and nobody was told of yet.
const SEALED_MAX: usize = 4096;

/// One frame of the tape, as those who follow hear it.
#[derive(Debug, Clone)]
pub struct Heard {
    /// Its position in the tape.
    pub position: u64,
    /// When it was received (ns since the Unix epoch).
    pub received_ns: i64,
    /// What it did, table by table.
    pub changes: Vec<TableChange>,
}

/// What a frame did to one table.
#[derive(Debug, Clone)]
pub struct TableChange {
    /// The table's number.
    pub table: u32,
    /// What happened.
    pub what: Happened,
}

/// What can happen to a table.
#[derive(Debug, Clone)]
pub enum Happened {
    /// Rows were committed; of those that replace others (DEDUP UPSERT KEYS) the new ones.
    Rows(HeardRows),
    /// A bulk load joined the table: its rows, as a table of no others.
    Loaded(Arc<TableSnapshot>),
    /// DELETE or UPDATE.
    Rewritten(HeardRewrite),
    /// All rows are gone.
    Truncated,
    /// The partitions that lie whole in this range are gone.
    PartitionsDropped(TimeRange),
    /// It has this shape from here on.
    Altered(Arc<TableSchema>),
    /// It is gone, or another has its place.
    Dropped,
}

/// The rows of one table in a commit, in order of time, ties as they came.
#[derive(Debug, Clone)]
pub struct HeardRows {
    dictionaries: Arc<[Option<Arc<Dictionary>>]>,
    pieces: Vec<RowBatch>,
}

impl HeardRows {
    pub(crate) fn new(table: &TableSnapshot, pieces: Vec<RowBatch>) -> Self {
        // A shape that the table has by now: the dictionaries are those of its columns.
        let pieces = pieces.into_iter().map(|piece| fit(piece, &table.schema)).collect();
        Self { dictionaries: Arc::clone(&table.dictionaries), pieces }
    }

    /// In stored types, by partition.
    pub fn pieces(&self) -> &[RowBatch] {
        &self.pieces
    }

    /// The strings of a SYMBOL column of the pieces' schema.
    pub fn dictionary(&self, column: usize) -> Option<&Arc<Dictionary>> {
        self.dictionaries.get(column)?.as_ref()
    }

    /// How many.
    pub fn rows(&self) -> usize {
        self.pieces.iter().map(RowBatch::rows).sum()
    }

    /// Bytes of their values in memory.
    pub fn bytes(&self) -> usize {
        let columns = self.pieces.iter().flat_map(RowBatch::columns);
        columns.map(|column: &ArrayRef| tickstone_model::values_bytes(column)).sum()
    }
}

fn fit(piece: RowBatch, schema: &Arc<TableSchema>) -> RowBatch {
    if piece.schema().version() == schema.version() { piece } else { fit_rows(&piece, schema) }
}

/// Parts before a rewrite and after it.
#[derive(Debug, Clone)]
pub struct HeardRewrite {
    pub(crate) parts: Vec<(Arc<TableSnapshot>, Option<Arc<TableSnapshot>>)>,
}

impl HeardRewrite {
    /// The tables of the parts before and after, which are read as any other.
    pub fn parts(&self) -> impl Iterator<Item = (&Arc<TableSnapshot>, Option<&Arc<TableSnapshot>>)> {
        self.parts.iter().map(|(gone, came)| (gone, came.as_ref()))
    }
}

/// A partition whose rows went from memory into a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedPartition {
    /// The table's number.
    pub table: u32,
    /// The partition's time window.
    pub partition: TimeRange,
    /// Rows of the part.
    pub rows: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Feed {
    followers: AtomicUsize,
    bytes_max: usize,
    /// Bytes of tape, and of parts that no table has any more, that stay for those who follow.
    keep_bytes: AtomicU64,
    /// How long they stay (ns).
    keep_age_ns: AtomicU64,
    now: Mutex<Now>,
}

#[derive(Debug, Default)]
struct Now {
    /// Every change after this position is in `heard`, while somebody follows.
    since: u64,
    heard: VecDeque<(Arc<Heard>, usize)>,
    bytes: usize,
    sealed: VecDeque<(u64, SealedPartition)>,
    seals: u64,
    /// By position of their frame, with when that was received.
    pinned: BTreeMap<u64, (i64, Vec<HeldPart>)>,
    /// Parts of frames up to here may be gone.
    unpinned: u64,
}

/// What newer changes pushed out of the feed.
#[derive(Debug, Default)]
pub(crate) struct PushedOut {
    heard: Vec<Arc<Heard>>,
    parts: Vec<(i64, Vec<HeldPart>)>,
}

impl PushedOut {
    /// Lets go of it.
    pub(crate) fn let_go(self) {
        drop((self.heard, self.parts));
    }
}

/// What a change will have done, seen before it is applied: parts that it takes out are still there.
pub(crate) struct Coming {
    position: u64,
    received_ns: i64,
    changes: Vec<(u32, Expected)>,
}

enum Expected {
    Rows(Vec<RowBatch>),
    Load(Vec<(i64, String)>),
    Rewrite(Vec<(HeldPart, Option<(i64, String)>)>),
    Known(Happened),
}

impl Feed {
    /// Keeps up to so many bytes of changes while somebody follows, and so many of parts.
    pub(crate) fn new(bytes_max: usize, keep_bytes: u64, keep_age: Duration) -> Self {
        let (keep_bytes, keep_age_ns) = (AtomicU64::new(keep_bytes), AtomicU64::new(nanos(keep_age)));
        Self { followers: AtomicUsize::new(0), bytes_max, keep_bytes, keep_age_ns, now: Mutex::default() }
    }

    /// Says how much is kept, and how long.
    pub(crate) fn keep(&self, bytes: u64, age: Duration) {
        self.keep_bytes.store(bytes, Ordering::Relaxed);
        self.keep_age_ns.store(nanos(age), Ordering::Relaxed);
    }

    /// How many bytes are kept, and how long (ns).
    pub(crate) fn kept(&self) -> (u64, u64) {
        (self.keep_bytes.load(Ordering::Relaxed), self.keep_age_ns.load(Ordering::Relaxed))
    }

    /// Whether a change is to be shown to the feed.
    fn wants(&self, effect: &Effect) -> bool {
        // Parts are pinned, and go with their table, also while nobody follows: he may come back.
        let names_parts = matches!(
            effect,
            Effect::Load { .. } | Effect::Rewrite { .. } | Effect::Drop { .. } | Effect::Replace { .. }
        );
        self.kept().0 > 0 && names_parts || self.followers.load(Ordering::Relaxed) > 0
    }

    /// Looks at a change before it is applied to `snapshot`.
    pub(crate) fn coming(&self, snapshot: &Snapshot, written: &Written<Effect>) -> Option<Coming> {
        if !self.wants(&written.effect) {
            return None;
        }
        let known = |table: u32, what| vec![(table, Expected::Known(what))];
        let changes = match &written.effect {
            Effect::Rows(tables) => {
                let rows = |rows: &RowsEffect| {
                    let pieces = rows.pieces.iter().map(|(_, batch)| batch.clone()).collect();
                    (rows.table, Expected::Rows(pieces))
                };
                tables.iter().map(rows).collect()
            }
            Effect::Load { table, load } => {
                let files = load.parts.iter().map(|part| (part.partition, part.file.clone())).collect();
                vec![(*table, Expected::Load(files))]
            }
            Effect::Rewrite { table, parts, .. } => {
                let of = snapshot.table_by_id(*table);
                let gone =
                    parts.iter().filter_map(|part| Some((of?.held_part(part.partition, &part.gone)?, part)));
                let came =
                    |part: &RewrittenPart| part.came.as_ref().map(|came| (came.partition, came.file.clone()));
                vec![(*table, Expected::Rewrite(gone.map(|(gone, part)| (gone, came(part))).collect()))]
            }
            Effect::Truncate { table } => known(*table, Happened::Truncated),
            Effect::DropPartitions { table, range, .. } => known(*table, Happened::PartitionsDropped(*range)),
            Effect::Alter { table, schema } => known(*table, Happened::Altered(Arc::clone(schema))),
            Effect::Drop { table } => known(*table, Happened::Dropped),
            Effect::Replace { table, schema, replaced } => {
                let gone = replaced.iter().map(|table| (*table, Expected::Known(Happened::Dropped)));
                let altered = schema.iter().map(|schema| (*table, Happened::Altered(Arc::clone(schema))));
                gone.chain(altered.map(|(table, what)| (table, Expected::Known(what)))).collect()
            }
            Effect::Create(_) | Effect::Refresh { .. } | Effect::Nothing => Vec::new(),
        };
        Some(Coming { position: written.position, received_ns: written.received_ns, changes })
    }

    /// Takes changes that were applied, which made `snapshot`.
    ///
    /// What they push out is given back: files go with it, for which nobody should wait.
    pub(crate) fn push(&self, snapshot: &Snapshot, came: Vec<Coming>) -> PushedOut {
        let mut out = PushedOut::default();
        if came.is_empty() {
            return out;
        }
        let mut now = lock(&self.now);
        for coming in came {
            let position = coming.position;
            let mut pinned = Vec::new();
            let mut bytes = 128;
            let changes = coming.changes.into_iter().filter_map(|(id, expected)| {
                let table = snapshot.table_by_id(id);
                let what = match expected {
                    Expected::Known(what) => what,
                    Expected::Rows(pieces) => {
                        let rows = HeardRows::new(table?, pieces);
                        bytes += rows.bytes();
                        Happened::Rows(rows)
                    }
                    Expected::Load(files) => {
                        let table = table?;
                        let named = |(partition, file): (i64, String)| table.held_part(partition, &file);
                        let parts: Vec<_> = files.into_iter().filter_map(named).collect();
                        pinned.extend(parts.iter().cloned());
                        Happened::Loaded(table.of_parts(parts))
                    }
                    Expected::Rewrite(parts) => {
                        let table = table?;
                        let mut pairs = Vec::with_capacity(parts.len());
                        for (gone, came) in parts {
                            let came = came.and_then(|(partition, file)| table.held_part(partition, &file));
                            pinned.extend([Some(gone.clone()), came.clone()].into_iter().flatten());
                            pairs.push((table.of_parts([gone]), came.map(|came| table.of_parts([came]))));
                        }
                        Happened::Rewritten(HeardRewrite { parts: pairs })
                    }
                };
                Some(TableChange { table: id, what })
            });
            let changes: Vec<TableChange> = changes.collect();
            for change in changes.iter().filter(|change| matches!(change.what, Happened::Dropped)) {
                // A part keeps the folder of its table.
                let of_table = |_: &u64, (_, parts): &mut (i64, Vec<HeldPart>)| {
                    parts.first().is_some_and(|held| held.part.table() == change.table)
                };
                out.parts.extend(now.pinned.extract_if(.., of_table).map(|(_, parts)| parts));
            }
            if !pinned.is_empty() {
                now.pinned.insert(position, (coming.received_ns, pinned));
            }
            if self.followers.load(Ordering::Relaxed) > 0 {
                let heard = Heard { position, received_ns: coming.received_ns, changes };
                now.bytes += bytes;
                now.heard.push_back((Arc::new(heard), bytes));
            }
        }
        while now.bytes > self.bytes_max
            && let Some((oldest, bytes)) = now.heard.pop_front()
        {
            now.bytes -= bytes;
            now.since = oldest.position;
            out.heard.push(oldest);
        }
        out
    }

    /// One more who follows; `position` is that of the snapshot, which nobody changes meanwhile.
    pub(crate) fn follow(&self, position: u64) {
        let mut now = lock(&self.now);
        if self.followers.fetch_add(1, Ordering::Relaxed) == 0 {
            (now.since, now.bytes) = (position, 0);
            now.heard.clear();
        }
    }

    /// One less.
    pub(crate) fn unfollow(&self) {
        let mut now = lock(&self.now);
        if self.followers.fetch_sub(1, Ordering::Relaxed) == 1 {
            now.heard.clear();
            now.bytes = 0;
        }
    }

    /// The changes after one position up to another; `None` where the first of them are not here any more.
    pub(crate) fn between(&self, after: u64, to: u64) -> Option<Vec<Arc<Heard>>> {
        let now = lock(&self.now);
        if after < now.since || self.followers.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let start = now.heard.partition_point(|(heard, _)| heard.position <= after);
        let end = now.heard.partition_point(|(heard, _)| heard.position <= to);
        Some(now.heard.range(start..end.max(start)).map(|(heard, _)| Arc::clone(heard)).collect())
    }

    /// Notes that rows of a partition were sealed.
    pub(crate) fn note_sealed(&self, sealed: SealedPartition) {
        if self.followers.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut now = lock(&self.now);
        now.seals += 1;
        let number = now.seals;
        now.sealed.push_back((number, sealed));
        if now.sealed.len() > SEALED_MAX {
            now.sealed.pop_front();
        }
    }

    /// The partitions that were sealed after number `after`, and the number of the last.
    pub(crate) fn sealed_since(&self, after: u64) -> (Vec<SealedPartition>, u64) {
        let now = lock(&self.now);
        let newer = now.sealed.iter().filter(|(number, _)| *number > after);
        (newer.map(|(_, sealed)| sealed.clone()).collect(), now.seals)
    }

    /// Keeps parts of the frame at `position`, which are in the table.
    pub(crate) fn pin(&self, position: u64, received_ns: i64, parts: Vec<HeldPart>) {
        if !parts.is_empty() {
            lock(&self.now).pinned.insert(position, (received_ns, parts));
        }
    }

    /// The part of this name that the frame at `position` is to find.
    pub(crate) fn pinned(&self, position: u64, file: &str) -> Option<HeldPart> {
        let now = lock(&self.now);
        now.pinned.get(&position)?.1.iter().find(|held| held.part.entry.file == file).cloned()
    }

    /// Bytes of pinned parts that no table has any more, by the position of their frame.
    pub(crate) fn pinned_bytes(&self) -> Vec<(u64, u64)> {
        let now = lock(&self.now);
        let left = |parts: &Vec<HeldPart>| {
            parts.iter().filter(|held| held.part.is_doomed()).map(|held| held.part.entry.file_bytes).sum()
        };
        now.pinned.iter().map(|(position, (_, parts))| (*position, left(parts))).collect()
    }

    /// Lets go of the oldest parts: of those past the age that is kept, and where those that no table has any more are
    /// more than is kept.
    pub(crate) fn trim(&self, now_ns: i64) {
        let (keep_bytes, keep_age_ns) = self.kept();
        let oldest_ns = now_ns.saturating_sub(i64::try_from(keep_age_ns).unwrap_or(i64::MAX));
        let past_age = {
            let now = lock(&self.now);
            let past = now.pinned.iter().take_while(|(_, (received_ns, _))| *received_ns < oldest_ns);
            past.last().map(|(position, _)| *position)
        };
        if let Some(position) = past_age {
            self.unpin(position);
        }
        let pinned = self.pinned_bytes();
        let mut bytes: u64 = pinned.iter().map(|(_, bytes)| bytes).sum();
        for (position, of_frame) in pinned {
            if bytes <= keep_bytes {
                return;
            }
            self.unpin(position);
            bytes -= of_frame;
        }
    }

    /// Lets go of the parts of frames up to `position`.
    pub(crate) fn unpin(&self, position: u64) {
        let mut now = lock(&self.now);
        let later = now.pinned.split_off(&position.saturating_add(1));
        let gone = std::mem::replace(&mut now.pinned, later);
        if !gone.is_empty() {
            now.unpinned = now.unpinned.max(position);
        }
        // Changes in memory hold them, too.
        let mut out = Vec::new();
        if !gone.is_empty() {
            while let Some((oldest, bytes)) = now.heard.pop_front_if(|(heard, _)| heard.position <= position)
            {
                now.bytes -= bytes;
                now.since = oldest.position;
                out.push(oldest);
            }
        }
        drop(now);
        // Files go outside the lock.
        drop((gone, out));
    }

    /// The last position up to which parts that frames name may be gone.
    pub(crate) fn unpinned(&self) -> u64 {
        lock(&self.now).unpinned
    }

    /// Notes that parts of the frame at `position` are gone.
    pub(crate) fn note_unpinned(&self, position: u64) {
        let mut now = lock(&self.now);
        now.unpinned = now.unpinned.max(position);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
