//! The designated timestamp and the series key, as they travel through plans.
//!
//! The scan marks its fields with metadata; DataFusion carries it through column references,
//! aliases and sub-queries, so an operator above finds the time column of whatever it is given.

use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::DFSchema;
use std::collections::HashMap;
use tickstone_model::TableSchema;

/// Metadata key of the designated timestamp's field.
pub const TIMESTAMP_KEY: &str = "tickstone.timestamp";

/// The value under [`TIMESTAMP_KEY`].
pub const TIMESTAMP_VALUE: &str = "designated";

/// Metadata key of a series column's field; its value is the column's ordinal in the key, from 0.
pub const SERIES_KEY: &str = "tickstone.series";

/// Whether a field is a designated timestamp.
pub fn is_designated(field: &Field) -> bool {
    field.metadata().contains_key(TIMESTAMP_KEY)
}

/// The ordinal of a field in its table's series key, `None` for other fields.
pub fn series_ordinal(field: &Field) -> Option<usize> {
    field.metadata().get(SERIES_KEY)?.parse().ok()
}

/// Index of the first designated timestamp among the fields.
pub fn designated_timestamp(schema: &DFSchema) -> Option<usize> {
    schema.fields().iter().position(|field| is_designated(field))
}

/// Index of the first designated timestamp among the fields of an Arrow schema.
pub fn designated_field(schema: &Schema) -> Option<usize> {
    schema.fields().iter().position(|field| is_designated(field))
}

/// Indices of the series columns among the fields, outermost first.
pub fn series_columns(schema: &DFSchema) -> Vec<usize> {
    let fields = schema.fields().iter().enumerate();
    let mut found: Vec<(usize, usize)> =
        fields.filter_map(|(index, field)| Some((series_ordinal(field)?, index))).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, index)| index).collect()
}

/// A table's edge schema with the marks on its designated timestamp and series columns.
pub fn marked_schema(table: &TableSchema) -> Schema {
    let fields = table.edge().fields().iter().enumerate().map(|(index, field)| {
        let mut metadata = HashMap::new();
        let designated = table.timestamp() == Some(index);
        if designated {
            metadata.insert(TIMESTAMP_KEY.to_string(), TIMESTAMP_VALUE.to_string());
        }
        if let Some(ordinal) = table.series().iter().position(|&column| column == index) {
            metadata.insert(SERIES_KEY.to_string(), ordinal.to_string());
        }
        // It is never NULL: orders by time hold whichever side NULLs would go to.
        field.as_ref().clone().with_nullable(!designated).with_metadata(metadata)
    });
    Schema::new(fields.collect::<Vec<_>>())
}
