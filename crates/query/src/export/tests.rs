use super::*;
use arrow_array::types::UInt32Type;
use arrow_array::{DictionaryArray, Float64Array, StringArray, TimestampNanosecondArray};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use std::io::Read;

fn stream() -> SendableRecordBatchStream {
    let symbols: DictionaryArray<UInt32Type> = vec![Some("BTC"), None, Some("BTC")].into_iter().collect();
    let batch = RecordBatch::try_from_iter([
        ("ts", Arc::new(TimestampNanosecondArray::from(vec![0, 1, 1_723_161_253_500_000_000])) as ArrayRef),
        ("symbol", Arc::new(symbols)),
        ("price", Arc::new(Float64Array::from(vec![Some(1.5), None, Some(f64::MAX)]))),
        ("note", Arc::new(StringArray::from(vec![Some(""), None, Some("a \"b\",\nc")]))),
    ])
    .expect("columns agree");
    let schema = batch.schema();
    Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter([Ok(batch)])))
}

fn written(format: Format, compression: Compression) -> Vec<u8> {
    let mut out = Vec::new();
    let rows = futures::executor::block_on(write(
        stream(),
        &Layout::new(format, compression),
        &Room::default(),
        &mut out,
    ))
    .expect("to memory");
    assert_eq!(rows, 3);
    out
}

const CSV: &str = "ts,symbol,price,note\n1970-01-01T00:00:00.000000000Z,BTC,1.5,\"\"\n\
    1970-01-01T00:00:00.000000001Z,,,\n2024-08-08T23:54:13.500000000Z,BTC,1.7976931348623157e308,\"a \"\"b\"\",\nc\"\n";

#[test]
fn csv_tells_null_from_empty() {
    assert_eq!(String::from_utf8(written(Format::Csv, Compression::None)).expect("text"), CSV);
}

#[test]
fn packed_is_the_same() {
    let packed = written(Format::Csv, Compression::Gzip);
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).expect("gzip");
    assert_eq!(text, CSV);
    let packed = written(Format::Csv, Compression::Zstd);
    assert_eq!(zstd::decode_all(&packed[..]).expect("zstd"), CSV.as_bytes());
}

#[test]
fn ndjson_has_every_key() {
    let text = String::from_utf8(written(Format::Ndjson, Compression::None)).expect("text");
    let second = text.lines().nth(1).expect("three lines");
    assert_eq!(second, r#"{"ts":"1970-01-01T00:00:00.000000001Z","symbol":null,"price":null,"note":null}"#);
    let array = String::from_utf8(written(Format::Json, Compression::None)).expect("text");
    assert!(array.starts_with("[{") && array.trim_end().ends_with("}]"));
}

#[test]
fn columnar_formats_begin_as_they_must() {
    assert!(written(Format::Parquet, Compression::None).starts_with(b"PAR1"));
    assert!(written(Format::Arrow, Compression::None).starts_with(b"ARROW1"));
}

#[test]
fn names_tell_formats() {
    let check = |name: &str, expect| assert_eq!(detect(Path::new(name), None).ok(), expect, "{name}");
    use std::path::Path;
    check("a.csv", Some((Format::Csv, Compression::None)));
    check("a.b.ndjson.zst", Some((Format::Ndjson, Compression::Zstd)));
    check("a.csv.gz", Some((Format::Csv, Compression::Gzip)));
    check("a.parquet", Some((Format::Parquet, Compression::None)));
    check("a.parquet.gz", None);
    check("a", None);
    check("a.gz", None);
}

/// Rows that zstd does not pack, in batches.
fn noise(batches: usize, rows: usize) -> SendableRecordBatchStream {
    let batch = |from: usize| {
        let mixed = |row: usize| (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23) as f64;
        let day = StringArray::from_iter_values((0..rows).map(|row| format!("{}", row % 4)));
        let value = Float64Array::from_iter_values((from..from + rows).map(mixed));
        RecordBatch::try_from_iter([("day", Arc::new(day) as ArrayRef), ("value", Arc::new(value))])
            .expect("columns agree")
    };
    let batches: Vec<_> = (0..batches).map(|number| Ok(batch(number * rows))).collect();
    let schema = Arc::new(Schema::new(vec![
        Field::new("day", DataType::Utf8, false),
        Field::new("value", DataType::Float64, false),
    ]));
    Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::iter(batches)))
}

#[test]
fn row_groups_end_where_memory_does() {
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let (batches, rows) = (40, 10_000);
    let groups = |bytes: Vec<u8>| {
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("Parquet");
        let rows: i64 = reader.metadata().row_groups().iter().map(|group| group.num_rows()).sum();
        (reader.num_row_groups(), rows as usize)
    };
    let layout = Layout::new(Format::Parquet, Compression::None);
    let run = |room: &Room| {
        let mut out = Vec::new();
        futures::executor::block_on(write(noise(batches, rows), &layout, room, &mut out)).expect("written");
        groups(out)
    };
    assert_eq!(run(&Room::default()), (1, batches * rows));
    let memory: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(8 << 20));
    let (ended, all) = run(&Room::counted(&memory));
    assert!((3..batches).contains(&ended), "{ended} groups of 1 MiB at most");
    assert_eq!((all, memory.reserved()), (batches * rows, 0));
    // Somebody else has all of it: the rows come out nevertheless.
    let other = datafusion::execution::memory_pool::MemoryConsumer::new("other").register(&memory);
    other.try_grow(8 << 20).expect("nobody else has any");
    assert_eq!(run(&Room::counted(&memory)), (batches, batches * rows));
    drop(other);
    let folder = std::env::temp_dir().join(format!("tickstone-room-{}", std::process::id()));
    let by_day = Layout { partition_by: vec!["day".to_string()], ..layout.clone() };
    let written = futures::executor::block_on(write_file(
        noise(batches, rows),
        &folder,
        &by_day,
        &Room::counted(&memory),
    ));
    assert_eq!(written.expect("written").rows as usize, batches * rows);
    let file = std::fs::read(folder.join("day=1/data_0.parquet")).expect("a file a day");
    std::fs::remove_dir_all(&folder).expect("it is there");
    let (ended, of_day) = groups(file);
    assert!((2..batches).contains(&ended), "{ended} groups of four files in 1 MiB");
    assert_eq!((of_day, memory.reserved()), (batches * rows / 4, 0));
}
