//! Arrow Flight SQL, asked by Arrow's own client and by ours.

use super::{PATIENCE, Served};
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{
    ActionCancelQueryRequest, Any, CommandGetDbSchemas, CommandGetPrimaryKeys, CommandGetTables,
    CommandGetXdbcTypeInfo, CommandStatementQuery, EndTransaction, ProstMessageExt, SqlInfo,
};
use arrow_flight::{Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightData};
use arrow_flight::{FlightDescriptor, FlightInfo, HandshakeRequest, IpcMessage, Ticket};
use futures::{StreamExt, TryStreamExt, stream};
use prost::Message;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickstone_client::{Answer, Append, Client, ClientError, Kind, Rows, protocol};
use tickstone_query::arrow::array::{
    ArrayRef, AsArray, Float64Array, RecordBatch, StringArray, StringDictionaryBuilder,
    TimestampNanosecondArray,
};
use tickstone_query::arrow::compute::concat_batches;
use tickstone_query::arrow::datatypes::{DataType, Int32Type, Int64Type, Schema, UInt32Type};
use tickstone_query::arrow::ipc::CompressionType;
use tickstone_query::arrow::ipc::writer::IpcWriteOptions;
use tonic::transport::Channel;
use tonic::{Code, Request};

mod round_trip;

type Sql = FlightSqlServiceClient<Channel>;

async fn channel(served: &Served) -> Channel {
    let uri = format!("http://{}", served.address("flight_port"));
    Channel::from_shared(uri).expect("an address").connect().await.expect("it listens")
}

async fn arrows_own(served: &Served) -> Sql {
    FlightSqlServiceClient::new(channel(served).await)
}

async fn ours(served: &Served) -> Client {
    let url = format!("tickstone://{}", served.address("flight_port"));
    Client::connect(&url).await.expect("it listens")
}

/// Runs a test against a server.
fn with_settings<F: Future<Output = ()>>(settings: &[(&str, &str)], test: impl FnOnce(Arc<Served>) -> F) {
    let served = Arc::new(Served::new(settings));
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let test = test(Arc::clone(&served));
    let ended = runtime.block_on(async { tokio::time::timeout(3 * PATIENCE, test).await });
    ended.expect("it ends in time");
}

fn with_server<F: Future<Output = ()>>(test: impl FnOnce(Arc<Served>) -> F) {
    with_settings(&[], test);
}

/// The one number that a statement gives, asked beside the port.
fn stored(served: &Served, sql: &str) -> Option<i64> {
    tokio::task::block_in_place(|| served.number(sql))
}

async fn rows_of(client: &mut Sql, info: FlightInfo) -> RecordBatch {
    let schema = Arc::new(info.clone().try_decode_schema().expect("a schema"));
    let ticket = info.endpoint[0].ticket.clone().expect("a ticket");
    let rows = client.do_get(ticket).await.expect("rows");
    let batches: Vec<RecordBatch> = rows.try_collect().await.expect("batches");
    let got = batches.first().map_or_else(|| Arc::clone(&schema), |batch| batch.schema());
    assert_eq!(types(&got), types(&schema), "what was told before and what came");
    concat_batches(&got, &batches).expect("one schema")
}

fn types(schema: &Schema) -> Vec<(String, DataType, bool)> {
    let of = |field: &Arc<tickstone_query::arrow::datatypes::Field>| {
        (field.name().clone(), field.data_type().clone(), field.is_nullable())
    };
    schema.fields().iter().map(of).collect()
}

async fn query(client: &mut Sql, sql: &str) -> RecordBatch {
    let info = client.execute(sql.to_string(), None).await.expect(sql);
    rows_of(client, info).await
}

async fn rows_given(client: &Client, sql: &str) -> Rows {
    let rows = match client.query(sql, None).await.expect(sql) {
        Answer::Rows(rows) => Some(rows),
        Answer::Done { .. } => None,
    };
    rows.expect("a statement that gives rows")
}

async fn number(client: &Client, sql: &str) -> i64 {
    let rows = rows_given(client, sql).await;
    let batches: Vec<RecordBatch> = rows.try_collect().await.expect(sql);
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

async fn all(client: &Client, sql: &str) -> Result<RecordBatch, ClientError> {
    match client.query(sql, None).await? {
        Answer::Rows(rows) => {
            let schema = rows.schema();
            let batches: Vec<RecordBatch> = rows.try_collect().await?;
            Ok(concat_batches(&schema, &batches).expect("one schema"))
        }
        Answer::Done { .. } => Ok(RecordBatch::new_empty(Arc::new(Schema::empty()))),
    }
}

/// Trades of `rows` nanoseconds, of a few symbols.
fn trades(rows: usize, from: i64) -> RecordBatch {
    let mut symbols = StringDictionaryBuilder::<Int32Type>::new();
    for row in 0..rows {
        symbols.append_value(["BTC-USD", "ETH-USD", "SOL-USD"][row % 3]);
    }
    let times = (0..rows as i64).map(|row| from + row);
    let columns: [(&str, ArrayRef); 3] = [
        ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(times))),
        ("symbol", Arc::new(symbols.finish())),
        (
            "price",
            Arc::new(Float64Array::from_iter((0..rows).map(|row| (row % 5 > 0).then_some(row as f64)))),
        ),
    ];
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).expect("a batch")
}

const TRADES: &str = "CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE) TIMESTAMP(ts)";

#[test]
fn statements_of_arrows_client() {
    with_server(|served| async move {
        let mut client = arrows_own(&served).await;
        assert_eq!(client.handshake("admin", "quest").await.expect("any name").as_ref(), b"Bearer tickstone");
        assert_eq!(query(&mut client, TRADES).await.num_rows(), 0);
        let insert = "INSERT INTO trades VALUES ('2024-08-08T09:30:00.000000001Z', 'BTC-USD', 61500.5), ('2024-08-08', 'ETH-USD', NULL)";
        assert_eq!(client.execute_update(insert.to_string(), None).await.expect("two rows"), 2);
        let rows = query(&mut client, "SELECT ts, symbol, price FROM trades ORDER BY ts DESC").await;
        assert_eq!(rows.num_rows(), 2);
        assert_eq!(
            rows.column(1).data_type(),
            &DataType::Dictionary(DataType::UInt32.into(), DataType::Utf8.into())
        );
        let symbols =
            rows.column(1).as_dictionary::<UInt32Type>().downcast_dict::<StringArray>().expect("texts");
        assert_eq!(symbols.into_iter().flatten().collect::<Vec<_>>(), ["BTC-USD", "ETH-USD"]);
        let none = query(&mut client, "SELECT * FROM trades WHERE price < 0").await;
        assert_eq!((none.num_rows(), none.num_columns()), (0, 3));
        assert_eq!(query(&mut client, "EXPLAIN SELECT * FROM trades").await.num_columns(), 2);
        assert_eq!(query(&mut client, "SHOW TABLES").await.num_rows(), 1);
    });
}

#[test]
fn what_is_told_before_is_what_comes() {
    with_server(|served| async move {
        let mut client = arrows_own(&served).await;
        query(&mut client, TRADES).await;
        query(&mut client, "INSERT INTO trades VALUES ('2024-01-01', 'a', 1.5), ('2024-01-02', 'b', 2.5), ('2024-01-03', 'a', 3)").await;
        for sql in [
            "SELECT * FROM trades",
            "SELECT symbol, count(*) AS n, avg(price) FROM trades GROUP BY symbol",
            "SELECT ts, symbol, first(price), ohlc(price) FROM trades SAMPLE BY 1s FILL(PREV)",
            "SELECT * FROM trades LATEST BY symbol",
            "SELECT a.ts, a.symbol, b.price FROM trades a ASOF JOIN trades b ON (symbol)",
            "SELECT 1 AS one, 'x' AS x, NULL AS n, TRUE AS t, CAST('2024-01-01' AS DATE) AS d, 1.50 AS dec",
            "SELECT price, lag(price) OVER (PARTITION BY symbol ORDER BY ts) FROM trades",
            "SELECT DISTINCT symbol FROM trades UNION ALL SELECT 'c'",
            "SELECT upper(symbol), concat(symbol, '!'), array_agg(price) FROM trades GROUP BY symbol",
            "WITH x AS (SELECT max(ts) AS m FROM trades) SELECT * FROM x",
            "SHOW COLUMNS FROM trades",
        ] {
            query(&mut client, sql).await;
        }
    });
}

#[test]
fn errors_have_their_parts() {
    with_server(|served| async move {
        let client = ours(&served).await;
        let error = all(&client, "SELECT 1,\n  pricee FROM trades").await.expect_err("no table");
        assert_eq!(error.message, "table 'trades' does not exist");
        assert_eq!((error.kind, error.state.as_str()), (Kind::FixRequest, "42P01"));
        assert!(error.hint.as_deref().is_some_and(|hint| hint.contains("SHOW TABLES")), "{error:?}");
        client.execute(TRADES, None).await.expect("a table");
        let error = all(&client, "SELECT 1,\n  pricee FROM trades").await.expect_err("no column");
        assert_eq!(error.position, Some((2, 3)));
        assert_eq!(error.hint.as_deref(), Some("did you mean 'price'?"));
        let error = client.schema("SELEC 1", None).await.expect_err("no SQL");
        assert_eq!((error.position, error.state.as_str()), (Some((1, 1)), "42601"));

        let mut arrows = arrows_own(&served).await;
        let error =
            arrows.execute("SELECT nothing FROM trades".to_string(), None).await.expect_err("no column");
        let error = error.to_string();
        assert!(error.contains("column 'nothing' does not exist at line 1, column 8"), "{error}");
        // Past the first rows.
        let sql = "SELECT 10 / (50000 - x) FROM generate_series(1, 100000) t(x)";
        let error = all(&client, sql).await.expect_err("a division by zero");
        assert!(error.message.to_lowercase().contains("zero"), "{error}");
    });
}

#[test]
fn prepared_statements() {
    with_server(|served| async move {
        let mut client = arrows_own(&served).await;
        query(&mut client, TRADES).await;
        let mut insert = client
            .prepare("INSERT INTO trades VALUES ($1, $2, $3)".to_string(), None)
            .await
            .expect("a statement");
        let takes: Vec<DataType> = insert
            .parameter_schema()
            .expect("types")
            .fields()
            .iter()
            .map(|field| field.data_type().clone())
            .collect();
        assert_eq!(takes[2], DataType::Float64, "{takes:?}");
        assert_eq!(insert.dataset_schema().expect("none").fields().len(), 0);
        insert.set_parameters(trades(1_000, 0)).expect("parameters");
        assert_eq!(insert.execute_update().await.expect("rows"), 1_000);
        insert.set_parameters(trades(1, 5_000)).expect("parameters");
        assert_eq!(insert.execute_update().await.expect("a row"), 1);

        let sql = "SELECT count(*) FROM trades WHERE symbol = $1 AND ts < $2".to_string();
        let mut count = client.prepare(sql, None).await.expect("a statement");
        let parameters: [(&str, ArrayRef); 2] = [
            ("0", Arc::new(StringArray::from(vec!["BTC-USD", "ETH-USD", "none"]))),
            ("1", Arc::new(TimestampNanosecondArray::from(vec![10, 1_000, 0]))),
        ];
        count.set_parameters(RecordBatch::try_from_iter(parameters).expect("rows")).expect("parameters");
        let info = count.execute().await.expect("rows");
        let rows = rows_of(&mut client, info).await;
        // Run once for each row of parameters.
        assert_eq!(rows.column(0).as_primitive::<Int64Type>().values(), &[4, 333, 0]);
        count.close().await.expect("it was there");
        let gone = client.prepare("SELECT $1 + 1 AS n".to_string(), None).await.expect("a statement");
        let mut used = gone.clone();
        gone.close().await.expect("it was there");
        let error = used.execute().await.expect_err("it was closed").to_string();
        assert!(error.contains("no such prepared statement"), "{error}");
    });
}

#[test]
fn an_insert_of_many_rows_stores_all_or_none() {
    with_server(|served| async move {
        let mut client = arrows_own(&served).await;
        query(&mut client, TRADES).await;
        // No append: one column is not a placeholder.
        let sql = "INSERT INTO trades VALUES ($1, 'x', $2)".to_string();
        let mut insert = client.prepare(sql, None).await.expect("a statement");
        let rows = |prices: Vec<&str>| {
            let parameters: [(&str, ArrayRef); 2] = [
                ("a", Arc::new(TimestampNanosecondArray::from_iter_values(0..prices.len() as i64))),
                ("b", Arc::new(StringArray::from(prices))),
            ];
            RecordBatch::try_from_iter(parameters).expect("rows")
        };
        insert.set_parameters(rows(vec!["1", "2", "three"])).expect("parameters");
        insert.execute_update().await.expect_err("'three' is no number");
        assert_eq!(stored(&served, "SELECT count(*) FROM trades"), Some(0));
        insert.set_parameters(rows(vec!["1", "2", "3"])).expect("parameters");
        assert_eq!(insert.execute_update().await.expect("rows"), 3);
        assert_eq!(stored(&served, "SELECT count(*) FROM trades"), Some(3));
    });
}

#[test]
fn transactions() {
    with_settings(&[("flight_idle_timeout", "1s"), ("flight_handles_max", "2")], |served| async move {
        let mut client = arrows_own(&served).await;
        query(&mut client, TRADES).await;
        let insert = || "INSERT INTO trades VALUES ('2024-01-01', 'a', 1)".to_string();
        for (end, rows) in [(EndTransaction::Rollback, 0), (EndTransaction::Commit, 2)] {
            let transaction = client.begin_transaction().await.expect("a transaction");
            client.execute_update(insert(), Some(transaction.clone())).await.expect("a row");
            client.execute_update(insert(), Some(transaction.clone())).await.expect("a row");
            assert_eq!(stored(&served, "SELECT count(*) FROM trades"), Some(0), "{end:?}");
            client.end_transaction(transaction.clone(), end).await.expect("its end");
            assert_eq!(stored(&served, "SELECT count(*) FROM trades"), Some(rows));
            client.execute_update(insert(), Some(transaction)).await.expect_err("it has ended");
        }
        // As many as there may be, until they are forgotten.
        let left = client.begin_transaction().await.expect("a transaction");
        client.execute_update(insert(), Some(left.clone())).await.expect("a row");
        client.begin_transaction().await.expect("a transaction");
        let error = client.begin_transaction().await.expect_err("one too many").to_string();
        assert!(error.contains("flight_handles_max"), "{error}");
        let begun = Instant::now();
        while client.begin_transaction().await.is_err() {
            assert!(begun.elapsed() < PATIENCE, "idle transactions are forgotten");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        client.end_transaction(left.clone(), EndTransaction::Commit).await.expect_err("it was rolled back");
        // Clients that begin the next one only then could not go on.
        client.end_transaction(left, EndTransaction::Rollback).await.expect("it was rolled back");
        assert_eq!(stored(&served, "SELECT count(*) FROM trades"), Some(2));
    });
}

#[test]
fn a_transaction_that_failed_is_rolled_back() {
    with_server(|served| async move {
        let mut client = arrows_own(&served).await;
        query(&mut client, TRADES).await;
        let insert = || "INSERT INTO trades VALUES ('2024-01-01', 'a', 1)".to_string();
        let failures = [
            "INSERT INTO trades VALUES ('no time', 'a', 1)",
            "INSERT INTO nowhere VALUES (1)",
            "SELECT nothing FROM trades",
            "SELECT 1 / (value - 50000) FROM range(0, 100000)",
            "no SQL",
            "COPY trades FROM STDIN",
        ];
        for failure in failures {
            let transaction = client.begin_transaction().await.expect("a transaction");
            let within = || Some(transaction.clone());
            let mut prepared = client.prepare(insert(), within()).await.expect("it can be run");
            client.execute_update(insert(), within()).await.expect("a row");
            let failed = match client.execute(failure.to_string(), within()).await {
                Err(_) => true,
                Ok(info) => {
                    let ticket = info.endpoint[0].ticket.clone().expect("a ticket");
                    match client.do_get(ticket).await {
                        Err(_) => true,
                        Ok(rows) => rows.try_collect::<Vec<RecordBatch>>().await.is_err(),
                    }
                }
            };
            assert!(failed, "{failure}");
            for sql in [insert(), "SELECT 1".to_string(), "COMMIT".to_string()] {
                let error = client.execute(sql.clone(), within()).await.expect_err(&sql).to_string();
                assert!(error.contains("rolled back"), "{failure}, {sql}: {error}");
            }
            let error = client.prepare(insert(), within()).await.expect_err("it has failed").to_string();
            assert!(error.contains("rolled back"), "{failure}: {error}");
            let end = client.end_transaction(transaction.clone(), EndTransaction::Commit).await;
            let error = end.expect_err("it has failed").to_string();
            assert!(error.contains("it is rolled back, nothing of it was stored"), "{failure}: {error}");
            prepared.execute_update().await.expect_err("it has failed");
            client.execute_update(insert(), within()).await.expect_err("it has failed");
            client.end_transaction(transaction.clone(), EndTransaction::Rollback).await.expect("its end");
            client.execute_update(insert(), within()).await.expect_err("it has ended");
            assert_eq!(stored(&served, "SELECT count(*) FROM trades"), Some(0), "{failure}");
        }
        // What fails outside of it, or in another one, is no matter.
        let transaction = client.begin_transaction().await.expect("a transaction");
        let other = client.begin_transaction().await.expect("a transaction");
        client.execute_update(insert(), Some(transaction.clone())).await.expect("a row");
        client.execute_update("no SQL".to_string(), Some(other)).await.expect_err("no SQL");
        client.execute_update("no SQL".to_string(), None).await.expect_err("no SQL");
        client.end_transaction(transaction, EndTransaction::Commit).await.expect("stored");
        assert_eq!(stored(&served, "SELECT count(*) FROM trades"), Some(1));
        // SQL ends it too, and then it goes on.
        let transaction = client.begin_transaction().await.expect("a transaction");
        client.execute_update("no SQL".to_string(), Some(transaction.clone())).await.expect_err("no SQL");
        client.execute_update("ROLLBACK".to_string(), Some(transaction.clone())).await.expect("its end");
        client.execute_update(insert(), Some(transaction.clone())).await.expect("a row");
        client.end_transaction(transaction, EndTransaction::Rollback).await.expect("its end");
        assert_eq!(stored(&served, "SELECT count(*) FROM trades"), Some(2));
    });
}

#[test]
fn prepared_statements_outlive_their_transaction() {
    with_server(|served| async move {
        let mut client = arrows_own(&served).await;
        query(&mut client, TRADES).await;
        let insert = "INSERT INTO trades VALUES ('2024-01-01', 'a', 1)".to_string();
        let count = || stored(&served, "SELECT count(*) FROM trades");
        let first = client.begin_transaction().await.expect("a transaction");
        let mut prepared = client.prepare(insert, Some(first.clone())).await.expect("it can be run");
        prepared.execute_update().await.expect("a row");
        assert_eq!(count(), Some(0));
        client.end_transaction(first, EndTransaction::Commit).await.expect("stored");
        assert_eq!(count(), Some(1));
        // In the next transaction of the connection, and in the one after that.
        for (end, rows) in [(EndTransaction::Rollback, 1), (EndTransaction::Commit, 2)] {
            let next = client.begin_transaction().await.expect("a transaction");
            prepared.execute_update().await.expect("a row");
            assert_eq!(count(), Some(1), "{end:?}");
            client.end_transaction(next, end).await.expect("its end");
            assert_eq!(count(), Some(rows), "{end:?}");
        }
        // By itself where there is none.
        prepared.execute_update().await.expect("a row");
        assert_eq!(count(), Some(3));
        // Not in one of another connection.
        let mut other = arrows_own(&served).await;
        let elsewhere = other.begin_transaction().await.expect("a transaction");
        prepared.execute_update().await.expect("a row");
        assert_eq!(count(), Some(4));
        other.end_transaction(elsewhere, EndTransaction::Rollback).await.expect("its end");
        assert_eq!(count(), Some(4));
        // And not where nobody can tell in which.
        let mine = client.begin_transaction().await.expect("a transaction");
        client.begin_transaction().await.expect("a transaction");
        client.end_transaction(mine, EndTransaction::Commit).await.expect("its end");
        let error = prepared.execute_update().await.expect_err("there is another").to_string();
        assert!(error.contains("prepare it again"), "{error}");
        assert_eq!(count(), Some(4));
    });
}

#[test]
fn sessions_of_our_client() {
    with_server(|served| async move {
        let client = ours(&served).await;
        let error = all(&client, "BEGIN").await.expect_err("it has no session");
        assert!(error.message.contains("session"), "{error}");
        let session = client.session().await.expect("a session");
        session.execute(TRADES, None).await.expect("a table");
        for sql in [
            "BEGIN",
            "INSERT INTO trades VALUES ('2024-01-01', 'a', 1)",
            "PREPARE p AS SELECT count(*) FROM trades",
        ] {
            session.execute(sql, None).await.expect(sql);
        }
        assert_eq!(number(&session, "EXECUTE p").await, 0);
        session.execute("COMMIT", None).await.expect("stored");
        assert_eq!(number(&session, "EXECUTE p").await, 1);
        session.execute("BEGIN", None).await.expect("begun");
        session.execute("INSERT INTO trades VALUES ('2024-01-02', 'a', 1)", None).await.expect("a row");
        drop(session);
        assert_eq!(number(&client, "SELECT count(*) FROM trades").await, 1);
    });
}

#[test]
fn sessions_are_kept_while_their_client_lives() {
    with_settings(&[("flight_idle_timeout", "400ms")], |served| async move {
        let client = ours(&served).await;
        let session = client.session().await.expect("a session");
        session.execute("PREPARE p AS SELECT 8", None).await.expect("prepared");
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert_eq!(number(&session, "EXECUTE p").await, 8);
        session.end().await.expect("ended");
        let error = all(&session, "EXECUTE p").await.expect_err("it has ended");
        assert!(error.message.contains("no such session"), "{error}");
    });
}

#[test]
fn appends_of_our_client() {
    with_server(|served| async move {
        let client = ours(&served).await;
        let batch = trades(1_000, 0);
        let rows = |batches: Vec<RecordBatch>| stream::iter(batches).map(Ok);
        let missing = client.append(&Append::to("trades"), &batch.schema(), rows(vec![batch.clone()])).await;
        assert_eq!(missing.expect_err("no table").state, "42P01");
        let create = Append {
            create: true,
            series: Some(vec!["symbol".to_string()]),
            partition_by: Some("hour".to_string()),
            sync: Some("interval".to_string()),
            ..Append::to("trades")
        };
        let all_rows = rows(vec![batch.clone(), trades(0, 0), trades(500, 1_000)]);
        assert_eq!(client.append(&create, &batch.schema(), all_rows).await, Ok(1_500));
        assert_eq!(number(&client, "SELECT count(*) FROM trades").await, 1_500);
        assert_eq!(number(&client, "SELECT count(*) FROM trades WHERE price IS NULL").await, 300);
        let shape = all(&client, "SELECT series, partition_by, sync FROM tables()").await.expect("a table");
        let text = |column: usize| shape.column(column).as_string::<i32>().value(0).to_string();
        assert_eq!((text(0), text(1), text(2)), ("symbol".into(), "HOUR".into(), "interval".into()));

        // Rows that fail on their way here leave nothing there.
        let failing =
            stream::iter([Ok(batch.clone()), Err(ClientError::from(tonic::Status::aborted("my own")))]);
        let error =
            client.append(&Append::to("trades"), &batch.schema(), failing).await.expect_err("they fail");
        assert_eq!(error.message, "my own");
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(number(&client, "SELECT count(*) FROM trades").await, 1_500);

        let wrong: [(&str, ArrayRef); 1] = [("ts", Arc::new(StringArray::from(vec!["yesterday"])))];
        let wrong = RecordBatch::try_from_iter(wrong).expect("a batch");
        let error = client.append(&Append::to("trades"), &wrong.schema(), rows(vec![wrong.clone()])).await;
        assert!(error.expect_err("no time").message.contains("row 1"));

        let replace = Append { replace: true, ..create };
        let few = rows(vec![trades(10, 0)]);
        assert_eq!(client.append(&replace, &batch.schema(), few).await, Ok(10));
        assert_eq!(number(&client, "SELECT count(*) FROM trades").await, 10);
        let error = client.append(&replace, &wrong.schema(), rows(vec![wrong.clone()])).await;
        error.expect_err("no series");
        assert_eq!(number(&client, "SELECT count(*) FROM trades").await, 10);
        assert_eq!(number(&client, "SELECT count(*) FROM tables()").await, 1);

        let session = client.session().await.expect("a session");
        session.execute("BEGIN", None).await.expect("begun");
        let to = Append::to("trades");
        assert_eq!(session.append(&to, &batch.schema(), rows(vec![trades(5, 100)])).await, Ok(5));
        assert_eq!(number(&client, "SELECT count(*) FROM trades").await, 10);
        session.execute("COMMIT", None).await.expect("stored");
        assert_eq!(number(&client, "SELECT count(*) FROM trades").await, 15);
    });
}

#[test]
fn a_bulk_load() {
    with_server(|served| async move {
        let client = ours(&served).await;
        let batches: Vec<RecordBatch> = (0..20).map(|at| trades(50_000, at * 50_000)).collect();
        let schema = batches[0].schema();
        let create = Append { create: true, ..Append::to("trades") };
        assert_eq!(client.append(&create, &schema, stream::iter(batches).map(Ok)).await, Ok(1_000_000));
        assert_eq!(tokio::task::block_in_place(|| served.metric("flight_rows_total")), 1_000_000);
        let (mut rows, mut batches) = (0, 0);
        let mut all = rows_given(&client, "SELECT * FROM trades").await;
        while let Some(batch) = all.next().await {
            rows += batch.expect("a batch").num_rows();
            batches += 1;
        }
        assert_eq!(rows, 1_000_000);
        assert!(batches > 10, "{batches}");
    });
}

#[test]
fn temporary_tables_are_of_their_session() {
    with_server(|served| async move {
        let client = ours(&served).await;
        let session = client.session().await.expect("a session");
        let temporary = Append { temporary: true, ..Append::to("mine") };
        let batch = trades(10, 0);
        let rows = || stream::iter([Ok(trades(10, 0))]);
        client.append(&temporary, &batch.schema(), rows()).await.expect_err("it has no session");
        assert_eq!(session.append(&temporary, &batch.schema(), rows()).await, Ok(10));
        assert_eq!(session.append(&temporary, &batch.schema(), rows()).await, Ok(10));
        assert_eq!(number(&session, "SELECT count(*) FROM mine").await, 10);
        all(&client, "SELECT * FROM mine").await.expect_err("another session");
        session.forget_tables().await.expect("forgotten");
        all(&session, "SELECT * FROM mine").await.expect_err("forgotten");
    });
}

#[test]
fn parameters_of_our_client() {
    with_server(|served| async move {
        let client = ours(&served).await;
        client.execute(TRADES, None).await.expect("a table");
        let insert = "INSERT INTO trades VALUES (:at, :symbol, 1)";
        let parameters: [(&str, ArrayRef); 2] = [
            ("symbol", Arc::new(StringArray::from(vec!["O'Neil; DROP"]))),
            ("at", Arc::new(TimestampNanosecondArray::from(vec![1_723_109_400_000_000_001]))),
        ];
        let parameters = RecordBatch::try_from_iter(parameters).expect("a row");
        assert_eq!(client.execute(insert, Some(&parameters)).await, Ok(Some(1)));
        let row = all(&client, "SELECT ts, symbol FROM trades").await.expect("a row");
        let times =
            row.column(0).as_primitive::<tickstone_query::arrow::datatypes::TimestampNanosecondType>();
        assert_eq!(times.value(0), 1_723_109_400_000_000_001);
        let schema =
            client.schema("SELECT symbol FROM trades WHERE symbol = :symbol", Some(&parameters)).await;
        assert!(schema.expect_err("a value too many").message.contains(":at"));
    });
}

#[test]
fn what_there_is() {
    with_server(|served| async move {
        let mut client = arrows_own(&served).await;
        query(&mut client, "CREATE TABLE t (ts TIMESTAMP, s SYMBOL, v DECIMAL(9, 2)) TIMESTAMP(ts) DEDUP UPSERT KEYS (ts, s)").await;
        query(&mut client, "CREATE VIEW v AS SELECT s, count(*) AS n FROM t GROUP BY s").await;
        let info = client.get_catalogs().await.expect("catalogs");
        let rows = rows_of(&mut client, info).await;
        assert_eq!(rows.column(0).as_string::<i32>().value(0), "tickstone");
        let schemas =
            CommandGetDbSchemas { catalog: None, db_schema_filter_pattern: Some("pub%".to_string()) };
        let info = client.get_db_schemas(schemas).await.expect("schemas");
        assert_eq!(rows_of(&mut client, info).await.num_rows(), 1);
        let tables = |types: &[&str], pattern: Option<&str>| CommandGetTables {
            catalog: None,
            db_schema_filter_pattern: None,
            table_name_filter_pattern: pattern.map(str::to_string),
            table_types: types.iter().map(|kind| (*kind).to_string()).collect(),
            include_schema: true,
        };
        let info = client.get_tables(tables(&[], None)).await.expect("tables");
        let rows = rows_of(&mut client, info).await;
        assert_eq!(rows.num_rows(), 2);
        let columns = |row: usize| {
            let bytes = rows.column(4).as_binary::<i32>().value(row).to_vec();
            Schema::try_from(IpcMessage(bytes.into())).expect("a schema")
        };
        assert_eq!(columns(0).field(2).data_type(), &DataType::Decimal128(9, 2));
        assert_eq!(columns(0).field(1).metadata()["ARROW:FLIGHT:SQL:TYPE_NAME"], "SYMBOL");
        assert_eq!(columns(1).field(1).name(), "n");
        for (types, pattern, count) in [(&["VIEW"][..], None, 1), (&["TABLE"], None, 1), (&[], Some("x%"), 0)]
        {
            let info = client.get_tables(tables(types, pattern)).await.expect("tables");
            assert_eq!(rows_of(&mut client, info).await.num_rows(), count);
        }
        let info = client.get_table_types().await.expect("types");
        assert_eq!(rows_of(&mut client, info).await.num_rows(), 2);
        let keys =
            |table: &str| CommandGetPrimaryKeys { catalog: None, db_schema: None, table: table.to_string() };
        for (table, count) in [("t", 2), ("v", 0), ("none", 0)] {
            let info = client.get_primary_keys(keys(table)).await.expect("keys");
            assert_eq!(rows_of(&mut client, info).await.num_rows(), count, "{table}");
        }
        let info = client
            .get_sql_info(vec![SqlInfo::FlightSqlServerName, SqlInfo::FlightSqlServerTransaction])
            .await;
        assert_eq!(rows_of(&mut client, info.expect("info")).await.num_rows(), 2);
        let info =
            client.get_xdbc_type_info(CommandGetXdbcTypeInfo { data_type: None }).await.expect("types");
        assert!(rows_of(&mut client, info).await.num_rows() > 10);
    });
}

#[test]
fn simple_clients_need_no_flight_sql() {
    with_server(|served| async move {
        let mut client = FlightServiceClient::new(channel(&served).await);
        let batch = trades(10, 0);
        let put = tickstone_client::sending::messages(
            &batch.schema(),
            Some(FlightDescriptor::new_path(vec!["simple trades".to_string()])),
            Vec::new().into(),
            stream::iter([Ok(batch)]),
        );
        let messages: Vec<FlightData> = put.try_collect().await.expect("messages");
        client
            .do_put(stream::iter(messages))
            .await
            .expect("stored")
            .into_inner()
            .message()
            .await
            .expect("an answer");
        assert_eq!(stored(&served, "SELECT count(*) FROM \"simple trades\""), Some(10));
        // The text of a statement is a ticket.
        let ticket = Ticket::new("SELECT count(*) FROM \"simple trades\"");
        let rows = client.do_get(ticket).await.expect("rows").into_inner();
        assert_eq!(rows.map_err(drop).try_collect::<Vec<_>>().await.expect("messages").len(), 2);
        let path = FlightDescriptor::new_path(vec!["simple trades".to_string()]);
        let info = client.get_flight_info(path).await.expect("a table").into_inner();
        assert_eq!(info.clone().try_decode_schema().expect("columns").fields().len(), 3);
        let listed =
            client.list_flights(arrow_flight::Criteria::default()).await.expect("tables").into_inner();
        assert_eq!(listed.try_collect::<Vec<_>>().await.expect("infos").len(), 1);
        let text = FlightDescriptor::new_cmd("SELECT 1 AS one");
        let told = client.get_schema(text).await.expect("columns").into_inner();
        assert_eq!(Schema::try_from(IpcMessage(told.schema)).expect("a schema").field(0).name(), "one");
        let actions = client.list_actions(arrow_flight::Empty {}).await.expect("actions").into_inner();
        assert!(actions.try_collect::<Vec<_>>().await.expect("actions").len() >= 8);
        // Plain texts for who asks for them.
        let mut plain = Request::new(Ticket::new("SELECT symbol FROM \"simple trades\""));
        plain.metadata_mut().insert(protocol::DICTIONARIES, "false".parse().expect("a value"));
        let rows = client.do_get(plain).await.expect("rows").into_inner();
        let rows =
            arrow_flight::decode::FlightRecordBatchStream::new_from_flight_data(rows.map_err(Into::into));
        let rows: Vec<RecordBatch> = rows.try_collect().await.expect("batches");
        assert_eq!(rows[0].column(0).as_string::<i32>().value(0), "BTC-USD");
    });
}

/// A statement of more rows than anybody waits for.
const ENDLESS: &str = "SELECT x FROM generate_series(1, 100000000000) t(x)";

fn is_running(served: &Served) -> bool {
    stored(
        served,
        "SELECT count(*) FROM queries() WHERE statement LIKE '%100000000000%' AND statement NOT LIKE '%queries()%'",
    ) != Some(0)
}

async fn ends(served: &Served) {
    let begun = Instant::now();
    while is_running(served) {
        assert!(begun.elapsed() < PATIENCE, "the statement goes on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn statements_are_cancelled() {
    with_server(|served| async move {
        // By dropping its rows.
        let client = ours(&served).await;
        let mut rows = rows_given(&client, ENDLESS).await;
        rows.next().await.expect("rows").expect("a batch");
        assert!(is_running(&served));
        drop(rows);
        ends(&served).await;
        // By the action, while they are read.
        let mut arrows = arrows_own(&served).await;
        let info = arrows.execute(ENDLESS.to_string(), None).await.expect("rows");
        let ticket = info.endpoint[0].ticket.clone().expect("a ticket");
        let mut service = arrows.inner_mut().clone();
        for old in [false, true] {
            let mut rows = arrows.do_get(ticket.clone()).await.expect("rows");
            rows.next().await.expect("rows").expect("a batch");
            let action = match old {
                false => Action::new(
                    "CancelFlightInfo",
                    CancelFlightInfoRequest::new(info.clone()).encode_to_vec(),
                ),
                true => {
                    let request = ActionCancelQueryRequest { info: info.encode_to_vec().into() };
                    Action::new("CancelQuery", request.as_any().encode_to_vec())
                }
            };
            let result = service.do_action(action).await.expect("done").into_inner().message().await;
            let body = result.expect("a result").expect("a result").body;
            if !old {
                let status = CancelFlightInfoResult::decode(body).expect("a result").status;
                assert_eq!(status, CancelStatus::Cancelled as i32);
            }
            let error = loop {
                match rows.next().await.expect("an error") {
                    Ok(_) => continue,
                    Err(error) => break error,
                }
            };
            assert!(error.to_string().contains("cancelled"), "{error}");
            ends(&served).await;
        }
        // By losing its connection.
        let client = ours(&served).await;
        let rows = rows_given(&client, ENDLESS).await;
        drop((rows, client));
        ends(&served).await;
    });
}

#[test]
fn a_client_that_does_not_read_holds_its_statement_back() {
    with_server(|served| async move {
        let client = ours(&served).await;
        let mut rows = rows_given(&client, ENDLESS).await;
        rows.next().await.expect("rows").expect("a batch");
        tokio::time::sleep(Duration::from_millis(300)).await;
        let before = served.metric("statement_rows_total");
        assert!(is_running(&served));
        // Others are served meanwhile.
        assert_eq!(number(&client, "SELECT 7").await, 7);
        drop(rows);
        ends(&served).await;
        assert!(served.metric("statement_rows_total") < before + 100_000_000);
    });
}

#[test]
fn a_message_that_is_too_long_and_rows_that_are_too_many() {
    let settings = [("request_bytes_max", "1MB"), ("requests_bytes_max", "4MB")];
    with_settings(&settings, |served| async move {
        let mut client = FlightServiceClient::new(channel(&served).await);
        let sql = format!("SELECT '{}'", "x".repeat(2 << 20));
        let error = client.do_get(Ticket::new(sql)).await.expect_err("too long");
        assert_eq!(error.code(), Code::OutOfRange, "{error}");
        let client = ours(&served).await;
        client.execute(TRADES, None).await.expect("a table");
        let session = client.session().await.expect("a session");
        session.execute("BEGIN", None).await.expect("begun");
        let batches: Vec<_> = (0..40).map(|at| Ok(trades(10_000, at * 10_000))).collect();
        let schema = trades(0, 0).schema();
        let error = session.append(&Append::to("trades"), &schema, stream::iter(batches)).await;
        let error = error.expect_err("they do not fit");
        assert!(error.message.contains("requests_bytes_max"), "{error}");
        // What is stored as it comes need not fit.
        let batches: Vec<_> = (0..40).map(|at| Ok(trades(10_000, at * 10_000))).collect();
        assert_eq!(client.append(&Append::to("trades"), &schema, stream::iter(batches)).await, Ok(400_000));
    });
}

#[test]
fn bytes_that_are_no_requests() {
    with_settings(&[("idle_timeout", "1s")], |served| async move {
        let mut client = FlightServiceClient::new(channel(&served).await);
        for bytes in [&b""[..], b"\x00\x01\xff", b"\x0a\xff\xff\xff\xff", b"   "] {
            let error = client.do_get(Ticket::new(bytes.to_vec())).await.expect_err("no ticket");
            assert_eq!(error.code(), Code::InvalidArgument, "{error}");
            let error = client.get_flight_info(FlightDescriptor::new_cmd(bytes.to_vec())).await;
            error.expect_err("no command");
        }
        let mut any = CommandStatementQuery { query: "SELECT 1".to_string(), transaction_id: None }.as_any();
        any.value = b"\xff\xff".to_vec().into();
        let error = client.get_flight_info(FlightDescriptor::new_cmd(any.encode_to_vec())).await;
        assert_eq!(error.expect_err("no command").code(), Code::InvalidArgument);
        let unknown = Any { type_url: "type.googleapis.com/Nothing".to_string(), value: Vec::new().into() };
        let error = client.get_flight_info(FlightDescriptor::new_cmd(unknown.encode_to_vec())).await;
        assert_eq!(error.expect_err("no command").code(), Code::Unimplemented);
        for name in [
            "",
            "Nothing",
            "CreatePreparedStatement",
            "EndTransaction",
            "CancelQuery",
            protocol::FORGET_TABLES,
        ] {
            client.do_action(Action::new(name, b"\x01\x02".to_vec())).await.expect_err(name);
        }
        // Messages of rows with some of their bytes changed.
        let path = Some(FlightDescriptor::new_path(vec!["broken".to_string()]));
        let rows = stream::iter([Ok(trades(50, 0))]);
        let good: Vec<FlightData> =
            tickstone_client::sending::messages(&trades(0, 0).schema(), path, Vec::new().into(), rows)
                .try_collect()
                .await
                .expect("messages");
        let mut refused = 0;
        for at in 0..400 {
            let mut broken = good.clone();
            let message = &mut broken[at % good.len()];
            let bytes = if at % 2 == 0 { &mut message.data_header } else { &mut message.data_body };
            let mut changed = bytes.to_vec();
            if changed.is_empty() {
                continue;
            }
            let place = (at * 7_919) % changed.len();
            changed[place] ^= 1 << (at % 8);
            changed.truncate(changed.len() - at % 3);
            *bytes = changed.into();
            refused += usize::from(client.do_put(stream::iter(broken)).await.is_err());
        }
        assert!(refused > 50, "{refused}");
        // A compressed buffer that claims more bytes than there is memory.
        let options = IpcWriteOptions::default().try_with_compression(Some(CompressionType::ZSTD));
        let packed = FlightDataEncoderBuilder::new()
            .with_options(options.expect("options"))
            .with_flight_descriptor(Some(FlightDescriptor::new_path(vec!["packed".to_string()])))
            .build(stream::iter([Ok(trades(5_000, 0))]));
        let mut packed: Vec<FlightData> = packed.try_collect().await.expect("messages");
        let body = &mut packed.last_mut().expect("rows").data_body;
        *body = [&(1_i64 << 55).to_le_bytes()[..], &body[8..]].concat().into();
        let error = client.do_put(stream::iter(packed)).await.expect_err("no room");
        assert!(error.message().contains("claims to hold"), "{error}");
        client.do_put(stream::iter(Vec::<FlightData>::new())).await.expect_err("nothing came");
        client.do_put(stream::iter(good[1..].to_vec())).await.expect_err("no descriptor");
        client.do_exchange(stream::iter(good)).await.expect_err("there is no exchange");
        assert_eq!(number(&ours(&served).await, "SELECT 5").await, 5);
    });
}

#[test]
fn connections_that_are_no_http2() {
    with_settings(&[("idle_timeout", "1s")], |served| async move {
        let gone = |mut stream: std::net::TcpStream| {
            let mut left = Vec::new();
            let _ = stream.read_to_end(&mut left);
            left
        };
        // What a browser speaks.
        let mut stream = served.connect("flight_port");
        stream
            .write_all(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc\r\n\r\n")
            .expect("sent");
        assert_eq!(gone(stream), b"");
        // Nothing, or the beginning of something.
        for begin in [&b""[..], b"PRI * HT"] {
            let begun = Instant::now();
            let mut stream = served.connect("flight_port");
            stream.write_all(begin).expect("sent");
            assert_eq!(gone(stream), b"");
            assert!(begun.elapsed() < Duration::from_secs(10));
        }
        // A connection that says nothing after its beginning, not even that it is alive.
        let begun = Instant::now();
        let mut stream = served.connect("flight_port");
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("sent");
        gone(stream);
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    });
}

#[test]
fn a_request_that_is_no_grpc() {
    with_server(|served| async move {
        for (kind, wanted) in [
            ("application/grpc-web", 415),
            ("application/grpc-web+proto", 415),
            ("text/plain", 415),
            ("application/json", 415),
            ("application/grpc", 200),
            ("application/grpc+proto", 200),
        ] {
            let stream =
                tokio::net::TcpStream::connect(served.address("flight_port")).await.expect("it listens");
            let io = hyper_util::rt::TokioIo::new(stream);
            let executor = hyper_util::rt::TokioExecutor::new();
            let (mut send, connection) =
                hyper::client::conn::http2::handshake::<_, _, axum::body::Body>(executor, io)
                    .await
                    .expect("HTTP/2");
            tokio::spawn(connection);
            let request =
                axum::http::Request::post("http://localhost/arrow.flight.protocol.FlightService/DoAction")
                    .header("content-type", kind)
                    .body(axum::body::Body::empty())
                    .expect("a request");
            let answer = send.send_request(request).await.expect("an answer");
            assert_eq!(answer.status().as_u16(), wanted, "{kind}");
        }
    });
}

#[test]
fn handshakes_take_any_name() {
    with_server(|served| async move {
        let mut client = FlightServiceClient::new(channel(&served).await);
        let message = HandshakeRequest { protocol_version: 1, payload: b"anybody".to_vec().into() };
        let answer = client.handshake(stream::iter([message])).await.expect("any name");
        assert!(answer.metadata().contains_key("authorization"));
        let message = answer.into_inner().message().await.expect("a message").expect("a message");
        assert!(!message.payload.is_empty());
    });
}

#[test]
fn rows_that_are_cut_off_leave_nothing() {
    with_settings(&[("idle_timeout", "1s")], |served| async move {
        let client = ours(&served).await;
        client.execute(TRADES, None).await.expect("a table");
        // A client that goes in the midst.
        let going = client.clone();
        let endless = stream::iter((0..).map(|at| Ok(trades(100_000, at * 100_000))));
        let append = tokio::spawn(async move {
            going.append(&Append::to("trades"), &trades(0, 0).schema(), endless).await
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
        append.abort();
        let _ = append.await;
        // One that dribbles.
        let dribbling = stream::iter([Ok(trades(1_000, 0))]).chain(stream::pending());
        let error = client.append(&Append::to("trades"), &trades(0, 0).schema(), dribbling).await;
        let error = error.expect_err("it waits");
        assert!(error.message.contains("idle_timeout"), "{error}");
        assert_eq!(stored(&served, "SELECT count(*) FROM trades"), Some(0));
        assert_eq!(
            client
                .append(&Append::to("trades"), &trades(0, 0).schema(), stream::iter([Ok(trades(3, 0))]))
                .await,
            Ok(3)
        );
    });
}

#[test]
fn ports_that_are_not_flights() {
    with_server(|served| async move {
        for port in ["http_port", "influx_port", "pg_port", "ilp_port", "stream_port"] {
            let url = format!("tickstone://{}", served.address(port));
            let error = Client::connect(&url).await.expect_err(port);
            let told =
                error.message.contains("Arrow Flight SQL") && error.to_string().contains("flight_port");
            assert!(told && error.to_string().contains("8815"), "{port}: {error}");
        }
    });
}
