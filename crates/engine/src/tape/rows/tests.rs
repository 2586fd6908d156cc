use super::*;
use arrow_array::types::Int32Type;
use arrow_array::{
    BinaryArray, Decimal128Array, FixedSizeBinaryArray, Float64Array, StringArray, TimestampNanosecondArray,
    UInt8Array,
};
use arrow_schema::Field;
use proptest::prelude::*;
use tickstone_model::ElementType;

fn check(types: &[ColumnType], columns: &[ArrayRef]) {
    let mut out = Encoder::default();
    encode_columns(&mut out, columns);
    let bytes = out.finish();
    let rows = columns[0].len();
    let mut input = Decoder::new(&bytes);
    let read = decode_columns(&mut input, rows, Some(types)).unwrap();
    input.finish().unwrap();
    assert_eq!(read, columns);
    let mut skipped = Decoder::new(&bytes);
    assert!(decode_columns(&mut skipped, rows, None).unwrap().is_empty());
    skipped.finish().unwrap();
    // A shorter record is an error, whatever is cut.
    for length in 0..bytes.len() {
        assert!(
            decode_columns(&mut Decoder::new(&bytes[..length]), rows, Some(types)).is_err(),
            "cut to {length}"
        );
    }
}

#[test]
fn every_type_is_read_back_also_from_slices() {
    let types = [
        ColumnType::Boolean,
        ColumnType::UInt8,
        ColumnType::Float64,
        ColumnType::Timestamp,
        ColumnType::Varchar,
        ColumnType::Binary,
        ColumnType::Uuid,
        ColumnType::Decimal { precision: 38, scale: 10 },
        ColumnType::Array(ElementType::Int32),
        ColumnType::Array(ElementType::Boolean),
        ColumnType::Array(ElementType::Varchar),
    ];
    let uuid = FixedSizeBinaryArray::try_from_iter((0..12_u8).map(|i| [i; 16])).unwrap();
    let decimals = Decimal128Array::from_iter((0..12).map(|i| (i % 3 != 0).then_some(i128::MAX / 1_000 * i)));
    let numbers = (0..12).map(|i| (i % 4 != 1).then(|| (0..i % 5).map(move |n| (n != 2).then_some(n - i))));
    let numbers = ListArray::from_iter_primitive::<Int32Type, _, _>(numbers);
    let lists_of = |values: ArrayRef| -> ArrayRef {
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let (offsets, nulls) = (numbers.offsets().clone(), numbers.nulls().cloned());
        Arc::new(ListArray::new(field, offsets, values, nulls))
    };
    let elements = numbers.values().len();
    let flags = BooleanArray::from_iter((0..elements).map(|i| (i % 6 != 0).then_some(i % 2 == 0)));
    let words = StringArray::from_iter((0..elements).map(|i| (i % 3 != 0).then(|| "ß".repeat(i % 4))));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from_iter((0..12).map(|i| (i % 4 != 0).then_some(i % 3 == 0)))),
        Arc::new(UInt8Array::from_iter_values(0..12)),
        Arc::new(Float64Array::from_iter((0..12).map(|i| (i != 5).then_some(f64::from(i).sqrt())))),
        Arc::new(TimestampNanosecondArray::from_iter_values((0..12).map(|i| i64::MIN + i))),
        Arc::new(StringArray::from_iter((0..12).map(|i| (i % 5 != 0).then(|| "é".repeat(i))))),
        Arc::new(BinaryArray::from_iter_values((0..12_u8).map(|i| vec![i; usize::from(i)]))),
        Arc::new(uuid),
        Arc::new(decimals.with_precision_and_scale(38, 10).unwrap()),
        Arc::new(numbers.clone()),
        lists_of(Arc::new(flags)),
        lists_of(Arc::new(words)),
    ];
    for (offset, length) in [(0, 12), (3, 7), (8, 4), (5, 0)] {
        let sliced: Vec<ArrayRef> = columns.iter().map(|column| column.slice(offset, length)).collect();
        check(&types, &sliced);
    }
}

proptest! {
    #[test]
    fn noise_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), rows in 0_usize..50) {
        let types = [
            ColumnType::Varchar,
            ColumnType::Float64,
            ColumnType::Boolean,
            ColumnType::Array(ElementType::Float64),
            ColumnType::Array(ElementType::Varchar),
        ];
        let _ = decode_columns(&mut Decoder::new(&bytes), rows, Some(&types));
        for kind in 0..8 {
            let _ = super::super::change::decode_change(kind, &bytes, |_| Some(types.to_vec()));
        }
    }
}
