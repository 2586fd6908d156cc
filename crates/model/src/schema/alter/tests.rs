use super::*;
use crate::ColumnType;

fn trades() -> TableSchema {
    let builder = TableSchema::builder("trades")
        .column("ts", ColumnType::Timestamp)
        .column("note", ColumnType::Varchar)
        .column("sym", ColumnType::Symbol)
        .column("price", ColumnType::Float64);
    builder.timestamp("ts").build().unwrap()
}

fn ids(schema: &TableSchema) -> Vec<(String, u32)> {
    let named = schema.columns().iter().enumerate();
    named.map(|(index, column)| (column.name.clone(), schema.column_id(index))).collect()
}

#[test]
fn ids_are_never_used_again() {
    let drop = AlterTable::DropColumn("NOTE".into());
    let add = AlterTable::AddColumn(Column::new("note", ColumnType::Varchar));
    let dropped = trades().altered(&drop).unwrap();
    assert_eq!(ids(&dropped), [("ts".into(), 0), ("sym".into(), 2), ("price".into(), 3)]);
    assert_eq!((dropped.timestamp(), dropped.series()), (Some(0), &[1][..]));
    let again = dropped.altered(&add).unwrap();
    assert_eq!(ids(&again)[3], ("note".into(), 4));
    let rename = AlterTable::RenameColumn { from: "note".into(), to: "Note".into() };
    let renamed = again.altered(&rename).unwrap();
    assert_eq!(ids(&renamed)[3], ("Note".into(), 4));
    assert_eq!(renamed.edge().field(3).name(), "Note");
    assert_eq!(renamed.version(), 3);
    assert_eq!(renamed.column_of_id(4), Some(3));
    assert_eq!(renamed.column_of_id(1), None);
    let last = renamed.altered(&AlterTable::DropColumn("note".into())).unwrap().altered(&add).unwrap();
    assert_eq!(ids(&last)[3], ("note".into(), 5));
}

#[test]
fn broken_rules_are_named() {
    let check = |schema: &TableSchema, change: AlterTable, expect: &str| {
        assert_eq!(schema.altered(&change).unwrap_err().to_string(), expect);
    };
    let schema = trades();
    let drop = |name: &str| AlterTable::DropColumn(name.into());
    let rename = |from: &str, to: &str| AlterTable::RenameColumn { from: from.into(), to: to.into() };
    check(&schema, drop("ts"), "column 'ts' cannot be dropped: it is the designated timestamp");
    check(&schema, drop("SYM"), "column 'sym' cannot be dropped: it is a column of the series key");
    check(&schema, drop("size"), "DROP COLUMN names column 'size', which the table does not have");
    check(&schema, rename("size", "s"), "RENAME COLUMN names column 'size', which the table does not have");
    check(&schema, rename("price", "TS"), "two columns are named 'ts' (column names do not differ by case)");
    check(
        &schema,
        AlterTable::AddColumn(Column::new("PRICE", ColumnType::Int8)),
        "two columns are named 'price' (column names do not differ by case)",
    );
    let one = TableSchema::builder("t").column("x", ColumnType::Int8).build().unwrap();
    check(&one, drop("x"), "column 'x' cannot be dropped: it is the only column");
    check(
        &one,
        AlterTable::SetTtl(Some(Ttl::parse("1d").unwrap())),
        "a time to live needs partitions by time: rows are dropped by whole partitions",
    );
    check(&one, AlterTable::RenameTable(String::new()), "table name \"\" is not allowed: it is empty");
}
