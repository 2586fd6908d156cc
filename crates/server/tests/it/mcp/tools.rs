//! What the tools and resources of MCP give, and what they refuse.

use super::{ask, call, filled, refused};
use crate::Served;
use serde_json::{Value, json};

#[test]
fn an_empty_database() {
    let served = Served::new(&[]);
    let (text, result) = call(&served, "list_tables", json!({}));
    assert_eq!(
        (text.as_str(), &result["structuredContent"]["tables"]),
        ("There are no tables yet.", &json!([]))
    );
    let schema = ask(&served, "resources/read", json!({ "uri": "tickstone://schema" }));
    assert_eq!(schema["result"]["contents"][0]["text"], "-- there are no tables yet\n");
    for tool in ["describe_table", "sample_rows"] {
        let error = refused(&served, tool, json!({ "table": "t" }));
        assert_eq!(error, "error: table 't' does not exist\nhint: SHOW TABLES lists the tables");
    }
    served.done("CREATE TABLE t (ts TIMESTAMP, x INT) TIMESTAMP(ts)");
    let (text, result) = call(&served, "describe_table", json!({ "table": "t" }));
    assert!(text.contains("CREATE TABLE t") && text.contains("rows: 0"), "{text}");
    assert_eq!(result["structuredContent"]["first"], json!(null));
    assert_eq!(call(&served, "sample_rows", json!({ "table": "t" })).1["structuredContent"]["row_count"], 0);
}

#[test]
fn tables_are_described() {
    let served = filled(&[]);
    let (text, result) = call(&served, "list_tables", json!({}));
    let tables = &result["structuredContent"]["tables"];
    assert_eq!(tables[0]["table"], "highest");
    assert_eq!(tables[0]["kind"], "view");
    assert_eq!(
        tables[1],
        json!({
            "table": "trades", "kind": "table", "rows": 100, "first": "2024-08-08T09:30:00Z", "last": "2024-08-12T12:30:00Z",
            "timestamp": "ts", "series_key": ["symbol"], "partition_by": "DAY", "partitions": 5,
        })
    );
    assert!(text.contains("| trades | table | 100 | 2024-08-08T09:30:00Z |"), "{text}");
    let (_, result) = call(&served, "list_tables", json!({ "pattern": "RAD" }));
    assert_eq!(result["structuredContent"]["tables"].as_array().map(Vec::len), Some(1));
    let (text, result) = call(&served, "describe_table", json!({ "table": "TRADES" }));
    let data = &result["structuredContent"];
    assert_eq!(
        data["columns"][1],
        json!({ "column": "symbol", "type": "SYMBOL", "designated": false, "series": true, "nullable": true })
    );
    assert_eq!(data["symbols"]["symbol"], json!({ "different": 3, "some": ["S0", "S1", "S2"] }));
    assert_eq!(data["newest_partitions"][0], json!({ "partition": "2024-08-12", "rows": 13 }));
    assert_eq!(data["sample"]["rows"][0], json!(["2024-08-12T12:30:00Z", "S0", 49.5]));
    assert!(text.contains("CREATE TABLE trades (\n  ts "), "{text}");
    let (text, result) = call(&served, "describe_table", json!({ "table": "highest" }));
    assert!(text.contains("CREATE VIEW highest AS SELECT symbol, max(price)"), "{text}");
    assert_eq!(result["structuredContent"]["columns"][1]["column"], "high");
    let rows = |arguments| call(&served, "sample_rows", arguments).1["structuredContent"]["rows"].clone();
    assert_eq!(
        rows(json!({ "table": "trades", "count": 1, "order": "oldest" })),
        json!([["2024-08-08T09:30:00Z", "S0", 0]])
    );
    assert_eq!(rows(json!({ "table": "trades", "count": 40 })).as_array().map(Vec::len), Some(40));
    assert_eq!(rows(json!({ "table": "trades", "count": 100 })).as_array().map(Vec::len), Some(100));
    assert_eq!(rows(json!({ "table": "highest" })).as_array().map(Vec::len), Some(3));
}

/// Every clause of a table stands in its statement: it makes the same table again.
#[test]
fn statements_make_their_tables_again() {
    let statements = [
        "CREATE TABLE a (ts TIMESTAMP, symbol SYMBOL, x DOUBLE[]) TIMESTAMP(ts)",
        "CREATE TABLE b (x INT, d DECIMAL(12, 3), u UUID)",
        "CREATE TABLE \"c \"\"d\"\" é\" (\"select\" SYMBOL, \"T s\" TIMESTAMP, \"Case\" INT UNSIGNED) TIMESTAMP(\"T s\") SERIES BY () PARTITION BY MONTH",
        "CREATE TABLE e (ts TIMESTAMP, k SYMBOL, l SYMBOL, id BIGINT, s SYMBOL) TIMESTAMP(ts) SERIES BY (l, k) PARTITION BY HOUR \
         TTL 6 MONTHS DEDUP UPSERT KEYS (ts, k, l, id) INDEX (s) WITH (sync = 'interval')",
    ];
    let (first, again) = (Served::new(&[]), Served::new(&[]));
    for sql in statements {
        first.done(sql);
    }
    let answer = ask(&first, "resources/read", json!({ "uri": "tickstone://schema" }));
    let schema = answer["result"]["contents"][0]["text"].as_str().expect("a text");
    for sql in schema.split(";\n\n").filter(|sql| !sql.is_empty()) {
        again.done(sql);
    }
    for name in ["a", "b", "c \"d\" é", "e"] {
        let of = |served: &Served| {
            let snapshot = served.database.engine().snapshot();
            let table = snapshot.table(name).expect(name);
            table.schema().as_ref().clone()
        };
        assert_eq!(of(&first), of(&again), "{schema}");
    }
    let one = ask(&first, "resources/read", json!({ "uri": "tickstone://schema/c%20%22d%22%20%C3%A9" }));
    assert!(
        one["result"]["contents"][0]["text"]
            .as_str()
            .is_some_and(|text| text.starts_with("CREATE TABLE \"c \"\"d\"\" é\""))
    );
}

#[test]
fn resources_are_read() {
    let served = filled(&[("mcp_answer_bytes_max", "90B")]);
    let list = ask(&served, "resources/list", json!({}));
    let uris: Vec<&str> = list["result"]["resources"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|of| of["uri"].as_str())
        .collect();
    assert!(uris.contains(&"tickstone://docs/asof-join") && uris.len() > 10, "{uris:?}");
    for uri in uris {
        let read = ask(&served, "resources/read", json!({ "uri": uri }));
        assert!(read["result"]["contents"][0]["text"].as_str().is_some_and(|text| text.len() > 20), "{read}");
    }
    let schema = ask(&served, "resources/read", json!({ "uri": "tickstone://schema" }));
    let schema = schema["result"]["contents"][0]["text"].as_str().expect("a text");
    assert!(schema.contains("CREATE VIEW highest") && schema.contains("-- 1 more"), "{schema}");
    let templates = ask(&served, "resources/templates/list", json!({}));
    assert_eq!(templates["result"]["resourceTemplates"][0]["uriTemplate"], "tickstone://schema/{table}");
    for uri in [
        "tickstone://schema/none",
        "tickstone://schema/",
        "tickstone://docs/../README",
        "file:///etc/passwd",
        "x",
    ] {
        let answer = ask(&served, "resources/read", json!({ "uri": uri }));
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
    }
    assert_eq!(ask(&served, "resources/read", json!({}))["error"]["code"], -32602);
}

#[test]
fn queries_and_their_errors() {
    let served = filled(&[]);
    let (text, result) = call(
        &served,
        "query",
        json!({ "sql": "SELECT symbol, count(*) AS n FROM trades GROUP BY symbol ORDER BY symbol" }),
    );
    assert_eq!(text, "| symbol | n |\n| --- | --- |\n| S0 | 34 |\n| S1 | 33 |\n| S2 | 33 |\n\n3 rows.");
    assert_eq!(
        result["structuredContent"],
        json!({
            "columns": [{ "name": "symbol", "type": "SYMBOL" }, { "name": "n", "type": "BIGINT" }],
            "rows": [["S0", 34], ["S1", 33], ["S2", 33]], "row_count": 3, "truncated": false, "note": "3 rows.",
        })
    );
    let (text, result) = call(&served, "query", json!({ "sql": "SHOW TABLES", "format": "json" }));
    assert_eq!(serde_json::from_str::<Value>(&text).expect(&text), result["structuredContent"]);
    let error = refused(&served, "query", json!({ "sql": "SELECT symbol,\n  prize FROM trades" }));
    assert_eq!(
        error,
        "error: column 'prize' does not exist at line 2, column 3\npossible column trades.price\nhint: did you mean 'price'?"
    );
    for (arguments, wanted) in [
        (json!({}), "the argument 'sql' is missing"),
        (json!({ "sql": null }), "the argument 'sql' is missing"),
        (json!({ "sql": 7 }), "'sql' is a text"),
        (json!({ "sql": "SELECT 1", "limit": 0 }), "'limit' is a whole number from 1"),
        (json!({ "sql": "SELECT 1", "limit": -1 }), "'limit' is a whole number from 1"),
        (json!({ "sql": "SELECT 1", "format": "xml" }), "'format' is table or json"),
        (json!({ "sql": "SELECT 1", "rows": 7 }), "query has no argument 'rows'"),
        (json!({ "sql": "" }), "exactly one statement"),
        (json!({ "sql": "SELECT 1; SELECT 2" }), "exactly one statement"),
        (json!({ "sql": "SELECT $1" }), "$1"),
        (json!({ "sql": "SELEC 1" }), "SELEC"),
    ] {
        let error = refused(&served, "query", arguments.clone());
        assert!(error.contains(wanted), "{arguments}: {error}");
    }
}

#[test]
fn nothing_is_changed() {
    let served = filled(&[]);
    for sql in [
        "INSERT INTO trades VALUES ('2024-01-01', 'X', 1.0)",
        "WITH x AS (SELECT 1) INSERT INTO trades SELECT '2024-01-01', 'X', 1.0 FROM x",
        "EXPLAIN ANALYZE INSERT INTO trades VALUES ('2024-01-01', 'X', 1.0)",
        "EXPLAIN INSERT INTO trades VALUES ('2024-01-01', 'X', 1.0)",
        "SELECT * INTO other FROM trades",
        "DELETE FROM trades",
        "UPDATE trades SET price = 0",
        "TRUNCATE TABLE trades",
        "DROP TABLE trades",
        "DROP VIEW highest",
        "CREATE TABLE other (a INT)",
        "CREATE VIEW other AS SELECT 1 AS x",
        "ALTER TABLE trades DROP COLUMN price",
        "COPY trades TO '/tmp/tickstone-mcp.csv'",
        "COPY trades TO STDOUT",
        "COPY trades FROM '/etc/passwd'",
        "CHECKPOINT",
        "CHECKPOINT HOLD",
        "OPTIMIZE TABLE trades",
        "CANCEL QUERY 1",
        "SET sync = 'none'",
        "BEGIN",
        "PREPARE p AS SELECT 1",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_csv('/etc/passwd')",
    ] {
        for (tool, before) in [("query", ""), ("explain", ""), ("query", "/* SELECT */ ")] {
            refused(&served, tool, json!({ "sql": format!("{before}{sql}") }));
        }
        refused(&served, "explain", json!({ "sql": sql, "analyze": true }));
    }
    assert_eq!(served.number("SELECT count(*) FROM trades"), Some(100));
    assert_eq!(served.number("SELECT count(*) FROM tables()"), Some(1));
    assert_eq!(served.number("SELECT count(*) FROM views()"), Some(1));
    let error = refused(&served, "query", json!({ "sql": "DROP TABLE trades" }));
    assert!(error.starts_with("error: DROP TABLE is not carried out here"), "{error}");
    // A name is no way to a statement.
    let table = "trades\"; DROP TABLE trades; --";
    assert!(refused(&served, "sample_rows", json!({ "table": table })).contains("does not exist"));
    assert!(refused(&served, "describe_table", json!({ "table": table })).contains("does not exist"));
}

#[test]
fn answers_have_an_end() {
    let served =
        filled(&[("mcp_rows_max", "20"), ("mcp_cell_chars_max", "10"), ("mcp_answer_bytes_max", "2KB")]);
    let data = |sql: &str, limit: u64| {
        let (text, result) = call(&served, "query", json!({ "sql": sql, "limit": limit }));
        (text, result["structuredContent"].clone())
    };
    let (text, found) = data("SELECT value FROM range(0, 100000000000)", 5);
    assert_eq!((&found["row_count"], &found["truncated"]), (&json!(5), &json!(true)));
    assert!(
        text.ends_with("Cut: there are more than these 5 rows. Aggregate, filter, or select fewer columns."),
        "{text}"
    );
    assert_eq!(data("SELECT value FROM range(0, 1000)", 1000).1["row_count"], 20);
    assert_eq!(data("SELECT value FROM range(0, 5)", 5).1["truncated"], false);
    let (text, found) = data("SELECT repeat('x', 1000) AS x", 5);
    assert_eq!(found["rows"][0][0], "xxxxxxxxxx…");
    assert!(text.contains("mcp_cell_chars_max"), "{text}");
    let columns: Vec<String> = (0..100).map(|n| format!("'0123456789' AS c{n}")).collect();
    let (text, found) = data(&format!("SELECT {} FROM range(0, 10)", columns.join(", ")), 10);
    assert_eq!((&found["row_count"], &found["truncated"]), (&json!(2), &json!(true)), "{text}");
    assert!(text.contains("mcp_answer_bytes_max"), "{text}");
    let (text, result) = call(&served, "list_functions", json!({}));
    assert!(result["structuredContent"]["truncated"] == true && text.len() < 2200, "{text}");
    for n in 0..30 {
        served.done(&format!("CREATE TABLE t{n} (a INT)"));
    }
    let (text, result) = call(&served, "list_tables", json!({}));
    assert!(result["structuredContent"]["truncated"] == true && text.contains("Cut: there are "), "{text}");
}

#[test]
fn functions_and_plans() {
    let served = filled(&[]);
    let (text, result) = call(&served, "list_functions", json!({ "pattern": "vwap" }));
    assert!(text.contains("vwap") && text.contains("(aggregate)"), "{text}");
    assert!(result["structuredContent"]["functions"].as_array().is_some_and(|all| !all.is_empty()));
    assert!(text.contains("vwap(price, size) (aggregate): Σ price·size / Σ size"), "{text}");
    let (_, result) = call(&served, "list_functions", json!({ "pattern": "pg_" }));
    assert_eq!(result["structuredContent"]["functions"], json!([]));
    let (text, _) = call(&served, "list_functions", json!({ "kind": "clause" }));
    assert!(text.contains("ASOF JOIN (clause): what stood at the time"), "{text}");
    let (text, result) = call(&served, "describe_function", json!({ "name": "asof join" }));
    assert!(text.starts_with("# What stood at the time"), "{text}");
    assert!(result["structuredContent"]["examples"][0].as_str().is_some_and(|sql| sql.contains("ASOF JOIN")));
    let (text, result) = call(&served, "describe_function", json!({ "name": "VWAP()" }));
    assert!(text.contains("vwap(") && text.contains("```sql"), "{text}");
    assert_eq!(result["structuredContent"]["kind"], "aggregate");
    let error = refused(&served, "describe_function", json!({ "name": "vwapp" }));
    assert!(error.contains("there is no function or clause 'vwapp'") && error.contains("vwap"), "{error}");
    let (text, result) =
        call(&served, "explain", json!({ "sql": "SELECT max(price) FROM trades WHERE symbol = 'S1'" }));
    assert!(
        text.contains("ScanExec") && result["structuredContent"]["plan"]["physical_plan"].is_string(),
        "{text}"
    );
    let (text, _) = call(
        &served,
        "explain",
        json!({ "sql": "SELECT max(price) FROM trades WHERE symbol = 'S1'", "analyze": true }),
    );
    assert!(text.contains("metrics="), "{text}");
    let error = refused(&served, "explain", json!({ "sql": "SELECT prize FROM trades" }));
    assert!(error.contains("at line 1, column 8"), "{error}");
    assert!(refused(&served, "explain", json!({ "sql": "SHOW TABLES" })).contains("SHOW has no plan"));
}

#[test]
fn tools_say_what_they_take() {
    let served = Served::new(&[]);
    let list = ask(&served, "tools/list", json!({}));
    let tools = list["result"]["tools"].as_array().expect("tools");
    assert_eq!(tools.len(), 7);
    for tool in tools {
        assert_eq!(
            (&tool["inputSchema"]["type"], &tool["annotations"]["readOnlyHint"]),
            (&json!("object"), &json!(true))
        );
        let properties = tool["inputSchema"]["properties"].as_object().expect("properties");
        assert!(
            properties.values().all(|of| of["description"].as_str().is_some_and(|text| !text.is_empty()))
        );
        assert!(
            tool["description"].as_str().is_some_and(|text| text.len() > 40 && !text.contains("  ")),
            "{tool}"
        );
    }
}
