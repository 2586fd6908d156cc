//! Arrays under construction, from JSON text.

use super::{ColumnBuilder, Values};
use crate::ndjson::token::{Items, Value, unescape};
use crate::{ColumnPlan, Fault};
use arrow_array::{ArrayRef, ListArray};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use std::sync::Arc;
use tickstone_model::{ColumnType, ElementType};

/// Arrays, their elements one behind the other.
#[derive(Debug)]
pub(super) struct Lists {
    element: ElementType,
    elements: Box<ColumnBuilder>,
    pub(super) ends: Vec<i32>,
    unescaped: Vec<u8>,
}

impl Lists {
    /// Arrays of `element`, whose timestamps are written as the plan says.
    pub(super) fn new(element: ElementType, plan: &ColumnPlan) -> Self {
        let plan = ColumnPlan { column_type: element.into(), required: false, ..plan.clone() };
        let elements = Box::new(ColumnBuilder::new(&plan));
        Self { element, elements, ends: Vec::new(), unescaped: Vec::new() }
    }

    /// Ends a row.
    pub(super) fn push(&mut self) {
        // A chunk is at most a few MB of text, and an element takes a byte of it.
        self.ends.push(i32::try_from(self.elements.len()).unwrap_or(i32::MAX));
    }

    pub(super) fn reserve(&mut self, rows: usize) {
        self.ends.reserve(rows);
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.elements.truncate(self.held());
    }

    /// Elements of whole rows.
    fn held(&self) -> usize {
        self.ends.last().map_or(0, |end| usize::try_from(*end).unwrap_or(0))
    }

    /// Adds a JSON array; `None`, and nothing added, where the text is something else, or an element does not fit.
    pub(super) fn push_json(&mut self, text: &[u8]) -> Option<()> {
        let added = self.push_items(text);
        match added {
            Some(()) => self.push(),
            None => self.elements.truncate(self.held()),
        }
        added
    }

    /// Adds an array of little-endian doubles; `conflict` where the elements are something else.
    pub(super) fn push_doubles(&mut self, bytes: &[u8], conflict: Fault) -> Result<(), Fault> {
        let doubles = bytes.as_chunks::<8>().0.iter().map(|double| f64::from_le_bytes(*double));
        match &mut self.elements.values {
            Values::Float64(elements) => elements.extend(doubles),
            Values::Float32(elements) => {
                if doubles.clone().any(|double| double.is_finite() && !(double as f32).is_finite()) {
                    return Err(Fault::OutOfRange { wanted: ColumnType::Float32, fits: ColumnType::Float64 });
                }
                elements.extend(doubles.map(|double| double as f32));
            }
            _ => return Err(conflict),
        }
        self.push();
        Ok(())
    }

    fn push_items(&mut self, text: &[u8]) -> Option<()> {
        let mut items = Items::open(text).ok()?;
        while let Some(item) = items.item().ok()? {
            let pushed = match item {
                Value::Null => self.elements.push_null(),
                Value::Plain(token) => self.elements.push_token(token),
                Value::Text(text) if !text.escaped => self.elements.push(text.raw),
                Value::Text(text) => {
                    unescape(text.raw, &mut self.unescaped).then_some(())?;
                    self.elements.push(&self.unescaped)
                }
                Value::Nested(_) => return None,
            };
            pushed.ok()?;
        }
        Some(())
    }

    /// The arrays so far; nothing is left.
    pub(super) fn finish(&mut self, nulls: Option<NullBuffer>) -> ArrayRef {
        let ends = std::mem::take(&mut self.ends);
        let offsets: Vec<i32> = std::iter::once(0).chain(ends).collect();
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Arc::new(ListArray::new(self.element.field(), offsets, self.elements.finish(), nulls))
    }
}
