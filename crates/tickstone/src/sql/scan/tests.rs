use super::*;

#[test]
fn statements_end_with_a_semicolon() {
    for text in ["", "  \n", "SELECT 1;", "SELECT 1; -- done", "SELECT ';';", "-- note", "SELECT 1; /* ; */ "]
    {
        assert!(is_complete(text), "{text}");
    }
    for text in ["SELECT 1", "SELECT ';", "SELECT \";", "SELECT 1 -- ;", "/* ;", "SELECT 1; SELECT 'it''s"] {
        assert!(!is_complete(text), "{text}");
    }
}
