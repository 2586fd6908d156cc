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
    let rows = futures::executor::block_on(write(stream(), &Layout::new(format, compression), &mut out))
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
