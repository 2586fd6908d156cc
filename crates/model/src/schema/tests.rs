use super::*;

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
    assert!(ColumnType::parse("DECIMAL(39,2)").is_err());
    assert!(ColumnType::parse("DECIMAL(3,4)").is_err());
    assert!(ColumnType::parse("MONEY").is_err());
}
