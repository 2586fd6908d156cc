use super::*;
use arrow_array::{ArrayRef, Float64Array, StringArray};
use std::sync::Arc;

#[test]
fn numbers_stand_to_the_right_and_null_is_said() {
    let batch = RecordBatch::try_from_iter([
        ("symbol", Arc::new(StringArray::from(vec![Some("BTC-USD"), None])) as ArrayRef),
        ("price", Arc::new(Float64Array::from(vec![1.5, 20_123.45]))),
    ])
    .expect("columns agree");
    let rows = Rows { schema: batch.schema(), kept: 2, total: 3, batches: vec![batch] };
    assert!(rows.cut());
    let expect = "\
┌─────────┬──────────┐
│ symbol  ┆ price    │
╞═════════╪══════════╡
│ BTC-USD ┆      1.5 │
│ NULL    ┆ 20123.45 │
└─────────┴──────────┘
";
    assert_eq!(rows.text().expect("shown"), expect);
}
