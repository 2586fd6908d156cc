use super::*;
use crate::ElementType;

fn trades() -> TableSchemaBuilder {
    TableSchema::builder("trades")
        .column("ts", ColumnType::Timestamp)
        .column("side", ColumnType::Symbol)
        .column("Sym", ColumnType::Symbol)
        .column("price", ColumnType::Float64)
        .timestamp("TS")
}

#[test]
fn the_series_key_is_found_by_name_before_place() {
    let schema = trades().build().unwrap();
    assert_eq!(schema.series(), [2]);
    assert_eq!(schema.timestamp(), Some(0));
    assert_eq!(schema.partition_by(), PartitionBy::Day);
    assert_eq!(trades().series(["side", "sym"]).build().unwrap().series(), [1, 2]);
    assert!(trades().series([] as [&str; 0]).build().unwrap().series().is_empty());
}

#[test]
fn broken_rules_are_named() {
    let check = |builder: TableSchemaBuilder, expect: &str| {
        assert_eq!(builder.build().unwrap_err().to_string(), expect);
    };
    check(trades().timestamp("price"), "TIMESTAMP needs a TIMESTAMP column; 'price' is DOUBLE");
    check(trades().series(["price"]), "SERIES BY needs a SYMBOL column; 'price' is DOUBLE");
    check(trades().series(["venue"]), "SERIES BY names column 'venue', which the table does not have");
    check(
        trades().column("PRICE", ColumnType::Int8),
        "two columns are named 'PRICE' (column names do not differ by case)",
    );
    check(TableSchema::builder("t"), "a table has 1 to 4096 columns, not 0");
    check(
        TableSchema::builder("t").column("x", ColumnType::Int8).partition_by(PartitionBy::Day),
        "PARTITION BY DAY needs a designated timestamp: add TIMESTAMP(column)",
    );
    check(
        TableSchema::builder("").column("x", ColumnType::Int8),
        "table name \"\" is not allowed: it is empty",
    );
}

#[test]
fn types_are_read_back_from_their_names() {
    for name in ["BOOLEAN", "TINYINT", "INT UNSIGNED", "DECIMAL(10,2)", "SYMBOL", "UUID", "TIMESTAMP"] {
        assert_eq!(ColumnType::parse(name).unwrap().to_string(), name);
        assert_eq!(ColumnType::parse(&name.to_lowercase()).unwrap().to_string(), name);
    }
    for (name, ours) in [
        ("int1", ColumnType::Int8),
        ("INT2", ColumnType::Int16),
        ("int4", ColumnType::Int32),
        ("INT8", ColumnType::Int64),
        ("INT64", ColumnType::Int64),
        ("timestamp  without time zone", ColumnType::Timestamp),
        ("TIMESTAMPTZ", ColumnType::Timestamp),
        ("timestamp(6) with time zone", ColumnType::Timestamp),
        ("TIMESTAMP (9)", ColumnType::Timestamp),
        ("FLOAT(24)", ColumnType::Float32),
        ("float (53)", ColumnType::Float64),
        ("varchar(10)", ColumnType::Varchar),
        ("CHARACTER VARYING (10)", ColumnType::Varchar),
        ("int8[]", ColumnType::Array(ElementType::of(ColumnType::Int64).unwrap())),
    ] {
        assert_eq!(ColumnType::parse(name).unwrap(), ours, "{name}");
    }
    assert!(ColumnType::parse("DECIMAL(39,2)").is_err());
    assert!(ColumnType::parse("DECIMAL(3,4)").is_err());
    for name in [
        "MONEY",
        "TIMESTAMP(10)",
        "VARCHAR(x)",
        "FLOAT(54)",
        "FLOAT(0)",
        "VARCHAR(1",
        "BIGINT(8)",
        "VARCHAR(1)(2)",
    ] {
        assert!(ColumnType::parse(name).is_err(), "{name}");
    }
}
