use super::*;
use arrow_array::types::UInt32Type;
use arrow_array::{DictionaryArray, Int64Array, StringArray, UInt32Array};
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_schema::{Field, Schema};
use futures::TryStreamExt;
use futures::executor::block_on;

fn dictionary(values: &ArrayRef, keys: Vec<Option<u32>>) -> DictionaryArray<UInt32Type> {
    DictionaryArray::new(UInt32Array::from(keys), Arc::clone(values))
}

fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
    let fields: Vec<Field> = columns
        .iter()
        .enumerate()
        .map(|(place, column)| Field::new(format!("c{place}"), column.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("a batch")
}

fn sent(batches: &[RecordBatch]) -> (Vec<usize>, Vec<RecordBatch>) {
    let schema = batches[0].schema();
    let input = stream::iter(batches.to_vec()).map(Ok);
    let encoded =
        block_on(messages(&schema, None, Bytes::new(), input).try_collect::<Vec<_>>()).expect("messages");
    let sizes = encoded.iter().map(|message| message.data_body.len()).collect();
    let decoded = FlightRecordBatchStream::new_from_flight_data(stream::iter(encoded).map(Ok));
    (sizes, block_on(decoded.try_collect()).expect("batches"))
}

fn texts(batches: &[RecordBatch]) -> Vec<Option<String>> {
    let of = |batch: &RecordBatch| {
        let column = batch.column(0).as_dictionary::<UInt32Type>().clone();
        let values = column.downcast_dict::<StringArray>().expect("texts");
        values.into_iter().map(|text| text.map(str::to_string)).collect::<Vec<_>>()
    };
    batches.iter().flat_map(of).collect()
}

#[test]
fn large_batches_are_cut_and_slices_are_not_mistaken_for_them() {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1_000_000));
    let whole = batch(vec![Arc::clone(&numbers)]);
    let (sizes, back) = sent(std::slice::from_ref(&whole));
    assert!(sizes.iter().all(|bytes| *bytes <= MESSAGE_BYTES_MAX), "{sizes:?}");
    assert_eq!(back.iter().map(RecordBatch::num_rows).sum::<usize>(), 1_000_000);
    assert_eq!(back.len(), 4);
    let (_, back) = sent(&[whole.slice(500_000, 1_000)]);
    assert_eq!(back, [whole.slice(500_000, 1_000)]);
}

#[test]
fn a_large_dictionary_comes_once_and_only_for_many_rows() {
    let values: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..5_000).map(|at| format!("symbol {at}"))));
    let few = batch(vec![Arc::new(dictionary(&values, vec![Some(4_999), None, Some(17)]))]);
    let (sizes, back) = sent(std::slice::from_ref(&few));
    assert!(sizes.iter().sum::<usize>() < 1_000, "{sizes:?}");
    assert_eq!(texts(&back), texts(&[few]));

    let many: Vec<RecordBatch> = (0..20)
        .map(|at| batch(vec![Arc::new(dictionary(&values, (0..1_000).map(|key| Some(key + at)).collect()))]))
        .collect();
    let (sizes, back) = sent(&many);
    let whole = bytes_of(&values);
    assert_eq!(sizes.iter().filter(|bytes| **bytes >= whole).count(), 1, "{sizes:?}");
    assert_eq!(sizes.iter().rev().take(15).filter(|bytes| **bytes > 5_000).count(), 0, "{sizes:?}");
    assert_eq!(texts(&back), texts(&many));
}

#[test]
fn dictionaries_that_differ_each_time_are_sent_by_what_is_used() {
    let many: Vec<RecordBatch> = (0..5)
        .map(|at| {
            let values: ArrayRef =
                Arc::new(StringArray::from_iter_values((0..20_000).map(|value| format!("{at} {value}"))));
            batch(vec![Arc::new(dictionary(&values, (0..2_000).map(|key| Some(key * 7)).collect()))])
        })
        .collect();
    let (sizes, back) = sent(&many);
    assert!(sizes.iter().all(|bytes| *bytes < 60_000), "{sizes:?}");
    assert_eq!(texts(&back), texts(&many));
}
