//! What users read of errors that come from below.

use super::*;
use datafusion::common::Span;

#[test]
fn an_engine_error_keeps_its_kind_through_datafusion() {
    let inner = EngineError::NoSuchTable { name: "t".to_string() };
    let wrapped = DataFusionError::Context("reading".to_string(), Box::new(external(inner)));
    let arrow = ArrowError::ExternalError(Box::new(wrapped));
    let error = QueryError::from(from_arrow(arrow));
    assert_eq!(error.kind, ErrorKind::FixRequest);
    assert_eq!(error.message, "table 't' does not exist");
}

#[test]
fn an_unknown_column_is_answered_with_the_nearest() {
    let valid_fields = vec![Column::from_name("price"), Column::from_name("amount")];
    let field = Box::new(Column::from_name("prise"));
    let error = SchemaError::FieldNotFound { field, valid_fields: valid_fields.clone() };
    let error = QueryError::from(DataFusionError::SchemaError(Box::new(error), Box::new(None)));
    assert_eq!(error.to_string(), "column 'prise' does not exist\nhint: did you mean 'price'?");
    let field = Box::new(Column::from_name("colour"));
    let error = SchemaError::FieldNotFound { field, valid_fields };
    let error = QueryError::from(DataFusionError::SchemaError(Box::new(error), Box::new(None)));
    assert_eq!(
        error.hint.as_deref(),
        Some("columns are price, amount; a text stands in single quotes: 'colour'")
    );
}

#[test]
fn a_diagnostic_gives_the_place() {
    let location = |column| datafusion::common::Location { line: 2, column };
    let span = Span::new(location(8), location(13));
    let diagnostic = Diagnostic::new_error("wrong", Some(span)).with_help("do this", None);
    let error = DataFusionError::Plan("it is wrong".to_string());
    let error = QueryError::from(DataFusionError::Diagnostic(Box::new(diagnostic), Box::new(error)));
    assert_eq!(error.to_string(), "it is wrong at line 2, column 8\nhint: do this");
}

#[test]
fn edits_count_insertions_removals_and_exchanges() {
    for (from, to, wanted) in
        [("", "abc", 3), ("abc", "abc", 0), ("kitten", "sitting", 3), ("ab", "ba", 1), ("cuont", "count", 1)]
    {
        assert_eq!(edits(from, to), wanted, "{from} -> {to}");
        assert_eq!(edits(to, from), wanted, "{to} -> {from}");
    }
}

#[test]
fn memory_that_ran_out_says_what_to_free() {
    let of_pool =
        "Failed to allocate additional 244.1 MB for IN[0] with 0.0 B already allocated - 244.1 MB remain";
    let error = QueryError::from(DataFusionError::ResourcesExhausted(of_pool.to_string()));
    assert_eq!(error.message, "IN needs 244.1 MB more than there is room for (query_memory)");
    let error = QueryError::from(DataFusionError::ResourcesExhausted("no more".to_string()));
    assert_eq!(error.kind, ErrorKind::FreeSpace);
    assert!(error.hint.is_some());
}

#[test]
fn a_value_that_a_function_cannot_take_is_no_defect() {
    let kind = |message: &str| QueryError::from(DataFusionError::Internal(message.to_string())).kind;
    assert_eq!(kind("array_resize: failed to convert size to usize"), ErrorKind::FixRequest);
    assert_eq!(kind("Unsupported data type Date32 for function ascii"), ErrorKind::FixRequest);
    assert_eq!(kind("Field index out of bounds"), ErrorKind::Report);
    let foreign: Box<dyn std::error::Error + Send + Sync> = "x".parse::<i32>().expect_err("no number").into();
    assert_eq!(QueryError::from(DataFusionError::External(foreign)).kind, ErrorKind::FixRequest);
}
