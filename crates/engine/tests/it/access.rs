//! Users, owners and grants as the engine keeps them.

use arrow_array::{ArrayRef, RecordBatch, StringArray, TimestampNanosecondArray};
use std::path::Path;
use std::sync::Arc;
use tickstone_engine::disk::{Disk, MemoryDisk};
use tickstone_engine::{Engine, EngineError, EngineOptions};
use tickstone_model::{
    AlterTable, Column, ColumnType, Grant, ModelError, Rights, TableAccess, TableSchema, Ttl,
};

const ACCOUNTS: &str = "internal~accounts";

fn open(root: &Path) -> Engine {
    let options = EngineOptions { background: false, threads: 1, ..EngineOptions::default() };
    Engine::open(root, options).unwrap()
}

fn schema(name: &str) -> TableSchema {
    let builder =
        TableSchema::builder(name).column("ts", ColumnType::Timestamp).column("px", ColumnType::Float64);
    builder.timestamp("ts").build().unwrap()
}

fn some_access() -> TableAccess {
    let whole = Grant { to: 4, rights: Rights::SELECT | Rights::INSERT, columns: None, filter: None };
    let some = Grant {
        to: u32::MAX,
        rights: Rights::SELECT,
        columns: Some(vec![0, 1]),
        filter: Some("px > 5\n-- 'it' \u{1F4C8}".to_string()),
    };
    TableAccess { owner: Some(3), grants: vec![whole, some] }
}

fn accounts(engine: &Engine) -> Option<String> {
    engine.snapshot().accounts().and_then(|schema| schema.view().map(str::to_string))
}

fn access(engine: &Engine, name: &str) -> TableAccess {
    engine.snapshot().table(name).unwrap().schema().access().clone()
}

#[test]
fn accounts_outlive_the_process_and_no_name_leads_to_them() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    assert_eq!(accounts(&engine), None);
    engine.set_accounts("{\"first\": 1}").unwrap();
    engine.set_accounts("{\"second\": \"\u{e9}\"}").unwrap();
    let text = Some("{\"second\": \"\u{e9}\"}".to_string());
    assert_eq!(accounts(&engine), text);

    let snapshot = engine.snapshot();
    for name in [ACCOUNTS, "Internal~ACCOUNTS"] {
        assert!(snapshot.table(name).is_none(), "{name} is a table");
        let missing = |done: Result<(), EngineError>| matches!(done, Err(EngineError::NoSuchTable { .. }));
        assert!(missing(engine.drop_table(name)));
        assert!(missing(engine.truncate_table(name)));
        assert!(missing(engine.alter_table(name, &AlterTable::SetView("{}".to_string()))));
        assert!(missing(engine.alter_table(name, &AlterTable::RenameTable("mine".to_string()))));
        assert!(missing(engine.replace_table(name, name)));
        let refused =
            |done: Result<(), EngineError>| matches!(done, Err(EngineError::Model(ModelError::Name { .. })));
        assert!(refused(engine.create_table(schema(name))));
        engine.create_table(schema("t")).unwrap();
        assert!(refused(engine.alter_table("t", &AlterTable::RenameTable(name.to_string()))));
        let aside = engine.aside().unwrap();
        aside.create(&schema("x")).unwrap();
        assert!(refused(aside.take_place(name)));
        engine.drop_table("t").unwrap();
    }
    assert_eq!(accounts(&engine), text);

    // From the tape, from the manifest, and from a backup.
    drop((snapshot, engine));
    let engine = open(dir.path());
    assert_eq!(accounts(&engine), text);
    engine.seal(None).unwrap();
    engine.maintain().unwrap();
    drop(engine);
    let engine = open(dir.path());
    assert_eq!(accounts(&engine), text);
    let copy: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    engine.backup(&copy, &mut |_| {}).unwrap();
    let copied = Engine::open_read_only_on(copy, EngineOptions::default()).unwrap();
    assert_eq!(accounts(&copied), text);
}

#[test]
fn owners_and_grants_go_with_their_table() {
    let dir = tempfile::tempdir().unwrap();
    let engine = open(dir.path());
    engine.create_table(schema("t").owned_by(Some(3))).unwrap();
    assert_eq!(access(&engine, "t").owner, Some(3));
    engine.create_table(TableSchema::of_view("v", "SELECT 1").unwrap()).unwrap();
    for name in ["t", "v"] {
        engine.alter_table(name, &AlterTable::SetAccess(some_access())).unwrap();
    }
    engine.alter_table("t", &AlterTable::RenameTable("u".to_string())).unwrap();
    engine.alter_table("v", &AlterTable::SetView("SELECT 2".to_string())).unwrap();
    drop(engine);

    let engine = open(dir.path());
    assert_eq!(access(&engine, "u"), some_access());
    assert_eq!(access(&engine, "v"), some_access());
    // What takes its place is owned and granted as it was; a new table of the name is nobody's.
    let aside = engine.aside().unwrap();
    aside.create(&schema("x").owned_by(Some(9))).unwrap();
    aside.take_place("u").unwrap();
    drop(aside);
    assert_eq!(access(&engine, "u"), some_access());
    let before = engine.snapshot();
    engine.drop_table("u").unwrap();
    engine.create_table(schema("u")).unwrap();
    assert!(access(&engine, "u").is_empty());
    // What is granted on a table that was found is granted on no other.
    let late = AlterTable::SetAccess(some_access());
    let granted = engine.alter_this_table(before.table("u").unwrap(), &late);
    assert!(matches!(granted, Err(EngineError::TableGone { .. })), "{granted:?}");
    drop(before);
    assert!(access(&engine, "u").is_empty());
    engine.seal(None).unwrap();
    engine.maintain().unwrap();
    drop(engine);
    let engine = open(dir.path());
    assert!(access(&engine, "u").is_empty());
    assert_eq!(access(&engine, "v"), some_access());
}

#[test]
fn the_audit_log_is_only_added_to() {
    let dir = tempfile::tempdir().unwrap();
    let columns = [Column::new("ts", ColumnType::Timestamp), Column::new("what", ColumnType::Varchar)];
    let ttl = |text: &str| Some(Ttl::parse(text).unwrap());
    let rows = |what: &[&str]| {
        let times: Vec<i64> = (0..).take(what.len()).collect();
        let times: ArrayRef = Arc::new(TimestampNanosecondArray::from(times));
        let texts: ArrayRef = Arc::new(StringArray::from(what.to_vec()));
        RecordBatch::try_from_iter([("ts", times), ("what", texts)]).unwrap()
    };
    let add = |engine: &Engine, id: u32, what: &[&str]| {
        let mut transaction = engine.begin();
        transaction.append_to(id, "audit", &rows(what)).unwrap();
        transaction.commit(None).unwrap();
    };
    let kept = |engine: &Engine| engine.snapshot().audit().map(|table| table.rows());
    let engine = open(dir.path());
    assert_eq!(kept(&engine), None);
    let id = engine.keep_audit(&columns, ttl("90d")).unwrap();
    add(&engine, id, &["one", "two"]);

    for name in ["audit", "AUDIT"] {
        let missing = |done: Result<(), EngineError>| matches!(done, Err(EngineError::NoSuchTable { .. }));
        assert!(engine.snapshot().table(name).is_none());
        assert!(missing(engine.drop_table(name)) && missing(engine.truncate_table(name)));
        assert!(missing(engine.alter_table(name, &AlterTable::DropColumn("what".into()))));
        assert!(missing(engine.alter_table(name, &AlterTable::RenameTable("mine".into()))));
        assert!(missing(engine.append(name, &rows(&["three"]), None).map(|_| ())));
        let taken = |done: Result<(), EngineError>| matches!(done, Err(EngineError::TableExists { .. }));
        assert!(taken(engine.create_table(schema(name))), "{name}");
        engine.create_table(schema("other")).unwrap();
        assert!(taken(engine.alter_table("other", &AlterTable::RenameTable(name.into()))));
        assert!(engine.replace_table(name, "other").is_err());
        let aside = engine.aside().unwrap();
        aside.create(&Arc::new(schema("x").put_aside(aside.name()).unwrap())).unwrap();
        assert!(taken(aside.take_place(name)));
        engine.drop_table("other").unwrap();
    }
    assert_eq!(kept(&engine), Some(2));
    drop(engine);

    let engine = open(dir.path());
    let more = [&columns[..], &[Column::new("rows", ColumnType::Int64)]].concat();
    assert_eq!(engine.keep_audit(&more, ttl("1d")).unwrap(), id);
    add(&engine, id, &["three"]);
    let snapshot = engine.snapshot();
    let audit = snapshot.audit().unwrap();
    assert_eq!((audit.rows(), audit.schema().columns().len(), audit.schema().ttl()), (3, 3, ttl("1d")));

    let other = tempfile::tempdir().unwrap();
    let engine = open(other.path());
    engine.create_table(schema("Audit")).unwrap();
    assert!(matches!(engine.keep_audit(&columns, None), Err(EngineError::TableExists { .. })));
}
