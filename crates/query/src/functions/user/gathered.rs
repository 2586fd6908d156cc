//! Aggregates of all values of a group: they are kept as they come, side by side, until it is finished.
//!
//! What is kept counts against the memory of queries: eight bytes and the values for each row. `ORDER BY` in the call
//! is done here, when a group is finished: its columns come after the arguments.

use super::Function;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, LargeListArray, UInt64Array, new_empty_array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{SortColumn, SortOptions, concat, filter, lexsort_to_indices, take};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use std::ops::Range;
use std::sync::Arc;

/// The type of the state of an argument: its values of a group.
pub(in crate::functions) fn list_of(data_type: &DataType) -> DataType {
    DataType::LargeList(Arc::new(Field::new_list_field(data_type.clone(), true)))
}

/// What is gathered for a function.
#[derive(Debug)]
pub(super) struct Gathering {
    function: Arc<Function>,
    /// Those of the arguments, then those of ORDER BY.
    types: Vec<DataType>,
    order: Vec<SortOptions>,
}

impl Gathering {
    pub(super) fn new(function: &Arc<Function>, order: Vec<(DataType, SortOptions)>) -> Self {
        let mut types = function.signature.parameters().to_vec();
        types.extend(order.iter().map(|(data_type, _)| data_type.clone()));
        let order = order.into_iter().map(|(_, options)| options).collect();
        Self { function: Arc::clone(function), types, order }
    }

    fn arguments(&self) -> usize {
        self.types.len() - self.order.len()
    }

    /// The rows that count; `None` where all do.
    fn counted(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Option<BooleanArray> {
        let held = filter.map(|filter| match filter.nulls() {
            Some(nulls) => filter.values() & nulls.inner(),
            None => filter.values().clone(),
        });
        let counted = self.function.counted(&values[..self.arguments()]).map(|nulls| nulls.inner().clone());
        let both = held.into_iter().chain(counted).reduce(|a, b| &a & &b)?;
        Some(BooleanArray::new(both, None))
    }

    /// The chunks of each column as one array.
    fn joined(&self, columns: &[Vec<ArrayRef>]) -> Result<Vec<ArrayRef>> {
        let one = |(chunks, data_type): (&Vec<ArrayRef>, &DataType)| match chunks.as_slice() {
            [] => Ok(new_empty_array(data_type)),
            [only] => Ok(Arc::clone(only)),
            chunks => Ok(concat(&chunks.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?),
        };
        columns.iter().zip(&self.types).map(one).collect()
    }

    /// The places of rows by group, then as ORDER BY says, then as they came; `None` where they are so.
    fn sorted(&self, columns: &[ArrayRef], groups: &[usize]) -> Result<Option<UInt64Array>> {
        if self.order.is_empty() {
            if groups.is_sorted() {
                return Ok(None);
            }
            let mut places: Vec<u64> = (0..groups.len() as u64).collect();
            places.sort_by_key(|place| groups[*place as usize]);
            return Ok(Some(places.into()));
        }
        let ascending = |values: Vec<u64>| SortColumn {
            values: Arc::new(UInt64Array::from(values)),
            options: Some(SortOptions { descending: false, nulls_first: false }),
        };
        let mut by = vec![ascending(groups.iter().map(|group| *group as u64).collect())];
        by.extend(
            columns[self.arguments()..]
                .iter()
                .zip(&self.order)
                .map(|(values, options)| SortColumn { values: Arc::clone(values), options: Some(*options) }),
        );
        by.push(ascending((0..groups.len() as u64).collect()));
        let places = lexsort_to_indices(&by, None)?;
        Ok(Some(places.values().iter().map(|place| u64::from(*place)).collect()))
    }
}

/// The column of a state as a list a group.
pub(in crate::functions) fn listed(values: ArrayRef, groups: &[Range<usize>]) -> Result<ArrayRef> {
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let offsets = OffsetBuffer::<i64>::from_lengths(groups.iter().map(Range::len));
    Ok(Arc::new(LargeListArray::try_new(field, offsets, values, None)?))
}

/// The values of all lists of a state, and how many there are in each.
pub(in crate::functions) fn unlisted(state: &ArrayRef) -> Result<(ArrayRef, Vec<usize>)> {
    let Some(lists) = state.as_list_opt::<i64>() else {
        return internal_err!("a state is {}, not a list", state.data_type());
    };
    let offsets = lists.value_offsets();
    let (from, to) = (offsets[0] as usize, offsets[offsets.len() - 1] as usize);
    Ok((lists.values().slice(from, to - from), lists.offsets().lengths().collect()))
}

pub(in crate::functions) fn bytes_of(array: &ArrayRef) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
}

/// The rows of many groups.
#[derive(Debug)]
pub(super) struct GatheredGroups {
    of: Gathering,
    /// For each column the batches that came.
    columns: Vec<Vec<ArrayRef>>,
    /// The group of each row.
    groups: Vec<usize>,
    total: usize,
    bytes: usize,
}

/// Rows by group.
struct ByGroup {
    columns: Vec<ArrayRef>,
    /// The rows of each group.
    ranges: Vec<Range<usize>>,
}

impl GatheredGroups {
    pub(super) fn new(of: Gathering) -> Self {
        let columns = vec![Vec::new(); of.types.len()];
        Self { of, columns, groups: Vec::new(), total: 0, bytes: 0 }
    }

    fn push(&mut self, values: impl Iterator<Item = ArrayRef>) {
        for (column, values) in self.columns.iter_mut().zip(values) {
            self.bytes += bytes_of(&values);
            column.push(values);
        }
    }

    /// The rows of the first groups, which are then forgotten.
    fn emit(&mut self, emit_to: EmitTo) -> Result<ByGroup> {
        let count = match emit_to {
            EmitTo::All => self.total,
            EmitTo::First(count) => count,
        };
        let mut columns = self.of.joined(&self.columns)?;
        let mut groups = std::mem::take(&mut self.groups);
        self.columns.iter_mut().for_each(Vec::clear);
        (self.bytes, self.total) = (0, self.total - count);
        if self.total > 0 {
            let emitted: BooleanArray = groups.iter().map(|group| Some(*group < count)).collect();
            let stays = datafusion::arrow::compute::not(&emitted)?;
            let rest = columns.iter().map(|column| filter(column, &stays)).collect::<Result<Vec<_>, _>>()?;
            self.push(rest.into_iter());
            self.groups = groups.iter().filter(|group| **group >= count).map(|group| group - count).collect();
            columns = columns.iter().map(|column| filter(column, &emitted)).collect::<Result<_, _>>()?;
            groups.retain(|group| *group < count);
        }
        if let Some(places) = self.of.sorted(&columns, &groups)? {
            columns = columns.iter().map(|column| take(column, &places, None)).collect::<Result<_, _>>()?;
        }
        Ok(ByGroup { columns, ranges: ranges(&groups, count) })
    }
}

/// The rows of each of so many groups, once they are in order of group.
fn ranges(groups: &[usize], count: usize) -> Vec<Range<usize>> {
    let mut lengths = vec![0; count];
    groups.iter().for_each(|group| lengths[*group] += 1);
    let mut end = 0;
    let range = |length| {
        let start = end;
        end += length;
        start..end
    };
    lengths.into_iter().map(range).collect()
}

impl GroupsAccumulator for GatheredGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        held: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.total = total;
        let Some(counted) = self.of.counted(values, held) else {
            self.groups.extend_from_slice(groups);
            self.push(values.iter().map(Arc::clone));
            return Ok(());
        };
        let kept = values.iter().map(|values| filter(values, &counted)).collect::<Result<Vec<_>, _>>()?;
        self.push(kept.into_iter());
        let counts = groups.iter().zip(counted.values()).filter(|(_, counts)| *counts);
        self.groups.extend(counts.map(|(group, _)| *group));
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let ByGroup { columns, ranges } = self.emit(emit_to)?;
        self.of.function.over_groups(&columns[..self.of.arguments()], &ranges)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let ByGroup { columns, ranges } = self.emit(emit_to)?;
        columns.into_iter().map(|column| listed(column, &ranges)).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.total = total;
        let (values, lengths): (Vec<_>, Vec<_>) =
            states.iter().map(unlisted).collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let lengths = lengths.into_iter().next().unwrap_or_default();
        self.groups.extend(
            groups.iter().zip(lengths).flat_map(|(group, length)| std::iter::repeat_n(*group, length)),
        );
        self.push(values.into_iter());
        Ok(())
    }

    fn convert_to_state(&self, values: &[ArrayRef], held: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |values| values.len());
        let counted = self.of.counted(values, held);
        let counts = |row: usize| counted.as_ref().is_none_or(|counted| counted.value(row));
        let mut end = 0;
        let one = |row| {
            let start = end;
            end += usize::from(counts(row));
            start..end
        };
        let ranges: Vec<Range<usize>> = (0..rows).map(one).collect();
        let state = values.iter().map(|values| match &counted {
            Some(counted) => listed(filter(values, counted)?, &ranges),
            None => listed(Arc::clone(values), &ranges),
        });
        state.collect()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes + self.groups.capacity() * size_of::<usize>()
    }
}

/// The rows of one group, or of a frame that moves over a partition.
#[derive(Debug)]
pub(super) struct GatheredRows {
    of: Gathering,
    columns: Vec<Vec<ArrayRef>>,
    rows: usize,
    bytes: usize,
}

impl GatheredRows {
    pub(super) fn new(of: Gathering) -> Self {
        let columns = vec![Vec::new(); of.types.len()];
        Self { of, columns, rows: 0, bytes: 0 }
    }

    /// What the function sees of rows.
    fn kept(&self, values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        match self.of.counted(values, None) {
            Some(counted) => {
                Ok(values.iter().map(|values| filter(values, &counted)).collect::<Result<_, _>>()?)
            }
            None => Ok(values.to_vec()),
        }
    }

    fn push(&mut self, values: Vec<ArrayRef>) {
        self.rows += values.first().map_or(0, |values| values.len());
        for (column, values) in self.columns.iter_mut().zip(values) {
            self.bytes += bytes_of(&values);
            column.push(values);
        }
    }

    /// All rows in one piece, which they are then kept in.
    fn joined(&mut self) -> Result<Vec<ArrayRef>> {
        let columns = self.of.joined(&self.columns)?;
        for (chunks, column) in self.columns.iter_mut().zip(&columns) {
            *chunks = vec![Arc::clone(column)];
        }
        Ok(columns)
    }
}

impl Accumulator for GatheredRows {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let kept = self.kept(values)?;
        self.push(kept);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        // Frames move forwards: what leaves one came first.
        let gone = self.kept(values)?.first().map_or(0, |values| values.len()).min(self.rows);
        let columns = self.joined()?;
        self.rows -= gone;
        self.bytes = 0;
        for (chunks, column) in self.columns.iter_mut().zip(columns) {
            let rest = column.slice(gone, self.rows);
            self.bytes += bytes_of(&rest);
            *chunks = vec![rest];
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut columns = self.joined()?;
        if let Some(places) = self.of.sorted(&columns, &vec![0; self.rows])? {
            columns = columns.iter().map(|column| take(column, &places, None)).collect::<Result<_, _>>()?;
        }
        let all = 0..self.rows;
        let arguments = &columns[..self.of.arguments()];
        let value = self.of.function.over_groups(arguments, std::slice::from_ref(&all))?;
        ScalarValue::try_from_array(&value, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let all = 0..self.rows;
        let one = |column| ScalarValue::try_from_array(&listed(column, std::slice::from_ref(&all))?, 0);
        self.joined()?.into_iter().map(one).collect()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let values = states.iter().map(|state| Ok(unlisted(state)?.0)).collect::<Result<Vec<_>>>()?;
        self.push(values);
        Ok(())
    }
}
