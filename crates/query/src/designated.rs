//! The designated timestamp and the series key, as they travel through plans.
//!
//! The scan marks its fields with metadata; DataFusion carries it through column references,
//! aliases and sub-queries, so an operator above finds the time column of whatever it is given.

use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::common::DFSchema;
use std::collections::HashMap;
use tickstone_model::{PartitionBy, TableSchema};

/// Metadata key of the designated timestamp's field.
pub const TIMESTAMP_KEY: &str = "tickstone.timestamp";

/// The value under [`TIMESTAMP_KEY`].
pub const TIMESTAMP_VALUE: &str = "designated";

/// Metadata key of a series column's field; its value is the column's ordinal in the key, from 0.
pub const SERIES_KEY: &str = "tickstone.series";

/// Metadata key of the designated timestamp's field: the length of the table's partitions, such as "DAY".
pub const PARTITION_KEY: &str = "tickstone.partition";

/// Metadata key of the designated timestamp's field: how many columns the table's series key has.
pub const SERIES_COLUMNS_KEY: &str = "tickstone.series_columns";

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

/// How a table is laid out whose rows are these columns: as the one they come from.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The designated timestamp.
    pub(crate) timestamp: Option<usize>,
    /// The series key, outermost first; `None` where its columns did not come, or twice.
    pub(crate) series: Option<Vec<usize>>,
    /// The length of partitions.
    pub(crate) partition_by: Option<PartitionBy>,
}

impl Layout {
    /// That of the source, where its designated timestamp came along, it alone, and never NULL.
    pub(crate) fn of(schema: &Schema) -> Self {
        let fields = || schema.fields().iter().enumerate();
        let mut designated = fields().filter(|(_, field)| is_designated(field));
        let (Some((index, field)), None) = (designated.next(), designated.next()) else {
            return Self::default();
        };
        if field.is_nullable() {
            return Self::default();
        }
        let mark = |key: &str| field.metadata().get(key).map(String::as_str);
        let columns: Option<usize> = mark(SERIES_COLUMNS_KEY).and_then(|count| count.parse().ok());
        let of_ordinal = |ordinal: usize| {
            let mut found = fields().filter(|(_, field)| series_ordinal(field) == Some(ordinal));
            found.next().filter(|_| found.next().is_none()).map(|(index, _)| index)
        };
        Self {
            timestamp: Some(index),
            series: columns.and_then(|columns| (0..columns).map(of_ordinal).collect()),
            partition_by: mark(PARTITION_KEY).and_then(|unit| PartitionBy::parse(unit).ok()),
        }
    }
}

/// A table's edge schema with the marks on its designated timestamp and series columns.
pub fn marked_schema(table: &TableSchema) -> Schema {
    let fields = table.edge().fields().iter().enumerate().map(|(index, field)| {
        let mut metadata = HashMap::new();
        let designated = table.timestamp() == Some(index);
        if designated {
            metadata.insert(TIMESTAMP_KEY.to_string(), TIMESTAMP_VALUE.to_string());
            metadata.insert(PARTITION_KEY.to_string(), table.partition_by().name().to_string());
            metadata.insert(SERIES_COLUMNS_KEY.to_string(), table.series().len().to_string());
        }
        if let Some(ordinal) = table.series().iter().position(|&column| column == index) {
            metadata.insert(SERIES_KEY.to_string(), ordinal.to_string());
        }
        // It is never NULL: orders by time hold whichever side NULLs would go to.
        field.as_ref().clone().with_nullable(!designated).with_metadata(metadata)
    });
    Schema::new(fields.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
