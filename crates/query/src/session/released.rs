//! Rows for a user who may not read all: a dictionary has the symbols of these rows alone.

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait, RecordBatch, StructArray,
};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use std::sync::Arc;

/// The same rows, each batch with the symbols that it uses.
pub(crate) fn released(rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = rows.schema();
    if !schema.fields().iter().any(|field| has_dictionary(field.data_type())) {
        return rows;
    }
    let rows = rows.map(|batch| Ok(released_batch(&batch?)?));
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

/// As [`released`], of one batch.
pub(crate) fn released_batch(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().map(without_others).collect::<Result<Vec<_>, _>>()?;
    let options = datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}

fn has_dictionary(of: &DataType) -> bool {
    match of {
        DataType::Dictionary(..) => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            has_dictionary(item.data_type())
        }
        DataType::Struct(fields) => fields.iter().any(|field| has_dictionary(field.data_type())),
        _ => false,
    }
}

/// An array whose dictionaries have the values that its rows use.
fn without_others(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !has_dictionary(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    match array.data_type() {
        DataType::Dictionary(..) => {
            arrow_select::dictionary::garbage_collect_any_dictionary(array.as_any_dictionary())
        }
        DataType::List(_) => list_without_others(array.as_list::<i32>()),
        DataType::LargeList(_) => list_without_others(array.as_list::<i64>()),
        DataType::Struct(fields) => {
            let array = array.as_struct();
            let columns = array.columns().iter().map(without_others).collect::<Result<Vec<_>, _>>()?;
            Ok(Arc::new(StructArray::try_new_with_length(
                fields.clone(),
                columns,
                array.nulls().cloned(),
                array.len(),
            )?))
        }
        other => {
            Err(ArrowError::NotYetImplemented(format!("{other} of symbols, for a user who may not read all")))
        }
    }
}

fn list_without_others<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> Result<ArrayRef, ArrowError> {
    // What rows that are gone had stands in the values too.
    let first = lists.offsets().first().copied().unwrap_or_default().as_usize();
    let last = lists.offsets().last().copied().unwrap_or_default().as_usize();
    let values = without_others(&lists.values().slice(first, last - first))?;
    let lengths = lists.offsets().lengths();
    let offsets = datafusion::arrow::buffer::OffsetBuffer::from_lengths(lengths);
    let item = match lists.data_type() {
        DataType::List(item) | DataType::LargeList(item) => Arc::clone(item),
        other => return Err(ArrowError::InvalidArgumentError(format!("{other} is no list"))),
    };
    Ok(Arc::new(GenericListArray::<O>::try_new(item, offsets, values, lists.nulls().cloned())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{DictionaryArray, ListArray, UInt32Array};
    use datafusion::arrow::buffer::OffsetBuffer;
    use datafusion::arrow::datatypes::{Field, UInt32Type};

    #[test]
    fn symbols_of_other_rows_are_gone() {
        let symbols: DictionaryArray<UInt32Type> = ["hidden", "a", "b", "a"].into_iter().collect();
        let symbols: ArrayRef = Arc::new(symbols);
        let used = symbols.slice(1, 3);
        let kept = without_others(&used).expect("rows");
        assert_eq!(
            kept.as_any_dictionary().values().as_string::<i32>().iter().flatten().collect::<Vec<_>>(),
            ["a", "b"]
        );
        assert_eq!(kept.as_dictionary::<UInt32Type>().keys(), &UInt32Array::from(vec![0, 1, 0]));
        let item = Arc::new(Field::new_list_field(symbols.data_type().clone(), true));
        let lists = ListArray::new(item, OffsetBuffer::from_lengths([1, 3]), symbols, None).slice(1, 1);
        let kept = without_others(&(Arc::new(lists) as ArrayRef)).expect("lists");
        let values = kept.as_list::<i32>().values();
        assert_eq!(values.as_any_dictionary().values().len(), 2);
        assert_eq!(kept.as_list::<i32>().value(0).len(), 3);
    }
}
