//! MCP over HTTP: messages, versions and cancelling. tests/clients/test_mcp.py has a real client.

mod tools;

use crate::{PATIENCE, Served};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// A query that ends in no time that matters.
const ENDLESS: &str = "SELECT sum(value % 7) FROM range(0, 1000000000000)";

fn post(served: &Served, headers: &str, body: &str) -> (u16, String) {
    let headers = format!("POST /mcp\nContent-Type: application/json\n{headers}");
    served.ask("http_port", headers.trim_end(), body.as_bytes())
}

/// The answer to a request of 2025-11-25.
#[track_caller]
fn ask(served: &Served, method: &str, params: Value) -> Value {
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let (status, answer) = post(served, "MCP-Protocol-Version: 2025-11-25", &request.to_string());
    assert_eq!(status, 200, "{answer}");
    serde_json::from_str(&answer).expect(&answer)
}

/// What a tool gives: its text, and the result.
#[track_caller]
fn call(served: &Served, tool: &str, arguments: Value) -> (String, Value) {
    let answer = ask(served, "tools/call", json!({ "name": tool, "arguments": arguments }));
    let result = answer["result"].clone();
    let text = result["content"][0]["text"].as_str().expect("a text");
    (text.to_string(), result)
}

/// What a tool says is wrong.
#[track_caller]
fn refused(served: &Served, tool: &str, arguments: Value) -> String {
    let (text, result) = call(served, tool, arguments);
    assert!(result["isError"] == true && result.get("structuredContent").is_none(), "{result}");
    text
}

fn filled(settings: &[(&str, &str)]) -> Served {
    let served = Served::new(settings);
    served.done("CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE) TIMESTAMP(ts)");
    served.done(
        "INSERT INTO trades SELECT timestamp_s(1723109400 + value * 3600), 'S' || (value % 3), value / 2.0 \
         FROM range(0, 100)",
    );
    served.done("CREATE VIEW highest AS SELECT symbol, max(price) AS high FROM trades GROUP BY symbol");
    served
}

#[test]
fn it_begins() {
    let served = Served::new(&[]);
    for (asked, agreed) in [
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
    ] {
        let params = json!({ "protocolVersion": asked, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let request = json!({ "jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params });
        let (status, answer) =
            post(&served, "Accept: application/json, text/event-stream", &request.to_string());
        let answer: Value = serde_json::from_str(&answer).expect(&answer);
        let result = &answer["result"];
        assert_eq!(
            (status, &answer["id"], &result["protocolVersion"]),
            (200, &json!("first"), &json!(agreed))
        );
        assert_eq!(result["serverInfo"]["name"], "tickstone");
        assert!(
            result["capabilities"]["tools"].is_object() && result["capabilities"]["resources"].is_object()
        );
        assert!(result["instructions"].as_str().is_some_and(|text| text.contains("list_tables")));
    }
    let notification = r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#;
    assert_eq!(post(&served, "", notification), (202, String::new()));
    assert_eq!(post(&served, "", r#"{"jsonrpc": "2.0", "id": 4, "result": {}}"#), (202, String::new()));
    assert_eq!(ask(&served, "ping", json!({}))["result"], json!({}));
    assert_eq!(ask(&served, "initialize", json!({}))["error"]["code"], -32602);
    for method in ["GET", "DELETE", "HEAD"] {
        let (status, _) = served.ask("http_port", &format!("{method} /mcp\nAccept: text/event-stream"), b"");
        assert_eq!(status, 405, "{method}");
    }
}

#[test]
fn what_is_no_message() {
    let served = Served::new(&[]);
    let long = "[".repeat(100_000);
    for (body, status, code, id) in [
        ("", 400, -32700, json!(null)),
        ("{", 400, -32700, json!(null)),
        ("\u{0}", 400, -32700, json!(null)),
        (long.as_str(), 400, -32700, json!(null)),
        ("7", 400, -32600, json!(null)),
        ("{}", 400, -32600, json!(null)),
        (r#"{"jsonrpc": "2.0", "id": [], "method": "ping"}"#, 400, -32600, json!(null)),
        (r#"{"jsonrpc": "2.0", "id": 3, "method": "ping", "params": 7}"#, 200, -32602, json!(3)),
        (r#"{"jsonrpc": "2.0", "id": 3, "method": "no/such"}"#, 200, -32601, json!(3)),
        (r#"{"jsonrpc": "2.0", "id": 3, "method": "prompts/list"}"#, 200, -32601, json!(3)),
        (r#"{"jsonrpc": "2.0", "id": 3, "method": "tools/call"}"#, 200, -32602, json!(3)),
        (
            r#"{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "drop"}}"#,
            200,
            -32602,
            json!(3),
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "query", "arguments": []}}"#,
            200,
            -32602,
            json!(3),
        ),
        (
            r#"{"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {"cursor": "x"}}"#,
            200,
            -32602,
            json!(3),
        ),
    ] {
        let (found, answer) = post(&served, "", body);
        let answer: Value = serde_json::from_str(&answer).expect(&answer);
        assert_eq!((found, &answer["error"]["code"], &answer["id"]), (status, &json!(code), &id), "{answer}");
    }
    assert_eq!(post(&served, "Accept: text/event-stream", "{}").0, 406);
    assert_eq!(served.ask("http_port", "POST /mcp\nContent-Type: text/plain", b"{}").0, 415);
    assert_eq!(post(&served, "Origin: http://evil.example", "{}").0, 403);
}

#[test]
fn several_messages_in_one_are_of_the_oldest_version() {
    let served = Served::new(&[]);
    let batch = r#"[{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "method": "notifications/initialized"},
        7, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}]"#;
    for version in ["", "MCP-Protocol-Version: 2025-03-26"] {
        let (status, answer) = post(&served, version, batch);
        let answers: Value = serde_json::from_str(&answer).expect(&answer);
        let ids: Vec<&Value> =
            answers.as_array().expect("answers").iter().map(|answer| &answer["id"]).collect();
        assert_eq!((status, ids), (200, vec![&json!(1), &json!(null), &json!(2)]));
    }
    assert_eq!(post(&served, "", r#"[{"jsonrpc": "2.0", "method": "x"}]"#).0, 202);
    assert_eq!(post(&served, "", "[]").0, 400);
    assert_eq!(post(&served, "MCP-Protocol-Version: 2025-06-18", batch).0, 400);
    assert_eq!(post(&served, "MCP-Protocol-Version: 1999-01-01", batch).0, 400);
}

/// A request of 2026-07-28 says everything itself, and its headers say it again.
#[test]
fn requests_that_say_their_version() {
    let served = filled(&[]);
    let request = |method: &str, more: Value, version: &str| {
        let mut params = more;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": {},
        });
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
    };
    let said = |headers: &str, body: &str| {
        let (status, answer) = post(&served, headers, body);
        (status, serde_json::from_str::<Value>(&answer).expect(&answer))
    };
    let version = "MCP-Protocol-Version: 2026-07-28";
    let discover = request("server/discover", json!({}), "2026-07-28");
    let (status, answer) = said(&format!("{version}\nMcp-Method: server/discover"), &discover);
    let result = &answer["result"];
    assert_eq!(
        (status, &result["resultType"], &result["supportedVersions"][0]),
        (200, &json!("complete"), &json!("2026-07-28"))
    );
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "tickstone");
    assert!(result["ttlMs"].is_u64() && result["cacheScope"] == "private");
    let query = request(
        "tools/call",
        json!({ "name": "query", "arguments": { "sql": "SELECT 1 AS x" } }),
        "2026-07-28",
    );
    let headers = |name: &str| format!("{version}\nMcp-Method: tools/call\nMcp-Name: {name}");
    for name in ["query", "=?base64?cXVlcnk=?="] {
        let (status, answer) = said(&headers(name), &query);
        assert_eq!((status, &answer["result"]["structuredContent"]["rows"]), (200, &json!([[1]])));
        assert!(answer["result"].get("ttlMs").is_none());
    }
    for (headers, body, status, code) in [
        (headers("explain"), &query, 400, -32020),
        (headers("=?base64?!?="), &query, 400, -32020),
        (format!("{version}\nMcp-Method: tools/call"), &query, 400, -32020),
        (format!("{version}\nMcp-Name: query"), &query, 400, -32020),
        ("Mcp-Method: tools/call\nMcp-Name: query".to_string(), &query, 400, -32020),
        (
            "MCP-Protocol-Version: 2025-11-25\nMcp-Method: tools/call\nMcp-Name: query".to_string(),
            &query,
            400,
            -32020,
        ),
        (
            "MCP-Protocol-Version: 1900-01-01\nMcp-Method: server/discover".to_string(),
            &request("server/discover", json!({}), "1900-01-01"),
            400,
            -32022,
        ),
        (format!("{version}\nMcp-Method: ping"), &request("ping", json!({}), "2026-07-28"), 404, -32601),
        (
            format!("{version}\nMcp-Method: tools/list"),
            &r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}"#.to_string(),
            400,
            -32602,
        ),
        (
            format!("{version}\nMcp-Method: resources/read\nMcp-Name: tickstone://no"),
            &request("resources/read", json!({ "uri": "tickstone://no" }), "2026-07-28"),
            400,
            -32602,
        ),
    ] {
        let (found, answer) = said(&headers, body);
        assert_eq!(
            (found, &answer["error"]["code"], &answer["id"]),
            (status, &json!(code), &json!(1)),
            "{headers}: {answer}"
        );
    }
    let (_, answer) = said(
        "MCP-Protocol-Version: 1900-01-01\nMcp-Method: server/discover",
        &request("server/discover", json!({}), "1900-01-01"),
    );
    assert_eq!(
        answer["error"]["data"]["supported"],
        json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"])
    );
}

#[test]
fn a_tool_has_its_time() {
    let served = Served::new(&[("mcp_timeout", "300ms")]);
    let begun = Instant::now();
    let error = refused(&served, "query", json!({ "sql": ENDLESS }));
    assert!(error.contains("mcp_timeout, 300ms"), "{error}");
    let error = refused(&served, "query", json!({ "sql": ENDLESS, "timeout_seconds": 100 }));
    assert!(error.contains("mcp_timeout, 300ms"), "{error}");
    let error = refused(&served, "explain", json!({ "sql": ENDLESS, "analyze": true }));
    assert!(error.contains("mcp_timeout, 300ms"), "{error}");
    let served = Served::new(&[("mcp_timeout", "0")]);
    let error = refused(&served, "query", json!({ "sql": ENDLESS, "timeout_seconds": 1 }));
    assert!(error.contains("timeout_seconds, 1s"), "{error}");
    assert!(begun.elapsed() < PATIENCE);
    let begun = Instant::now();
    while running(&served) > 0 {
        assert!(begun.elapsed() < PATIENCE, "it goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn running(served: &Served) -> usize {
    served.exec("SHOW QUERIES").1.matches("range(0").count()
}

/// Sends a request of a session and does not wait for its answer.
fn begin(served: &Served, session: &str, id: u64) -> std::net::TcpStream {
    let arguments = json!({ "name": "query", "arguments": { "sql": ENDLESS } });
    let body = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": arguments }).to_string();
    let mut stream = served.connect("http_port");
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Mcp-Session-Id: {session}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("it reads");
    stream
}

#[test]
fn requests_are_cancelled() {
    let served = Served::new(&[("mcp_timeout", "0")]);
    let wait_for = |wanted: usize| {
        let begun = Instant::now();
        while running(&served) != wanted {
            assert!(begun.elapsed() < PATIENCE, "{} run, not {wanted}", running(&served));
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let (mut one, two) = (begin(&served, "a", 1), begin(&served, "b", 1));
    wait_for(2);
    let cancel = |session: &str, id: Value| {
        let message =
            json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
        assert_eq!(post(&served, session, &message.to_string()).0, 202);
    };
    // Of no session, of another one, of another id, of nothing.
    cancel("", json!(1));
    cancel("Mcp-Session-Id: c", json!(1));
    cancel("Mcp-Session-Id: a", json!("1"));
    cancel("Mcp-Session-Id: a", json!(null));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(running(&served), 2);
    cancel("Mcp-Session-Id: a", json!(1));
    let mut answer = String::new();
    one.read_to_string(&mut answer).expect("it answers");
    assert!(answer.contains("the request was cancelled"), "{answer}");
    wait_for(1);
    // A client that goes needs to say nothing.
    drop(two);
    wait_for(0);
}
