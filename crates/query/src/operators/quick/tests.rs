use super::quick;
use datafusion::arrow::array::{
    DictionaryArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit, UInt32Type};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, IsNullExpr, LikeExpr, Literal, NegativeExpr,
};
use proptest::prelude::*;
use std::sync::Arc;

const SYMBOLS: [&str; 5] = ["buy", "sell", "b", "", "7"];

fn schema() -> SchemaRef {
    let symbol = DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8));
    let time = DataType::Timestamp(TimeUnit::Nanosecond, None);
    Arc::new(Schema::new(vec![
        Field::new("n", DataType::Int64, false),
        Field::new("side", symbol, true),
        Field::new("ts", time, true),
        Field::new("x", DataType::Float64, true),
    ]))
}

type Row = (Option<u32>, Option<i64>, Option<f64>);

fn batch(rows: &[Row]) -> RecordBatch {
    let symbols = Arc::new(StringArray::from(SYMBOLS.to_vec()));
    let sides = rows.iter().map(|row| row.0).collect();
    let sides = DictionaryArray::<UInt32Type>::try_new(sides, symbols).unwrap();
    let numbers = Int64Array::from_iter_values(0..rows.len() as i64);
    let times: TimestampNanosecondArray = rows.iter().map(|row| row.1).collect();
    let values: Float64Array = rows.iter().map(|row| row.2).collect();
    let columns =
        vec![Arc::new(numbers) as _, Arc::new(sides) as _, Arc::new(times) as _, Arc::new(values) as _];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn column(name: &str) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(name, schema().index_of(name).unwrap()))
}

fn side() -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new("side", 1))
}

fn literal(value: impl Into<ScalarValue>) -> Arc<dyn PhysicalExpr> {
    Arc::new(Literal::new(value.into()))
}

fn compare(op: Operator, with: &str) -> Arc<dyn PhysicalExpr> {
    let with = ScalarValue::Dictionary(Box::new(DataType::UInt32), Box::new(with.into()));
    Arc::new(BinaryExpr::new(side(), op, literal(with)))
}

/// Expressions over the side, and over the number beside it.
fn exprs() -> Vec<Arc<dyn PhysicalExpr>> {
    let number = || column("n");
    let text = || Arc::new(CastExpr::new(side(), DataType::Utf8, None)) as Arc<dyn PhysicalExpr>;
    let case = |when: Arc<dyn PhysicalExpr>, then, or| {
        Arc::new(CaseExpr::try_new(None, vec![(when, then)], Some(or)).unwrap()) as Arc<dyn PhysicalExpr>
    };
    vec![
        compare(Operator::Eq, "buy"),
        compare(Operator::NotEq, "nobody"),
        compare(Operator::Gt, "b"),
        Arc::new(IsNullExpr::new(side())),
        Arc::new(LikeExpr::new(false, false, text(), literal("%s%"))),
        case(compare(Operator::Eq, "buy"), literal(1_i64), literal(-1_i64)),
        case(compare(Operator::Lt, "c"), number(), literal(0_i64)),
        case(compare(Operator::Lt, "c"), literal(ScalarValue::Int64(None)), literal(0_i64)),
        // Only one symbol is a number.
        Arc::new(CastExpr::new(text(), DataType::Int64, None)),
        Arc::new(CastExpr::new(column("ts"), DataType::Date32, None)),
        case(compare(Operator::Eq, "buy"), number(), Arc::new(NegativeExpr::new(number()))),
        case(compare(Operator::Eq, "buy"), column("x"), literal(0.5)),
        case(Arc::new(IsNullExpr::new(column("x"))), literal(ScalarValue::Float64(None)), column("x")),
        // Row 0 cannot be divided by; it never is.
        case(
            Arc::new(BinaryExpr::new(number(), Operator::Gt, literal(0_i64))),
            Arc::new(BinaryExpr::new(literal(100_i64), Operator::Divide, number())),
            literal(-1_i64),
        ),
    ]
}

proptest! {
    #[test]
    fn equals_the_expression_itself(
        batches in prop::collection::vec(
            prop::collection::vec(
                (prop::option::of(0_u32..5), prop::option::weighted(0.9, any::<i64>()), prop::option::of(-9.0..9.0)), 0..40,
            ),
            1..3,
        ),
    ) {
        for expr in exprs() {
            let ours = quick(Arc::clone(&expr), &schema()).unwrap();
            prop_assert!(is_quick(&ours), "{}", expr);
            for rows in &batches {
                let batch = batch(rows);
                let of = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(&batch)?.into_array(batch.num_rows());
                match (of(&ours), of(&expr)) {
                    (Ok(ours), Ok(theirs)) => prop_assert_eq!(&ours, &theirs, "{}", expr),
                    (ours, theirs) => prop_assert_eq!(ours.is_err(), theirs.is_err(), "{}", expr),
                }
            }
        }
    }
}

fn is_quick(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let text = format!("{expr:?}");
    ["BySymbol", "Choice", "Days"].iter().any(|name| text.contains(name))
}

#[test]
fn what_is_left_alone() {
    let date = CastExpr::new(column("n"), DataType::Date32, None);
    for expr in [side(), literal(true), column("n"), Arc::new(date)] {
        assert!(!is_quick(&quick(expr, &schema()).unwrap()));
    }
    for expr in exprs() {
        let once = quick(expr, &schema()).unwrap();
        let twice = quick(Arc::clone(&once), &schema()).unwrap();
        assert_eq!(format!("{once:?}"), format!("{twice:?}"));
    }
}
