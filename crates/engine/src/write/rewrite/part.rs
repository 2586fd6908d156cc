//! One part under way: what is to be changed of it, and what it was written as meanwhile.
//!
//! Changes that take too much memory are written before the last of them is known. Whoever names more rows of
//! such a part still calls them by their numbers in the part that was found: here they are found again.

use super::edit::PartEdits;
use crate::Result;
use crate::store::snapshot::PartFile;
use arrow_array::{ArrayRef, UInt64Array};
use arrow_buffer::BooleanBufferBuilder;
use arrow_select::take::take;
use std::path::PathBuf;
use std::sync::Arc;

/// A part of which rows are changed.
#[derive(Debug)]
pub(super) struct ChangedPart {
    /// As it was found.
    found: Arc<PartFile>,
    /// What it was written as, if it was.
    came: Option<Came>,
    /// What is still to be written, by the rows of the newest file.
    edits: PartEdits,
    /// `None` once there was no room for them.
    marks: Option<Marks>,
    /// Rows changed of a part without marks.
    counted: u64,
}

/// What a part was written as.
#[derive(Debug)]
pub(super) enum Came {
    /// Nothing is left of it.
    Nothing,
    /// A file, which no frame names yet.
    File(PathBuf, Arc<PartFile>),
}

/// One bit for each row of the part as it was found.
#[derive(Debug)]
struct Marks {
    changed: BooleanBufferBuilder,
    /// Rows that the newest file lacks; `None` where it lacks none.
    lacking: Option<BooleanBufferBuilder>,
}

fn no_marks(rows: usize) -> BooleanBufferBuilder {
    let mut marks = BooleanBufferBuilder::new(rows);
    marks.append_n(rows, false);
    marks
}

impl ChangedPart {
    pub(super) fn new(found: Arc<PartFile>) -> Self {
        let rows = usize::try_from(found.entry.rows).unwrap_or(usize::MAX);
        let marks = Some(Marks { changed: no_marks(rows), lacking: None });
        Self { found, came: None, edits: PartEdits::new(rows), marks, counted: 0 }
    }

    /// Rows of the newest file.
    pub(super) fn rows(&self) -> usize {
        self.edits.rows()
    }

    /// Bytes of memory that changes take that are not written.
    pub(super) fn edit_bytes(&self) -> usize {
        self.edits.bytes()
    }

    /// Bytes of memory that marks take.
    pub(super) fn mark_bytes(&self) -> usize {
        let marks =
            |marks: &Marks| marks.changed.len().div_ceil(8) * (1 + usize::from(marks.lacking.is_some()));
        self.marks.as_ref().map_or(0, marks)
    }

    /// Whether more changes can be taken.
    pub(super) fn is_open(&self) -> bool {
        self.marks.is_some()
    }

    /// Rows changed so far.
    pub(super) fn changed_rows(&self) -> u64 {
        let marked =
            |marks: &Marks| (0..marks.changed.len()).filter(|row| marks.changed.get_bit(*row)).count() as u64;
        self.marks.as_ref().map_or(self.counted, marked)
    }

    /// Forgets which rows are which: no more changes can be taken.
    pub(super) fn close(&mut self) {
        self.counted = self.changed_rows();
        self.marks = None;
    }

    /// The part as it was found, and what it was written as, if it was.
    pub(super) fn files(&self) -> (&Arc<PartFile>, Option<&Came>) {
        (&self.found, self.came.as_ref())
    }

    /// Deletes rows.
    pub(super) fn delete(&mut self, rows: &[usize]) {
        let (_, rows) = self.mark(rows);
        self.edits.delete(&rows);
    }

    /// Gives rows other values in stored type, one each.
    ///
    /// # Errors
    /// Where Arrow refuses the values.
    pub(super) fn update(&mut self, rows: &[usize], column: usize, values: &ArrayRef) -> Result<()> {
        let (places, left) = self.mark(rows);
        if left.len() == rows.len() {
            return self.edits.update(&left, column, Arc::clone(values));
        }
        let places = UInt64Array::from_iter_values(places.into_iter().map(|place| place as u64));
        self.edits.update(&left, column, take(values, &places, None)?)
    }

    /// Notes that rows are changed; gives those that the newest file has, by their places among these and by their
    /// numbers in it.
    fn mark(&mut self, rows: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let Some(marks) = &mut self.marks else { return (Vec::new(), Vec::new()) };
        rows.iter().for_each(|row| marks.changed.set_bit(*row, true));
        let Some(lacking) = &marks.lacking else { return ((0..rows.len()).collect(), rows.to_vec()) };
        let (mut at, mut lacking_before) = (0, 0);
        let mut left = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for (place, row) in rows.iter().enumerate() {
            lacking_before += (at..*row).filter(|row| lacking.get_bit(*row)).count();
            at = *row;
            if !lacking.get_bit(*row) {
                left.0.push(place);
                left.1.push(*row - lacking_before);
            }
        }
        left
    }

    /// What is to be written, `None` where that is nothing; it counts as written from now on.
    pub(super) fn take_edits(&mut self) -> Option<PartEdits> {
        let rows = self.edits.rows();
        (!self.edits.is_empty()).then(|| std::mem::replace(&mut self.edits, PartEdits::new(rows)))
    }

    /// Notes what the newest file became with `edits`, and without the rows that are superseded (ascending); gives
    /// the file in whose place that came, where this rewrite had written it.
    pub(super) fn written(&mut self, edits: &PartEdits, superseded: &[u32], came: Came) -> Option<PathBuf> {
        if let Some(marks) = &mut self.marks {
            marks.note_lacking(edits, superseded);
        }
        let rows = match &came {
            Came::Nothing => 0,
            Came::File(_, file) => usize::try_from(file.entry.rows).unwrap_or(usize::MAX),
        };
        self.edits = PartEdits::new(rows);
        match self.came.replace(came) {
            Some(Came::File(path, _)) => Some(path),
            Some(Came::Nothing) | None => None,
        }
    }
}

impl Marks {
    /// Notes the rows that `edits`, by the rows of the file before, delete, and those superseded in it.
    fn note_lacking(&mut self, edits: &PartEdits, superseded: &[u32]) {
        if !edits.deletes_any() && superseded.is_empty() {
            return;
        }
        let rows = self.changed.len();
        let lacking = self.lacking.get_or_insert_with(|| no_marks(rows));
        let mut number = 0;
        for row in 0..rows {
            if !lacking.get_bit(row) {
                lacking.set_bit(row, edits.is_deleted(number));
                number += 1;
            }
        }
        superseded.iter().for_each(|row| lacking.set_bit(*row as usize, true));
    }
}
