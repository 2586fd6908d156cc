use super::*;
use tickstone_wire::EpochUnit;

fn field(name: &str, column_type: ColumnType) -> FileField {
    let inferred =
        Inferred { column_type, time: TimeFormat::Iso, seen: true, mostly_time: false, unread_date: None };
    FileField {
        name: name.to_string(),
        source: name.to_string(),
        inferred,
        time: TimeFormat::Epoch(EpochUnit::Millisecond),
        role: Role::Plain,
    }
}

fn file(fields: &[(&str, ColumnType)]) -> FileFields {
    FileFields {
        fields: fields.iter().map(|(name, column_type)| field(name, *column_type)).collect(),
        named: true,
    }
}

fn request() -> ImportRequest {
    ImportRequest { untimed: true, ..ImportRequest::new("t", ["t.csv"]) }
}

fn shape(file: &FileFields, table: Option<&TableSchema>, request: &ImportRequest) -> Result<Shape> {
    Shape::of(file, table, request, Path::new("t.csv"))
}

#[test]
fn the_likeliest_timestamp_is_designated() {
    use ColumnType::{Int64, Symbol, Timestamp};
    let check = |fields: &[(&str, ColumnType)], expect: Option<&str>| {
        let shape = shape(&file(fields), None, &request()).expect("a shape");
        assert_eq!(shape.timestamp_name().as_deref(), expect, "{fields:?}");
    };
    check(&[("exchange_time", Timestamp), ("timestamp", Timestamp)], Some("timestamp"));
    check(&[("expiry", Timestamp), ("trade_time", Timestamp)], Some("trade_time"));
    check(&[("a", Timestamp), ("b", Timestamp)], Some("a"));
    check(&[("symbol", Symbol), ("ts", Int64)], None);
}

#[test]
fn what_is_asked_for_comes_first() {
    use ColumnType::{Float64, Int64, Symbol, Timestamp, Varchar};
    let fields =
        file(&[("ts", Timestamp), ("when", Int64), ("note", Varchar), ("symbol", Symbol), ("px", Int64)]);
    let request = ImportRequest {
        timestamp: Some("WHEN".to_string()),
        series: Some(vec!["note".to_string()]),
        types: vec![("px".to_string(), Float64)],
        ..request()
    };
    let shape = shape(&fields, None, &request).expect("a shape");
    assert_eq!(shape.timestamp_name().as_deref(), Some("when"));
    assert_eq!(shape.series_names(), ["note"]);
    let types: Vec<_> = shape.columns_report().into_iter().map(|c| (c.column_type, c.inferred)).collect();
    let expect = [(Timestamp, true), (Timestamp, true), (Symbol, true), (Symbol, true), (Float64, false)];
    assert_eq!(types, expect);
}

#[test]
fn columns_of_a_table_are_found_by_name() {
    use ColumnType::{Float64, Symbol, Timestamp};
    let table = TableSchema::builder("t").column("ts", Timestamp).column("sym", Symbol).column("px", Float64);
    let table = table.timestamp("ts").build().expect("a schema");
    let found =
        shape(&file(&[("PX", Float64), ("Ts", Timestamp)]), Some(&table), &request()).expect("a shape");
    assert_eq!(found.sources, [Some(1), None, Some(0)]);
    assert_eq!(found.plan().fields, [Some(2), Some(0)]);
    assert!(found.plan().columns[0].required);
    let refused =
        |fields: &[(&str, ColumnType)]| shape(&file(fields), Some(&table), &request()).expect_err("refused");
    assert!(
        matches!(refused(&[("ts", Timestamp), ("x", Float64)]), ImportError::UnknownColumn { column, .. } if column == "x")
    );
    assert!(matches!(refused(&[("px", Float64)]), ImportError::NoTimestamp { .. }));
    let other = ImportRequest { partition_by: Some(tickstone_model::PartitionBy::Hour), ..request() };
    let refused = shape(&file(&[("ts", Timestamp)]), Some(&table), &other).expect_err("refused");
    assert!(matches!(refused, ImportError::OtherShape { .. }));
}
