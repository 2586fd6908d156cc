use super::super::parse;

fn error(sql: &str) -> String {
    match parse(sql) {
        Ok(_) => panic!("{sql} was let through"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_clause_is_refused_where_it_stands_and_not_at_a_name_like_it() {
    let of_second = "SELECT x FROM t UNION ALL SELECT TOP 3 x FROM t";
    assert_eq!(error(of_second), "TOP is not supported at line 1, column 34");
    let of_inner = "SELECT format FROM (SELECT format FROM t FORMAT csv) q";
    assert!(error(of_inner).starts_with("FORMAT is not supported"), "{}", error(of_inner));
}

#[test]
fn long_chains_keep_their_order() {
    let terms: Vec<String> = (0..100).map(|at| format!("x = {at}")).collect();
    let chain = |sql: &str| {
        let statement = parse(sql).unwrap_or_else(|error| panic!("{error}")).remove(0);
        let super::super::Statement::Query(query) = statement else { panic!("no query") };
        query.to_string()
    };
    let sql = format!("SELECT 1 FROM t WHERE {}", terms.join(" OR "));
    assert_eq!(chain(&sql), sql);
    let selects: Vec<String> = (0..100).map(|at| format!("SELECT {at}")).collect();
    let sql = selects.join(" UNION ALL ");
    assert_eq!(chain(&sql), sql);
}
