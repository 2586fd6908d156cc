//! Rows of changes, as messages.

use super::messages::{Event, Message, instant};
use super::options::Slow;
use super::stages::{Passed, Stages, read};
use super::token::Token;
use super::{Subscription, Work};
use crate::error::{QueryError, Result, from_arrow};
use crate::live::{Item, What};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array, make_comparator};
use datafusion::arrow::compute::{SortOptions, concat, take, take_record_batch};
use datafusion::arrow::datatypes::UInt32Type;
use std::collections::HashMap;
use std::sync::Arc;
use tickstone_engine::{
    Difference, Happened, Heard, HeardRewrite, Segment, Selection, TableSnapshot, difference,
};
use tickstone_model::{NULL_SYMBOL, RowBatch};

/// Rows of a message at most.
const MESSAGE_ROWS: usize = 1 << 16;

/// The parts of a load that is being told.
#[derive(Debug)]
pub(super) struct Loading {
    position: u64,
    table: Arc<TableSnapshot>,
    segments: Vec<Segment>,
}

/// Columns of the table that rows are gathered in: `None` for those that are not read.
struct Gathered {
    columns: Vec<Option<Vec<ArrayRef>>>,
    rows: usize,
}

impl Gathered {
    fn new(places: &[Option<usize>]) -> Self {
        Self { columns: places.iter().map(|place| place.map(|_| Vec::new())).collect(), rows: 0 }
    }

    /// Adds rows of a piece.
    fn add(&mut self, piece: &RowBatch, places: &[Option<usize>], rows: &Picked<'_>) -> Result<()> {
        for (column, place) in self.columns.iter_mut().zip(places) {
            let (Some(column), Some(place)) = (column, place) else { continue };
            let values = &piece.columns()[*place];
            column.push(match rows {
                Picked::Range(from, count) => values.slice(*from, *count),
                Picked::Listed(rows) => take(values, rows, None).map_err(from_arrow)?,
            });
        }
        self.rows += match rows {
            Picked::Range(_, count) => *count,
            Picked::Listed(rows) => rows.len(),
        };
        Ok(())
    }

    fn finish(self) -> Result<(Vec<Option<ArrayRef>>, usize)> {
        let joined = |arrays: Vec<ArrayRef>| match arrays.as_slice() {
            [one] => Ok(Arc::clone(one)),
            _ => {
                let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
                concat(&arrays).map_err(from_arrow)
            }
        };
        let columns = self.columns.into_iter().map(|column| column.map(joined).transpose());
        Ok((columns.collect::<datafusion::common::Result<_>>()?, self.rows))
    }
}

/// That a table is none any more.
pub(super) fn gone(name: &str) -> QueryError {
    let error = QueryError::request(format!("table '{name}' was dropped, or replaced by another"));
    error.hint("subscribe anew where it is there again")
}

enum Picked<'a> {
    Range(usize, usize),
    Listed(&'a UInt32Array),
}

impl Subscription {
    /// Handles the change that is next, and the commits of rows right after it.
    pub(super) fn handle_rows(&mut self) -> Result<()> {
        let Some(Item { position, what: What::Change { heard, place, .. } }) = self.todo.front() else {
            return Ok(());
        };
        let (position, heard, place) = (*position, Arc::clone(heard), *place);
        match &heard.changes[place].what {
            Happened::Rows(_) => self.gather(),
            Happened::Loaded(table) => self.go_on_loading(position, table),
            Happened::Rewritten(rewrite) if self.options.changes => self.rewritten(position, rewrite),
            other => {
                self.todo.pop_front();
                self.at = Token { position, done: 0, ..self.at };
                self.heard_of_table(other)
            }
        }
    }

    /// What happened to the table as a whole.
    pub(super) fn heard_of_table(&mut self, what: &Happened) -> Result<()> {
        let table = self.work.table();
        let name = table.schema().name();
        match what {
            Happened::Truncated if self.options.changes => self.tell(Event::Truncate, None),
            Happened::PartitionsDropped(range) if self.options.changes => {
                let (from, to) = (instant(range.from), instant(range.to));
                let detail = format!("{{\"from\":\"{from}\",\"to\":\"{to}\"}}");
                self.tell(Event::DropPartitions, Some(detail));
            }
            Happened::Altered(schema) => {
                if let Work::Rows(stages) = &self.work {
                    stages.places(schema)?;
                }
            }
            Happened::Dropped => {
                return Err(gone(name));
            }
            _ => {}
        }
        Ok(())
    }

    /// One message of the rows of commits that are next.
    fn gather(&mut self) -> Result<()> {
        let Work::Rows(stages) = &self.work else { return Ok(()) };
        let mut gathered: Option<Gathered> = None;
        let mut last: Option<(Arc<Heard>, usize, Vec<Option<usize>>)> = None;
        let mut places: Option<(u32, Vec<Option<usize>>)> = None;
        while let Some(Item { position, what: What::Change { heard, place, rows: picked } }) =
            self.todo.front()
        {
            let Happened::Rows(rows) = &heard.changes[*place].what else { break };
            if *position <= self.at.position {
                self.todo.pop_front();
                continue;
            }
            let left = MESSAGE_ROWS - gathered.as_ref().map_or(0, |gathered| gathered.rows);
            let Some(first) = rows.pieces().first() else {
                self.at = Token { position: *position, done: 0, ..self.at };
                self.todo.pop_front();
                continue;
            };
            let version = first.schema().version();
            if places.as_ref().is_none_or(|(known, _)| *known != version) {
                places = Some((version, stages.places(first.schema())?));
            }
            let places = places.as_ref().map_or(&[][..], |(_, places)| places);
            let into = gathered.get_or_insert_with(|| Gathered::new(places));
            let mut done = usize::try_from(self.at.done).unwrap_or(usize::MAX);
            let (mut base, mut room, mut whole) = (0, left, true);
            for (number, piece) in rows.pieces().iter().enumerate() {
                let end = base + piece.rows();
                if done < end {
                    let from = done - base;
                    match picked {
                        None => {
                            let count = (piece.rows() - from).min(room);
                            into.add(piece, places, &Picked::Range(from, count))?;
                            (room, done) = (room - count, done + count);
                        }
                        Some(picked) => {
                            let wanted = picked[number].iter().copied().filter(|row| *row as usize >= from);
                            let listed: UInt32Array = wanted.take(room).collect::<Vec<_>>().into();
                            let more = picked[number]
                                .last()
                                .is_some_and(|last| listed.values().last() != Some(last));
                            into.add(piece, places, &Picked::Listed(&listed))?;
                            room -= listed.len();
                            done = match (more, listed.values().last()) {
                                (true, Some(last)) => base + *last as usize + 1,
                                (true, None) => done,
                                (false, _) => end,
                            };
                        }
                    }
                    if done < end {
                        whole = false;
                        break;
                    }
                }
                base = end;
            }
            last = Some((Arc::clone(heard), *place, places.to_vec()));
            if !whole {
                self.at = within(self.at, *position, done as u64);
                break;
            }
            self.at = Token { position: *position, done: 0, ..self.at };
            self.todo.pop_front();
        }
        let (Some(gathered), Some((heard, place, places))) = (gathered, last) else { return Ok(()) };
        let Happened::Rows(rows) = &heard.changes[place].what else { return Ok(()) };
        let (columns, count) = gathered.finish()?;
        if count == 0 {
            return Ok(());
        }
        let keys = self.conflating.then(|| series_of(stages, &columns));
        let passed = stages.pass(columns, count, |index| rows.dictionary(places[index]?))?;
        self.give(passed, keys.as_deref())
    }

    /// Gives rows that were inserted.
    fn give(&mut self, passed: Passed, keys: Option<&[ArrayRef]>) -> Result<()> {
        let mut rows = passed.rows;
        if let Some(keys) = keys {
            let newest = newest_of_each(&passed.numbers, keys);
            let left_out = rows.num_rows() - newest.len();
            if left_out > 0 {
                rows = take_record_batch(&rows, &newest).map_err(from_arrow)?;
                let detail = format!("{{\"rows\":{left_out}}}");
                // Who resumes after it must hear the rows behind it.
                self.out.push_back(Message::untimely(Event::Conflated, Some(detail)));
            }
        }
        if rows.num_rows() > 0 {
            self.out.push_back(Message::rows(Event::Insert, Some(self.at), rows));
        }
        Ok(())
    }

    /// One message of the rows of a load.
    fn go_on_loading(&mut self, position: u64, table: &Arc<TableSnapshot>) -> Result<()> {
        let Work::Rows(stages) = &self.work else { return Ok(()) };
        if self.loading.as_ref().is_none_or(|loading| loading.position != position) {
            let segments = table.select(&Selection::default())?;
            self.loading = Some(Loading { position, table: Arc::clone(table), segments });
        }
        let Some(loading) = &self.loading else { return Ok(()) };
        let mut skip = usize::try_from(self.at.done).unwrap_or(usize::MAX);
        let found = loading.segments.iter().find(|segment| {
            let here = skip < segment.row_count();
            skip -= if here { 0 } else { segment.row_count() };
            here
        });
        let Some(segment) = found else {
            self.at = Token { position, done: 0, ..self.at };
            self.loading = None;
            self.todo.pop_front();
            return Ok(());
        };
        let (mut ranges, mut rows) = (Vec::new(), 0);
        for range in segment.rows() {
            let from = skip.min(range.len());
            skip -= from;
            let count = (range.len() - from).min(MESSAGE_ROWS - rows);
            if count > 0 {
                ranges.push(range.start + from..range.start + from + count);
                rows += count;
            }
        }
        let places = stages.places(loading.table.schema())?;
        let columns =
            places.iter().map(|place| read(segment, *place, &ranges)).collect::<Result<Vec<_>>>()?;
        let passed = stages.pass(columns, rows, |index| loading.table.dictionary(places[index]?))?;
        self.at = within(self.at, position, self.at.done + rows as u64);
        self.give(passed, None)
    }

    /// The messages of one part of a rewrite: rows that are gone, that came within the condition, that changed.
    fn rewritten(&mut self, position: u64, rewrite: &HeardRewrite) -> Result<()> {
        const KINDS: [Event; 3] = [Event::Delete, Event::Insert, Event::Update];
        let (place, told) = ((self.at.done >> 32) as usize, self.at.done & u64::from(u32::MAX));
        let Work::Rows(stages) = &self.work else { return Ok(()) };
        let Some((gone, _)) = rewrite.parts().nth(place) else {
            self.todo.pop_front();
            self.at = Token { position, done: 0, ..self.at };
            return Ok(());
        };
        let places = stages.places(gone.schema())?;
        let pass = |batch: &RowBatch| -> Result<Passed> {
            let columns = places.iter().map(|place| place.map(|place| Arc::clone(&batch.columns()[place])));
            stages.pass(columns.collect(), batch.rows(), |index| gone.dictionary(places[index]?))
        };
        let mut messages: Vec<(Event, RecordBatch)> = Vec::new();
        let mut failed: Option<QueryError> = None;
        difference(rewrite, place, |found| {
            let mut kinds: [Vec<RecordBatch>; 3] = Default::default();
            if failed.is_none()
                && let Err(error) = sort_out(&found, &pass, &mut kinds)
            {
                failed = Some(error);
            }
            for (event, batches) in KINDS.into_iter().zip(kinds) {
                messages.extend(batches.into_iter().map(|rows| (event, rows)));
            }
            Ok(())
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        for (number, (event, rows)) in (1..).zip(messages) {
            if number > told {
                self.at = within(self.at, position, ((place as u64) << 32) + number);
                self.out.push_back(Message::rows(event, Some(self.at), rows));
            }
        }
        self.at = within(self.at, position, (place as u64 + 1) << 32);
        Ok(())
    }
}

/// In the midst of the change at `position`, of which so much was told: whatever of other tables, or of other symbols,
/// is before it counts as heard.
fn within(at: Token, position: u64, done: u64) -> Token {
    Token { position: position.saturating_sub(1), done, ..at }
}

/// Sorts the rows of a difference into those that are gone, came, and changed, as the condition has it.
fn sort_out(
    difference: &Difference,
    pass: &dyn Fn(&RowBatch) -> Result<Passed>,
    [deleted, inserted, updated]: &mut [Vec<RecordBatch>; 3],
) -> Result<()> {
    let put = |into: &mut Vec<RecordBatch>, rows: RecordBatch| {
        if rows.num_rows() > 0 {
            into.push(rows);
        }
    };
    put(deleted, pass(&difference.deleted)?.rows);
    if difference.updated.after.rows() == 0 {
        return Ok(());
    }
    let (before, after) = (pass(&difference.updated.before)?, pass(&difference.updated.after)?);
    let within = |passed: &Passed, other: &Passed, both: bool| -> Result<RecordBatch> {
        let other = other.numbers.values();
        let places = passed.numbers.values().iter().enumerate();
        let places = places.filter(|(_, number)| other.binary_search(number).is_ok() == both);
        let places: UInt32Array = places.map(|(place, _)| u32::try_from(place).unwrap_or(u32::MAX)).collect();
        Ok(take_record_batch(&passed.rows, &places).map_err(from_arrow)?)
    };
    put(deleted, within(&before, &after, false)?);
    put(inserted, within(&after, &before, false)?);
    put(updated, those_that_differ(&within(&before, &after, true)?, &within(&after, &before, true)?)?);
    Ok(())
}

/// The rows of `after` that are other than those of `before` in their places. Changes of columns that a subscriber does not
/// read, and may not know of, are none of theirs.
fn those_that_differ(before: &RecordBatch, after: &RecordBatch) -> Result<RecordBatch> {
    let compared = before.columns().iter().zip(after.columns());
    let compared = compared.map(|(before, after)| make_comparator(before, after, SortOptions::default()));
    let compared = compared.collect::<std::result::Result<Vec<_>, _>>().map_err(from_arrow)?;
    let differs = |row: &usize| compared.iter().any(|of| of(*row, *row).is_ne());
    let places = (0..after.num_rows()).filter(differs).map(|row| u32::try_from(row).unwrap_or(u32::MAX));
    Ok(take_record_batch(after, &UInt32Array::from_iter_values(places)).map_err(from_arrow)?)
}

/// The series columns of gathered rows.
fn series_of(stages: &Stages, columns: &[Option<ArrayRef>]) -> Vec<ArrayRef> {
    let series = stages.table().schema().series();
    series.iter().filter_map(|column| columns[*column].as_ref().map(Arc::clone)).collect()
}

/// The places, ascending, of the last row of each series among rows with these numbers.
fn newest_of_each(numbers: &UInt32Array, keys: &[ArrayRef]) -> UInt32Array {
    let keys: Vec<&UInt32Array> = keys.iter().map(|key| key.as_primitive::<UInt32Type>()).collect();
    let mut last: HashMap<Vec<u32>, u32> = HashMap::new();
    for (place, number) in numbers.values().iter().enumerate() {
        let row = *number as usize;
        let id = |key: &&UInt32Array| if key.is_null(row) { NULL_SYMBOL } else { key.value(row) };
        last.insert(keys.iter().map(id).collect(), u32::try_from(place).unwrap_or(u32::MAX));
    }
    let mut places: Vec<u32> = last.into_values().collect();
    places.sort_unstable();
    places.into()
}

impl Stages {
    /// The same, which also reads what tells series apart.
    pub(super) fn for_slow(mut self, slow: Slow) -> Self {
        if slow == Slow::Conflate {
            self.read_series();
        }
        self
    }
}
