use super::*;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use tickstone_query::arrow::array::{
    DictionaryArray, Float32Array, Float64Array, Int64Array, ListArray, StructArray, TimestampNanosecondArray,
};
use tickstone_query::arrow::datatypes::{Field, Fields, Int32Type};

/// The values of a column as they are written.
#[track_caller]
fn written(array: ArrayRef, quote_large: bool) -> Vec<String> {
    let batch = RecordBatch::try_from_iter_with_nullable([("x", array, true)]).expect("a batch");
    let mut values = Values::of(&batch, quote_large).expect("values");
    let row = |row| {
        let mut out = Vec::new();
        values.array(row, &mut out);
        let text = String::from_utf8(out).expect("UTF-8");
        text[1..text.len() - 1].to_string()
    };
    (0..batch.num_rows()).map(row).collect()
}

/// The same, read back.
#[track_caller]
fn read_back(array: ArrayRef, quote_large: bool) -> Vec<Value> {
    let texts = written(array, quote_large);
    texts.iter().map(|text| serde_json::from_str(text).expect(text)).collect()
}

/// Numbers that look random, another series each time; the seed is printed where a test fails.
struct Random(u64);

impl Random {
    fn new() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        let seed = now.as_nanos() as u64 | 1;
        println!("seed {seed}");
        Self(seed)
    }

    /// xorshift64*.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

#[test]
fn doubles_read_back_as_they_were() {
    let mut random = Random::new();
    let doubles: Vec<f64> = (0..20_000).map(|_| f64::from_bits(random.next())).collect();
    for (double, text) in doubles.iter().zip(written(Arc::new(Float64Array::from(doubles.clone())), false)) {
        match double.is_finite() {
            true => assert_eq!(text.parse(), Ok(*double)),
            false => assert_eq!(text, "null"),
        }
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
    }
    let floats: Vec<f32> = (0..20_000).map(|_| f32::from_bits(random.next() as u32)).collect();
    for (float, text) in floats.iter().zip(written(Arc::new(Float32Array::from(floats.clone())), false)) {
        match float.is_finite() {
            true => assert_eq!(text.parse(), Ok(*float)),
            false => assert_eq!(text, "null"),
        }
    }
}

#[test]
fn texts_read_back_as_they_were() {
    let mut random = Random::new();
    // Control characters, ASCII, and all of Unicode.
    let mut character =
        || char::from_u32((random.next() % [0x20, 0x80, 0x11_0000][random.next() as usize % 3]) as u32);
    let texts = (0..20_000).map(|row| (0..row % 20).filter_map(|_| character()).collect());
    let texts: Vec<String> = texts.collect();
    let wanted: Vec<Value> = texts.iter().map(|text| json!(text)).collect();
    assert_eq!(read_back(Arc::new(StringArray::from(texts)), false), wanted);
}

#[test]
fn times_have_nine_digits_and_look_as_elsewhere() {
    let mut random = Random::new();
    let mut times: Vec<i64> = (0..20_000).map(|_| random.next().cast_signed()).collect();
    times.extend([0, -1, 1, i64::MIN, i64::MAX, DAY_NANOS, DAY_NANOS - 1, -DAY_NANOS]);
    let array: ArrayRef = Arc::new(TimestampNanosecondArray::from(times));
    let cells = Cells::new(&array, TimeStyle::Full).expect("cells");
    for (row, found) in read_back(Arc::clone(&array), false).into_iter().enumerate() {
        let mut wanted = String::new();
        cells.write(row, &mut wanted);
        assert_eq!(found, json!(wanted));
    }
}

#[test]
fn nested_values_and_nulls() {
    let inner =
        ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![])]);
    assert_eq!(read_back(Arc::new(inner), false), [json!([1, null]), json!(null), json!([])]);
    let fields = Fields::from(vec![Field::new("k \"1\"", DataType::Int64, true)]);
    let large: ArrayRef = Arc::new(Int64Array::from(vec![Some(i64::MAX), None]));
    let objects = StructArray::new(fields, vec![large], None);
    let wanted = [json!({"k \"1\"": i64::MAX.to_string()}), json!({"k \"1\"": null})];
    assert_eq!(read_back(Arc::new(objects), true), wanted);
    let symbols: DictionaryArray<UInt32Type> = [Some("a\n"), None, Some("b")].into_iter().collect();
    assert_eq!(read_back(Arc::new(symbols), false), [json!("a\n"), json!(null), json!("b")]);
}

/// How fast it is: `cargo test --release -p tickstone-server -- --ignored --nocapture values_a_second`.
#[test]
#[ignore = "measures"]
fn values_a_second() {
    const ROWS: usize = 1_000_000;
    let mut random = Random::new();
    let symbols: DictionaryArray<UInt32Type> =
        (0..ROWS).map(|row| ["BTC-USD", "ETH-USD", "SOL-USD"][row % 3]).collect();
    let doubles: Float64Array =
        (0..ROWS).map(|_| Some((random.next() % 10_000_000) as f64 / 100.0)).collect();
    let whole: Int64Array = (0..ROWS).map(|_| Some((random.next() % 1_000_000).cast_signed())).collect();
    let times = (0..ROWS as i64).map(|row| 1_723_109_400_000_000_000 + row * 1_234_567);
    let times = TimestampNanosecondArray::from_iter_values(times);
    let texts: StringArray = (0..ROWS).map(|row| Some(format!("order {row}"))).collect();
    let columns: [(&str, ArrayRef); 5] = [
        ("symbol", Arc::new(symbols)),
        ("double", Arc::new(doubles)),
        ("bigint", Arc::new(whole)),
        ("timestamp", Arc::new(times)),
        ("varchar", Arc::new(texts)),
    ];
    let measure = |name: &str, batch: &RecordBatch| {
        let mut out = Vec::with_capacity(1 << 20);
        let begun = Instant::now();
        for offset in (0..ROWS).step_by(1_000) {
            out.clear();
            let piece = batch.slice(offset, 1_000);
            let mut values = Values::of(&piece, false).expect("values");
            (0..1_000).for_each(|row| values.array(row, &mut out));
            std::hint::black_box(&out);
        }
        let count = ROWS * batch.num_columns();
        println!("{name}: {:.1} million values/s", count as f64 / begun.elapsed().as_secs_f64() / 1e6);
    };
    for (name, array) in &columns {
        measure(name, &RecordBatch::try_from_iter([(*name, Arc::clone(array))]).expect("a batch"));
    }
    measure("all", &RecordBatch::try_from_iter(columns).expect("a batch"));
}
