use super::*;
use datafusion::arrow::array::{DictionaryArray, Int64Array, UInt32Array};

fn dictionary(values: &[&str], ids: &[Option<u32>]) -> ArrayRef {
    let keys = UInt32Array::from(ids.to_vec());
    Arc::new(DictionaryArray::new(keys, Arc::new(StringArray::from(values.to_vec()))))
}

fn read(ids: &mut KeyIds, reader: &mut KeyReader, columns: &[ArrayRef]) -> Vec<u32> {
    let mut out = Vec::new();
    ids.read(columns, columns[0].len(), reader, &mut out).expect("readable");
    out
}

#[test]
fn dictionaries_and_strings_share_ids() {
    let first = dictionary(&["a", "b", "c"], &[Some(2), Some(0), None, Some(2)]);
    let second = dictionary(&["c", "x", "c"], &[Some(0), Some(1), Some(2)]);
    let plain: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None, Some("a"), Some("new")]));
    let mut ids = KeyIds::try_new(&[first.data_type().clone()]).expect("a key type");
    let (mut left, mut right) = (KeyReader::new(1), KeyReader::new(1));
    assert_eq!(read(&mut ids, &mut left, &[first]), [0, 1, 2, 0]);
    assert_eq!(read(&mut ids, &mut right, &[second]), [0, 3, 0]);
    assert_eq!(read(&mut ids, &mut right, &[plain]), [3, 2, 1, 4]);
    assert_eq!((0..5).map(|id| ids.is_null(id)).collect::<Vec<_>>(), [false, false, true, false, false]);
}

#[test]
fn pairs_past_the_small_ones_have_ids_of_their_own() {
    let count = 40_000_i64;
    let columns: [ArrayRef; 2] = [
        Arc::new(Int64Array::from_iter_values((0..count).map(|n| n / 2))),
        Arc::new(Int64Array::from_iter_values((0..count).map(|n| n % 100))),
    ];
    let mut ids = KeyIds::try_new(&[DataType::Int64, DataType::Int64]).expect("key types");
    let mut reader = KeyReader::new(2);
    let first = read(&mut ids, &mut reader, &columns);
    assert_eq!(first, (0..40_000).collect::<Vec<u32>>());
    assert_eq!(read(&mut ids, &mut reader, &columns), first);
    assert_eq!(ids.len(), 40_000);
}

#[test]
fn several_columns_make_one_key() {
    let symbol = dictionary(&["a", "b"], &[Some(0), Some(0), Some(1), Some(0), None]);
    let number: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(1), Some(1), None, Some(1)]));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x", "x", "x", "x", "x"]));
    let columns = [symbol, number, text];
    let types: Vec<_> = columns.iter().map(|c| c.data_type().clone()).collect();
    let mut ids = KeyIds::try_new(&types).expect("key types");
    let mut reader = KeyReader::new(3);
    assert_eq!(read(&mut ids, &mut reader, &columns), [0, 0, 1, 2, 3]);
    assert_eq!((0..4).map(|id| ids.is_null(id)).collect::<Vec<_>>(), [false, false, true, true]);
    assert_eq!(ids.len(), 4);
}
