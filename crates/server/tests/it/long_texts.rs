//! Long statements are claimed of `query_memory` before anybody makes a syntax tree of them, whatever brings them.

use super::{Served, pg};
use tickstone_client::{Answer, Client};
use tickstone_query::{Database, DatabaseOptions};

const MEMORY: usize = 64 << 20;

#[test]
fn long_texts_count_before_they_are_read() {
    let options = DatabaseOptions { query_memory_bytes: Some(MEMORY), ..DatabaseOptions::default() };
    let served = Served::over(Database::in_memory(options).expect("a database"), &[]);
    let listed = |count: u64, item: fn(u64) -> String, separator: &str| {
        (0..count).map(item).collect::<Vec<_>>().join(separator)
    };
    // Rows are expressions; a list of whole numbers is one value.
    let rows =
        format!("SELECT count(*) FROM (VALUES {}) AS v(x)", listed(200_000, |at| format!("({at}.5)"), ","));
    let list = format!("SELECT 7 IN ({})", listed(200_000, |at| at.to_string(), ", "));
    let refused = "the text of the statement";

    let mut postgres = pg::Client::new(&served);
    assert_eq!((postgres.query(&rows), postgres.query(&list)), ("EZ".to_string(), "TDCZ".to_string()));
    for (sql, is_refused) in [(&rows, true), (&list, false)] {
        let body = format!("{{\"query\": \"{sql}\"}}");
        let (status, answer) =
            served.ask("http_port", "POST /exec\nContent-Type: application/json", body.as_bytes());
        assert_eq!((status == 200, answer.contains(refused)), (!is_refused, is_refused), "{status}");
    }

    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let url = format!("tickstone://{}", served.address("flight_port"));
    runtime.block_on(async {
        let client = Client::connect(&url).await.expect("it listens");
        let error = client.query(&rows, None).await.map(|_| ()).expect_err("it has no room").to_string();
        assert!(error.contains(refused), "{error}");
        assert!(matches!(client.query(&list, None).await, Ok(Answer::Rows(_))));
    });
}
