use super::*;
use arrow_array::Array;

fn every_type() -> Vec<(ColumnType, &'static str, &'static str)> {
    use ColumnType::*;
    vec![
        (Boolean, "true", "maybe"),
        (Int8, "-128", "128"),
        (Int16, "32767", "32768"),
        (Int32, "-2147483648", "2147483648"),
        (Int64, "1", "1.5"),
        (UInt8, "255", "-1"),
        (UInt16, "65535", "65536"),
        (UInt32, "4294967295", "4294967296"),
        (UInt64, "18446744073709551615", "x"),
        (Float32, "1.5", "1,5"),
        (Float64, "nan", "nano"),
        (Decimal { precision: 5, scale: 2 }, "123.45", "1234.5"),
        (Binary, "00ff", "0"),
        (Uuid, "67e55044-10b1-426f-9247-bb680e5fe0c8", "67e5"),
        (Date, "2024-08-08", "2024-08-32"),
        (Timestamp, "2024-08-08T00:00:00Z", "yesterday"),
    ]
}

#[test]
fn every_type_is_pushed_undone_and_finished() {
    for (column_type, good, bad) in every_type() {
        let plan = ColumnPlan {
            source: "c".to_string(),
            column_type,
            time: TimeFormat::Epoch(EpochUnit::Second),
            required: false,
            inferred: false,
        };
        let mut column = ColumnBuilder::new(&plan);
        assert_eq!(column.push(good.as_bytes()), Ok(()), "{column_type}");
        assert!(column.push(bad.as_bytes()).is_err(), "{column_type} {bad}");
        assert_eq!(column.push_null(), Ok(()));
        assert_eq!(column.push(good.as_bytes()), Ok(()));
        assert_eq!(column.push_null(), Ok(()));
        column.truncate(3);
        let array = column.finish();
        assert_eq!(*array.data_type(), column_type.edge_type());
        assert_eq!((array.len(), array.null_count(), array.is_null(1)), (3, 1, true), "{column_type}");
        assert_eq!(column.len(), 0);
    }
}

#[test]
fn symbols_get_ids_as_they_come() {
    let mut dictionary = ChunkDictionary::default();
    let names: Vec<String> = (0..1_000).map(|n| format!("S{n}")).collect();
    for _ in 0..2 {
        for (id, name) in names.iter().enumerate() {
            assert_eq!(dictionary.id(name.as_bytes()), Ok(id as u32));
        }
    }
    assert_eq!(dictionary.latest(b"S999"), Some(999));
    assert_eq!((dictionary.latest(b"S99"), dictionary.latest(b"S999,rest")), (None, None));
    assert_eq!(dictionary.id(b""), Ok(1_000));
    assert_eq!(dictionary.latest(b""), Some(1_000));
    assert_eq!(dictionary.id(b"\xff"), Err(Fault::NotUtf8));
    let symbols = dictionary.finish();
    assert_eq!((symbols.len(), symbols.value(0), symbols.value(1_000)), (1_001, "S0", ""));
}

#[test]
fn symbols_that_begin_alike_are_told_apart() {
    let names = [
        "",
        "\0",
        "\0\0",
        "a",
        "a\0",
        "AAPL_240",
        "AAPL_2408",
        "AAPL_2409",
        "AAPL_240\0",
        "AAPL_240819C00225000",
    ];
    let mut dictionary = ChunkDictionary::default();
    for _ in 0..2 {
        for (id, name) in names.iter().enumerate() {
            assert_eq!(dictionary.id(name.as_bytes()), Ok(id as u32), "{name:?}");
            assert_eq!(dictionary.latest(name.as_bytes()), Some(id as u32), "{name:?}");
        }
    }
    assert_eq!(dictionary.latest(b"AAPL_240819C00225001"), None);
    assert_eq!(dictionary.id(b"a"), Ok(3));
    assert_eq!(
        (dictionary.latest(b"a"), dictionary.latest(b"ab"), dictionary.latest(b"")),
        (Some(3), None, None)
    );
}

#[test]
fn a_guessed_unit_refuses_times_of_another() {
    let plan = |time| ColumnPlan {
        source: "ts".to_string(),
        column_type: ColumnType::Timestamp,
        time,
        required: true,
        inferred: false,
    };
    let unit = EpochUnit::Millisecond;
    let mut guessed = ColumnBuilder::new(&plan(TimeFormat::GuessedEpoch(unit)));
    assert_eq!(guessed.push_plain(b"1723161253000"), Some(()));
    assert_eq!(guessed.push_plain(b"1723161253"), None);
    assert_eq!(guessed.push(b"1723161253"), Err(Fault::OtherUnit { unit }));
    assert_eq!(guessed.push(b"1723161253.5"), Err(Fault::OtherUnit { unit }));
    assert_eq!(guessed.push(b"1965-01-01"), Ok(()), "ISO 8601 has one meaning");
    let mut stated = ColumnBuilder::new(&plan(TimeFormat::Epoch(unit)));
    assert_eq!(stated.push_plain(b"1723161253"), Some(()));
    assert_eq!((guessed.len(), stated.len()), (2, 1));
}
