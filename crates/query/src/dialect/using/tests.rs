//! Joins by USING and NATURAL.

use crate::dialect::{Statement as Parsed, parse, resolve_names};
use crate::error::SqlError;

/// The statement with its names resolved, over `t (k, a)`, `u (k, b)` and `"V" ("K", c)`.
fn resolved(sql: &str) -> Result<String, SqlError> {
    let catalog = |name: &str| {
        let (name, columns): (&str, &[&str]) = match name.to_lowercase().as_str() {
            "t" => ("t", &["k", "a"]),
            "u" => ("u", &["k", "b"]),
            "v" => ("V", &["K", "c"]),
            _ => return None,
        };
        Some((name.to_string(), columns.iter().map(|name| (*name).to_string()).collect()))
    };
    let mut statement = parse(sql)?.remove(0);
    resolve_names(&mut statement, &catalog, &|_| None)?;
    match statement {
        Parsed::Query(query) => Ok(query.to_string().replace('"', "")),
        other => panic!("{other:?} is no query"),
    }
}

#[test]
fn a_key_is_what_the_kind_of_the_join_makes_of_it() {
    let both = "coalesce(t.k, u.k)";
    for (kind, key) in [("", "t.k"), ("LEFT ", "t.k"), ("RIGHT ", "u.k"), ("FULL ", both)] {
        let sql = format!("SELECT k + 1 FROM t {kind}JOIN u USING (k) WHERE k > 2 GROUP BY k");
        let wanted = format!(
            "SELECT {key} + 1 AS k + 1 FROM t {kind}JOIN u ON t.k = u.k WHERE {key} > 2 GROUP BY {key}"
        );
        assert_eq!(resolved(&sql), Ok(wanted));
        let named = if key == both { format!("{key} AS k") } else { key.to_string() };
        let wanted = format!("SELECT {named}, t.a, u.b FROM t {kind}JOIN u ON t.k = u.k");
        assert_eq!(resolved(&format!("SELECT * FROM t NATURAL {kind}JOIN u")), Ok(wanted));
    }
}

#[test]
fn a_chain_has_one_key() {
    let wanted = "SELECT coalesce(coalesce(t.k, u.k), V.K) AS k, V.c FROM t FULL JOIN u ON t.k = u.k FULL JOIN V ON \
                  coalesce(t.k, u.k) = V.K";
    assert_eq!(
        resolved("SELECT * EXCLUDE (a, B) FROM t FULL JOIN u USING (k) FULL JOIN v USING (k)"),
        Ok(wanted.to_string())
    );
}

#[test]
fn a_name_that_the_list_gives_is_its_own() {
    let from = "FROM t FULL JOIN u ON t.k = u.k";
    for (list, order, wanted_list, wanted_order) in [
        ("k", "k", "coalesce(t.k, u.k) AS k", "k"),
        ("a AS k", "k", "a AS k", "k"),
        ("t.k", "k, u.k", "t.k", "t.k, u.k"),
        ("a", "k DESC", "a", "coalesce(t.k, u.k) DESC"),
        ("(SELECT k)", "a", "(SELECT k AS k)", "a"),
    ] {
        let sql = format!("SELECT {list} FROM t FULL JOIN u USING (k) ORDER BY {order}");
        assert_eq!(resolved(&sql), Ok(format!("SELECT {wanted_list} {from} ORDER BY {wanted_order}")));
    }
}

#[test]
fn what_is_not_known_stays_or_is_refused() {
    let left = "SELECT * FROM t LEFT JOIN (SELECT * FROM f(1)) q USING(k)";
    assert_eq!(resolved(left), Ok(left.to_string()));
    for (sql, wanted) in [
        (left.replace("LEFT", "FULL"), "not all known here at line 1, column 28"),
        (left.replace("LEFT", "RIGHT"), "not all known here"),
        ("SELECT 1 FROM t JOIN u USING (a)".to_string(), "no column 'a' is on the right side"),
        (
            "SELECT 1 FROM t JOIN u ON true JOIN v USING (k)".to_string(),
            "left side of JOIN … USING may be any of t.k, u.k",
        ),
    ] {
        let error = resolved(&sql).unwrap_err().to_string();
        assert!(error.contains(wanted), "{sql}: {error}");
    }
}
