use super::*;
use parquet::data_type::{Int64Type, Int96, Int96Type};
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

/// The Julian day of 1970-01-01.
const EPOCH: u32 = 2_440_588;

/// A file of a number and a time a row, the time by its days since 1970 and its nanoseconds.
fn file(times: &[Option<(i32, u64)>]) -> File {
    let schema = parse_message_type("message m { required int64 id; optional int96 t; }").expect("a schema");
    let mut file = tempfile::tempfile().expect("a file");
    let mut writer =
        SerializedFileWriter::new(&mut file, Arc::new(schema), Arc::default()).expect("a writer");
    let mut group = writer.next_row_group().expect("a group");
    let ids: Vec<i64> = (0..).take(times.len()).collect();
    let mut column = group.next_column().expect("it opens").expect("a column");
    column.typed::<Int64Type>().write_batch(&ids, None, None).expect("it writes");
    column.close().expect("it closes");
    let values = times.iter().flatten().map(|(days, nanos)| {
        let mut value = Int96::new();
        value.set_data(*nanos as u32, (nanos >> 32) as u32, EPOCH.wrapping_add_signed(*days));
        value
    });
    let levels: Vec<i16> = times.iter().map(|time| i16::from(time.is_some())).collect();
    let mut column = group.next_column().expect("it opens").expect("a column");
    let values: Vec<Int96> = values.collect();
    column.typed::<Int96Type>().write_batch(&values, Some(&levels), None).expect("it writes");
    column.close().expect("it closes");
    group.close().expect("it closes");
    writer.close().expect("it closes");
    file
}

fn found(times: &[Option<(i32, u64)>]) -> Option<String> {
    let file = file(times);
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).expect("a footer");
    let past = past_time(&file, &metadata).expect("it reads");
    past.map(|past| format!("{} {}", past.column, past.what))
}

#[test]
fn times_that_would_wrap_around_are_found() {
    assert_eq!(found(&[]), None);
    assert_eq!(found(&[None, Some((0, 0)), Some((19_943, 86_399_999_999_999))]), None);
    assert_eq!(found(&[Some((106_750, 5)), Some((-106_750, 5))]), None);
    let past =
        |row, time: &str| Some(format!("t row {row}: {time} is no time between the years 1677 and 2262"));
    assert_eq!(found(&[Some((0, 0)), None, Some((2_932_896, 0))]), past(3, "9999-12-31 00:00:00"));
    assert_eq!(found(&[Some((-719_162, 0))]), past(1, "0001-01-01 00:00:00"));
}
