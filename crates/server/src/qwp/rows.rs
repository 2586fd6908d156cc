//! Rows in the types that QWP has.

use crate::json;
use std::sync::Arc;
use tickstone_query::QueryError;
use tickstone_query::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StringBuilder};
use tickstone_query::arrow::datatypes::{DataType, Field, Schema};
use tickstone_query::arrow::util::display::{ArrayFormatter, FormatOptions};
use tickstone_wire::qwp::egress::wire_type;

/// Rows whose columns can all be sent: those of types that QWP has not are texts.
///
/// # Errors
/// Where a value has no text.
pub(super) fn sendable(rows: &RecordBatch) -> Result<RecordBatch, QueryError> {
    let schema = rows.schema_ref();
    if schema.fields().iter().all(|field| wire_type(field.data_type()).is_some()) {
        return Ok(rows.clone());
    }
    let columns = schema.fields().iter().zip(rows.columns()).map(|(field, column)| {
        if wire_type(field.data_type()).is_some() {
            return Ok((Arc::clone(field), Arc::clone(column)));
        }
        Ok((Arc::new(Field::new(field.name(), DataType::Utf8, true)), texts(column)?))
    });
    let (fields, columns): (Vec<_>, Vec<_>) =
        columns.collect::<Result<Vec<_>, QueryError>>()?.into_iter().unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
}

/// The values as texts; arrays and structs as JSON, so that each can be told from what it holds.
fn texts(column: &ArrayRef) -> Result<ArrayRef, QueryError> {
    if column.data_type().is_nested() {
        return as_json(column);
    }
    let options = FormatOptions::default();
    let values = ArrayFormatter::try_new(column.as_ref(), &options)?;
    let mut texts = StringBuilder::new();
    for row in 0..column.len() {
        match column.is_null(row) {
            true => texts.append_null(),
            false => {
                values.value(row).write(&mut texts)?;
                texts.append_value("");
            }
        }
    }
    Ok(Arc::new(texts.finish()))
}

fn as_json(column: &ArrayRef) -> Result<ArrayRef, QueryError> {
    let mut values = json::Column::of(column, false)?;
    let (mut texts, mut text) = (StringBuilder::new(), Vec::new());
    for row in 0..column.len() {
        if column.is_null(row) {
            texts.append_null();
            continue;
        }
        text.clear();
        values.put(row, &mut text);
        texts.append_value(String::from_utf8_lossy(&text));
    }
    Ok(Arc::new(texts.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickstone_query::arrow::array::{AsArray, ListBuilder};

    #[test]
    fn arrays_of_texts_are_json() {
        let mut lists = ListBuilder::new(StringBuilder::new());
        lists.append_value([Some("a, b"), None, Some("\"]")]);
        lists.append_null();
        lists.append_value([Some("a"), Some("b")]);
        lists.append_value([None::<&str>; 0]);
        let batch =
            RecordBatch::try_from_iter_with_nullable([("l", Arc::new(lists.finish()) as ArrayRef, true)]);
        let sent = sendable(&batch.expect("a batch")).expect("texts");
        let texts: Vec<_> = sent.column(0).as_string::<i32>().iter().collect();
        assert_eq!(texts, [Some("[\"a, b\",null,\"\\\"]\"]"), None, Some("[\"a\",\"b\"]"), Some("[]")]);
    }
}
