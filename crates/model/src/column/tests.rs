use super::*;
use std::sync::Arc;

#[test]
fn names_of_arrays_are_read_back() {
    for name in ["DOUBLE[]", "INT[]", "VARCHAR[]", "DECIMAL(20,2)[]", "TIMESTAMP[]", "BIGINT UNSIGNED[]"] {
        let column_type = ColumnType::parse(name).unwrap();
        assert!(column_type.is_array());
        assert_eq!(column_type.to_string(), name);
    }
    assert_eq!(ColumnType::parse(" float8 [ ] ").unwrap(), ColumnType::Array(ElementType::Float64));
}

#[test]
fn arrays_hold_scalars_other_than_symbols() {
    for (name, element) in [("SYMBOL[]", "SYMBOL"), ("DOUBLE[][]", "DOUBLE[]")] {
        let error = ColumnType::parse(name).unwrap_err().to_string();
        assert!(error.starts_with(&format!("there are no arrays of {element};")), "{error}");
    }
    assert!(matches!(ColumnType::parse("DOUBLE[3]"), Err(ModelError::UnknownType { .. })));
    assert!(matches!(ColumnType::parse("[]"), Err(ModelError::UnknownType { .. })));
}

#[test]
fn lists_of_scalars_are_arrays() {
    let field = |data_type| Arc::new(Field::new("element", data_type, false));
    let doubles = Some(ColumnType::Array(ElementType::Float64));
    for list in [
        DataType::List(field(DataType::Float64)),
        DataType::LargeList(field(DataType::Float64)),
        DataType::FixedSizeList(field(DataType::Float64), 10),
    ] {
        assert_eq!(ColumnType::from_arrow(&list), doubles);
    }
    let list = DataType::List(field(DataType::Float64));
    assert_eq!(ColumnType::from_arrow(&DataType::List(field(list))), None);
    let symbols = DataType::List(field(ColumnType::Symbol.edge_type()));
    assert_eq!(ColumnType::from_arrow(&symbols), Some(ColumnType::Array(ElementType::Varchar)));
    let stored = ColumnType::Array(ElementType::Float64).stored_type();
    assert_eq!(ColumnType::from_arrow(&stored), doubles);
}

#[test]
fn arrays_are_no_keys() {
    use crate::{AlterTable, TableSchema};
    let books = || {
        let builder = TableSchema::builder("books").column("ts", ColumnType::Timestamp);
        builder.column("bids", ColumnType::Array(ElementType::Float64)).timestamp("ts")
    };
    let error = books().indexed(["bids"]).build().unwrap_err();
    assert_eq!(error.to_string(), "INDEX needs a scalar column; 'bids' is DOUBLE[]");
    let error = books().dedup(["ts", "bids"]).build().unwrap_err();
    assert_eq!(error.to_string(), "DEDUP UPSERT KEYS needs a scalar column; 'bids' is DOUBLE[]");
    let error = books().build().unwrap().altered(&AlterTable::AddIndex("bids".into())).unwrap_err();
    assert_eq!(error.to_string(), "ADD INDEX needs a scalar column; 'bids' is DOUBLE[]");
}
