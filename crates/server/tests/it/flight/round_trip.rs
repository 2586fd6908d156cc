//! Rows of every type there and back: what comes is what went, to the bit.

use super::{all, ours, with_server};
use futures::{StreamExt, stream};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use std::sync::Arc;
use tickstone_client::Append;
use tickstone_query::arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, FixedSizeBinaryBuilder, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, LargeStringArray, ListArray, RecordBatch,
    StringArray, StringDictionaryBuilder, StringViewArray, TimestampNanosecondArray, UInt64Array,
};
use tickstone_query::arrow::compute::cast;
use tickstone_query::arrow::datatypes::{Float64Type, UInt16Type};

/// The rows of a table with a column of every type, NULLs in all but the time.
#[derive(Debug, Clone)]
struct Row {
    boolean: Option<bool>,
    tiny: Option<i8>,
    small: Option<i16>,
    int: Option<i32>,
    big: Option<i64>,
    unsigned: Option<u64>,
    float: Option<f32>,
    double: Option<f64>,
    decimal: Option<i64>,
    text: Option<String>,
    bytes: Option<Vec<u8>>,
    uuid: Option<[u8; 16]>,
    day: Option<i32>,
    symbol: Option<String>,
    levels: Option<Vec<Option<f64>>>,
}

fn row() -> impl Strategy<Value = Row> {
    let text = || "\\PC{0,20}";
    let numbers = (
        weighted(0.8, any::<bool>()),
        weighted(0.8, any::<i8>()),
        weighted(0.8, any::<i16>()),
        weighted(0.8, any::<i32>()),
        weighted(0.8, any::<i64>()),
        weighted(0.8, any::<u64>()),
        weighted(0.8, any::<f32>()),
        weighted(0.8, any::<f64>()),
        weighted(0.8, -999_999_999_i64..=999_999_999),
    );
    let others = (
        weighted(0.8, text()),
        weighted(0.8, vec(any::<u8>(), 0..20)),
        weighted(0.8, any::<[u8; 16]>()),
        weighted(0.8, -20_000..60_000_i32),
        weighted(0.8, "[A-Z]{1,2}"),
        weighted(0.8, vec(weighted(0.8, any::<f64>()), 0..5)),
    );
    (numbers, others).prop_map(|(numbers, others)| {
        let (boolean, tiny, small, int, big, unsigned, float, double, decimal) = numbers;
        let (text, bytes, uuid, day, symbol, levels) = others;
        Row {
            boolean,
            tiny,
            small,
            int,
            big,
            unsigned,
            float,
            double,
            decimal,
            text,
            bytes,
            uuid,
            day,
            symbol,
            levels,
        }
    })
}

/// The rows as columns; texts in one of the forms that Arrow has.
fn batch(rows: &[Row], from: i64, form: usize) -> RecordBatch {
    fn column<T>(rows: &[Row], of: impl Fn(&Row) -> Option<T>) -> Vec<Option<T>> {
        rows.iter().map(of).collect()
    }
    let texts = || rows.iter().map(|row| row.text.as_deref());
    let text: ArrayRef = match form % 3 {
        0 => Arc::new(texts().collect::<StringArray>()),
        1 => Arc::new(texts().collect::<LargeStringArray>()),
        _ => Arc::new(texts().collect::<StringViewArray>()),
    };
    let mut uuids = FixedSizeBinaryBuilder::new(16);
    let mut symbols = StringDictionaryBuilder::<UInt16Type>::new();
    for row in rows {
        match &row.uuid {
            Some(uuid) => uuids.append_value(uuid).expect("16 bytes"),
            None => uuids.append_null(),
        }
        symbols.append_option(row.symbol.as_deref());
    }
    let decimals = Decimal128Array::from(column(rows, |row| row.decimal.map(i128::from)));
    let levels =
        ListArray::from_iter_primitive::<Float64Type, _, _>(rows.iter().map(|row| row.levels.clone()));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(from..from + rows.len() as i64))),
        ("boolean", Arc::new(BooleanArray::from(column(rows, |row| row.boolean)))),
        ("tiny", Arc::new(Int8Array::from(column(rows, |row| row.tiny)))),
        ("small", Arc::new(Int16Array::from(column(rows, |row| row.small)))),
        ("int", Arc::new(Int32Array::from(column(rows, |row| row.int)))),
        ("big", Arc::new(Int64Array::from(column(rows, |row| row.big)))),
        ("unsigned", Arc::new(UInt64Array::from(column(rows, |row| row.unsigned)))),
        ("float", Arc::new(Float32Array::from(column(rows, |row| row.float)))),
        ("double", Arc::new(Float64Array::from(column(rows, |row| row.double)))),
        ("decimal", Arc::new(decimals.with_precision_and_scale(12, 3).expect("a decimal"))),
        ("text", text),
        ("bytes", Arc::new(rows.iter().map(|row| row.bytes.as_deref()).collect::<BinaryArray>())),
        ("uuid", Arc::new(uuids.finish())),
        ("day", Arc::new(Date32Array::from(column(rows, |row| row.day)))),
        ("symbol", Arc::new(symbols.finish())),
        ("levels", Arc::new(levels)),
    ];
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, name != "ts")),
    )
    .expect("a batch")
}

const TABLE: &str = "CREATE TABLE every (ts TIMESTAMP, \"boolean\" BOOLEAN, tiny TINYINT, small SMALLINT, \"int\" INT, \
    big BIGINT, \"unsigned\" BIGINT UNSIGNED, \"float\" FLOAT, \"double\" DOUBLE, \"decimal\" DECIMAL(12, 3), \
    \"text\" VARCHAR, bytes BINARY, \"uuid\" UUID, day DATE, symbol SYMBOL, levels DOUBLE[]) TIMESTAMP(ts)";

#[test]
fn rows_of_every_type_come_back_as_they_went() {
    let seed: [u8; 32] = std::array::from_fn(|at| {
        use std::hash::{BuildHasher, RandomState};
        RandomState::new().hash_one(at).to_le_bytes()[0]
    });
    eprintln!("seed {seed:?}");
    let random =
        proptest::test_runner::TestRng::from_seed(proptest::test_runner::RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let mut made = |most: usize| vec(row(), 0..most).new_tree(&mut runner).expect("rows").current();
    let rounds: Vec<Vec<Vec<Row>>> =
        (0..12).map(|round| (0..=round % 3).map(|_| made(300)).collect()).collect();
    with_server(|served| async move {
        let client = ours(&served).await;
        for (round, batches) in rounds.into_iter().enumerate() {
            if round % 2 == 0 {
                client.execute("DROP TABLE IF EXISTS every", None).await.expect("dropped");
                client.execute(TABLE, None).await.expect("a table");
            } else {
                client.execute("TRUNCATE every", None).await.expect("emptied");
            }
            let mut from = 0;
            let batches: Vec<RecordBatch> = batches
                .iter()
                .map(|rows| {
                    let made = batch(rows, from, round);
                    from += rows.len() as i64;
                    made
                })
                .collect();
            let sent = tickstone_query::arrow::compute::concat_batches(&batches[0].schema(), &batches)
                .expect("rows");
            let rows = stream::iter(batches).map(Ok);
            let stored = client.append(&Append::to("every"), &sent.schema(), rows).await.expect("stored");
            assert_eq!(stored, sent.num_rows() as u64);
            if round % 4 == 3 {
                client.execute("CHECKPOINT", None).await.expect("sealed");
            }
            let back = all(&client, "SELECT * FROM every ORDER BY ts").await.expect("rows");
            for (place, field) in sent.schema().fields().iter().enumerate() {
                let back = cast(back.column(place), field.data_type()).expect("the type that went");
                assert_eq!(same(&back), same(sent.column(place)), "{} of round {round}", field.name());
            }
        }
    });
}

/// The values of a column as what two can be compared by: NaN is like NaN of the same bits.
fn same(column: &ArrayRef) -> Vec<Option<String>> {
    use tickstone_query::arrow::array::{Array, AsArray};
    use tickstone_query::arrow::datatypes::{DataType, Float32Type};
    use tickstone_query::arrow::util::display::{ArrayFormatter, FormatOptions};
    let bits = |value: f64| if value.is_nan() { "NaN".to_string() } else { format!("{:x}", value.to_bits()) };
    let text = |row: usize| match column.data_type() {
        DataType::Float64 => bits(column.as_primitive::<Float64Type>().value(row)),
        DataType::Float32 => bits(f64::from(column.as_primitive::<Float32Type>().value(row))),
        DataType::List(_) => format!("{:?}", same(&column.as_list::<i32>().value(row))),
        _ => {
            let options = FormatOptions::default();
            ArrayFormatter::try_new(column, &options).expect("it can be shown").value(row).to_string()
        }
    };
    (0..column.len()).map(|row| column.is_valid(row).then(|| text(row))).collect()
}
