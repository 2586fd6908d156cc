//! Users and grants: what each may see and do, on every path of a session.

use std::time::{SystemTime, UNIX_EPOCH};
use tickstone_query::arrow::util::pretty::pretty_format_batches;
use tickstone_query::{Access, Database, DatabaseOptions, QueryError, Session, SqlState};

pub(crate) fn memory() -> Database {
    let database = Database::in_memory(DatabaseOptions::default()).unwrap();
    let owner = Access::of_owner(&database);
    for sql in [
        "CREATE TABLE t (ts TIMESTAMP, sym SYMBOL, px DOUBLE, sz BIGINT) TIMESTAMP(ts)",
        "INSERT INTO t VALUES ('2024-01-01T10:00:00Z', 'A', 1.5, 10), ('2024-01-01T11:00:00Z', 'B', 2.5, 20), \
         ('2024-01-02T10:00:00Z', 'A', 3.5, 30), ('2024-01-03T10:00:00Z', 'B', 4.5, 40)",
        "CREATE TABLE secret (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)",
        "INSERT INTO secret VALUES ('2024-01-01T10:00:00Z', 42)",
        "CREATE VIEW sums AS SELECT sum(x) AS x FROM secret",
        "CREATE USER root PASSWORD 'r' IN ROLE admin",
        "CREATE USER ann PASSWORD 'a'",
    ] {
        done(&mut owner.session(), sql);
    }
    database
}

pub(crate) fn ran(session: &mut Session, sql: &str) -> Result<Vec<String>, QueryError> {
    let runtime = session.database().runtime().handle().clone();
    let batches = runtime.block_on(session.query(sql))?;
    let text = pretty_format_batches(&batches).unwrap().to_string();
    let lines = text.lines().filter(|line| line.starts_with('|')).skip(1);
    let cells = |line: &str| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        cells.join(" ").trim_end().to_string()
    };
    Ok(lines.map(cells).collect())
}

#[track_caller]
pub(crate) fn done(session: &mut Session, sql: &str) -> Vec<String> {
    ran(session, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

#[track_caller]
pub(crate) fn refused(session: &mut Session, sql: &str, state: SqlState) -> QueryError {
    match ran(session, sql) {
        Ok(rows) => panic!("{sql} gives {rows:?}"),
        Err(error) => {
            assert_eq!(error.sql_state(), state, "{sql}: {error}");
            assert!(!error.to_string().contains('\u{1}'), "{sql}: {error}");
            error
        }
    }
}

pub(crate) fn of(database: &Database, user: &str) -> Session {
    database.access_of(user).unwrap().session()
}

#[test]
fn nobody_sees_what_is_not_granted() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    for sql in [
        "SELECT * FROM t",
        "SELECT * FROM sums",
        "SELECT * FROM \"internal~accounts\"",
        "SELECT (SELECT max(px) FROM t)",
        "WITH w AS (SELECT * FROM t) SELECT * FROM w",
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM secret)",
        "EXPLAIN SELECT * FROM t",
        "SUMMARIZE t",
        "DESCRIBE SELECT * FROM t",
        "SHOW COLUMNS FROM t",
        "SHOW PARTITIONS FROM t",
        "SELECT * FROM table_partitions('t')",
        "INSERT INTO t VALUES ('2024-01-01T10:00:00Z', 'A', 1.5, 10)",
        "DELETE FROM t",
        "UPDATE t SET px = 1",
        "DROP TABLE t",
        "TRUNCATE t",
        "ALTER TABLE t ADD COLUMN y BIGINT",
        "REPLAY t",
    ] {
        let error = ran(&mut ann, sql).expect_err(sql);
        let states = [SqlState::UndefinedTable, SqlState::InvalidRequest, SqlState::Denied];
        assert!(states.contains(&error.sql_state()), "{sql}: {error} {:?}", error.sql_state());
    }
    for sql in [
        "CREATE TABLE u (x BIGINT)",
        "CREATE VIEW w AS SELECT 1 AS x",
        "CREATE STREAM s",
        "CHECKPOINT",
        "CREATE USER eve PASSWORD 'x'",
        "GRANT SELECT ON secret TO ann",
        "GRANT admin TO ann",
        "ALTER USER root PASSWORD 'mine'",
        "CREATE TOKEN k FOR root",
        "COPY (SELECT 1) TO '/tmp/tickstone-denied.csv'",
    ] {
        refused(&mut ann, sql, SqlState::Denied);
    }
    assert!(ran(&mut ann, "SELECT * FROM '/etc/hostname.csv'").is_err());
    let shown = ["SHOW TABLES", "SELECT * FROM tables()", "SHOW VIEWS", "SELECT * FROM views()"];
    for sql in shown
        .into_iter()
        .chain(["SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"])
    {
        assert!(done(&mut ann, sql).is_empty(), "{sql}");
        assert!(!done(&mut root, sql).is_empty(), "{sql}");
    }
    let error = refused(&mut ann, "SELECT * FROM secrt", SqlState::UndefinedTable);
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    assert_eq!(done(&mut root, "SELECT count(*) FROM t"), ["4"]);
    assert_eq!(done(&mut root, "SELECT x FROM sums"), ["42"]);

    // A table of one's own session is one's own.
    done(&mut ann, "CREATE TEMP TABLE mine (x BIGINT)");
    done(&mut ann, "INSERT INTO mine VALUES (7)");
    assert_eq!(done(&mut ann, "SELECT x + 1 FROM mine"), ["8"]);
    let mut eve = of(&database, "ann");
    for number in 0..64 {
        assert!(ran(&mut eve, &format!("SELECT * FROM \"upload~{number}\"")).is_err());
        assert!(ran(&mut eve, &format!("DROP TABLE \"upload~{number}\"")).is_err());
    }
    assert_eq!(done(&mut ann, "SELECT x FROM mine"), ["7"]);
}

#[test]
fn grants_take_effect_in_open_sessions_and_end_there() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    let asked = "SELECT count(*) FROM t";
    for _ in 0..3 {
        assert_eq!(done(&mut root, asked), ["4"]);
        refused(&mut ann, asked, SqlState::UndefinedTable);
    }
    done(&mut root, "GRANT SELECT ON t TO ann");
    for _ in 0..3 {
        assert_eq!(done(&mut ann, asked), ["4"]);
    }
    refused(&mut ann, "DELETE FROM t", SqlState::Denied);
    refused(&mut ann, "INSERT INTO t SELECT * FROM t", SqlState::Denied);
    done(&mut ann, "PREPARE p AS SELECT count(*) FROM t");
    assert_eq!(done(&mut ann, "EXECUTE p"), ["4"]);
    done(&mut root, "REVOKE SELECT ON t FROM ann");
    refused(&mut ann, asked, SqlState::UndefinedTable);
    refused(&mut ann, "EXECUTE p", SqlState::UndefinedTable);

    // By a role, and by everything.
    done(&mut root, "CREATE ROLE desk");
    done(&mut root, "GRANT SELECT ON t TO desk");
    done(&mut root, "GRANT desk TO ann");
    assert_eq!(done(&mut ann, asked), ["4"]);
    done(&mut root, "REVOKE desk FROM ann");
    refused(&mut ann, asked, SqlState::UndefinedTable);
    done(&mut root, "GRANT reader TO ann");
    assert_eq!(done(&mut ann, asked), ["4"]);
    assert_eq!(done(&mut ann, "SELECT x FROM sums"), ["42"]);
    refused(&mut ann, "TRUNCATE t", SqlState::Denied);
    done(&mut root, "REVOKE reader FROM ann");

    // One who is gone may nothing, also where another gets the name.
    done(&mut root, "GRANT SELECT ON t TO ann");
    done(&mut root, "DROP USER ann");
    refused(&mut ann, "SELECT 1", SqlState::Unknown);
    done(&mut root, "CREATE USER ann PASSWORD 'b'");
    refused(&mut ann, "SELECT 1", SqlState::Unknown);
    refused(&mut of(&database, "ann"), asked, SqlState::UndefinedTable);
}

#[test]
fn grants_go_with_their_table() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    done(&mut root, "GRANT SELECT (ts, px) ON t TO ann");
    assert_eq!(done(&mut ann, "SELECT * FROM t LIMIT 1"), ["2024-01-01T10:00:00 1.5"]);
    done(&mut root, "ALTER TABLE t RENAME COLUMN px TO price");
    done(&mut root, "ALTER TABLE t RENAME TO u");
    done(&mut root, "ALTER TABLE u ADD COLUMN px BIGINT");
    assert_eq!(done(&mut ann, "SELECT * FROM u LIMIT 1"), ["2024-01-01T10:00:00 1.5"]);
    refused(&mut ann, "SELECT sz FROM u", SqlState::UndefinedColumn);
    refused(&mut ann, "SELECT px FROM u", SqlState::UndefinedColumn);
    done(&mut root, "DROP TABLE u");
    done(&mut root, "CREATE TABLE u (ts TIMESTAMP, price DOUBLE) TIMESTAMP(ts)");
    refused(&mut ann, "SELECT * FROM u", SqlState::UndefinedTable);
    done(&mut root, "GRANT SELECT ON u TO ann");
    done(&mut root, "CREATE OR REPLACE TABLE u AS SELECT TIMESTAMP '2024-01-01' AS ts, 5 AS x");
    assert_eq!(done(&mut ann, "SELECT x FROM u"), ["5"]);
}

#[test]
fn who_makes_a_table_owns_it() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    done(&mut root, "CREATE USER bob PASSWORD 'b'");
    done(&mut root, "GRANT CREATE ON ALL TABLES TO ann");
    for sql in [
        "CREATE TABLE mine (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)",
        "INSERT INTO mine VALUES ('2024-01-01', 1)",
        "CREATE TABLE copied AS SELECT * FROM mine",
        "CREATE VIEW over AS SELECT x FROM mine",
        "UPDATE mine SET x = 2",
        "GRANT SELECT ON over TO bob",
    ] {
        done(&mut ann, sql);
    }
    let mut bob = of(&database, "bob");
    // By the rights of its owner.
    assert_eq!(done(&mut bob, "SELECT x FROM over"), ["2"]);
    refused(&mut bob, "SELECT x FROM mine", SqlState::UndefinedTable);
    refused(&mut bob, "CREATE OR REPLACE VIEW over AS SELECT x FROM secret", SqlState::Denied);
    // An owner's view reads what its owner may read, no more.
    assert!(ran(&mut ann, "CREATE VIEW leak AS SELECT * FROM secret").is_err());
    done(&mut root, "GRANT SELECT ON secret TO ann");
    done(&mut ann, "CREATE VIEW leak AS SELECT x FROM secret");
    done(&mut ann, "GRANT SELECT ON leak TO bob");
    assert_eq!(done(&mut bob, "SELECT x FROM leak"), ["42"]);
    done(&mut root, "REVOKE SELECT ON secret FROM ann");
    assert!(ran(&mut bob, "SELECT x FROM leak").is_err());
    done(&mut ann, "DROP TABLE copied");
    done(&mut root, "DROP USER ann");
    refused(&mut bob, "SELECT x FROM over", SqlState::Denied);
}

#[test]
fn secrets_are_in_no_text() {
    let database = memory();
    let mut root = of(&database, "root");
    let token = done(&mut root, "CREATE TOKEN feed FOR ann").remove(0);
    let token = token.split(' ').next().unwrap().to_string();
    assert_eq!(database.access_by_token(&token).unwrap().user(), Some("ann"));
    assert_eq!(database.access_by_password("ANN", "a").unwrap().user(), Some("ann"));
    for wrong in ["", "tick_", &token[..token.len() - 1], "x"] {
        assert_eq!(database.access_by_token(wrong).unwrap_err().sql_state(), SqlState::WrongPassword);
    }
    let messages: Vec<String> = [("ann", "b"), ("nobody", "a"), ("reader", ""), ("ann", "")]
        .into_iter()
        .map(|(user, password)| database.access_by_password(user, password).unwrap_err().to_string())
        .collect();
    assert!(messages.iter().all(|message| *message == messages[0]), "{messages:?}");
    let all: Vec<String> =
        ["SHOW USERS", "SHOW TOKENS", "SHOW GRANTS", "SHOW QUERIES", "SHOW CONFIG", "SHOW METRICS"]
            .into_iter()
            .flat_map(|sql| done(&mut root, sql))
            .collect();
    assert!(all.iter().all(|line| !line.contains("SCRAM") && !line.contains(&token)), "{all:?}");
    let error = ran(&mut root, "CREATE USER x PASSWORD hunter2").unwrap_err();
    assert!(!format!("{error:?}{error}").contains("hunter2"), "{error:?}");
    let mut session = database.access_by_token(&token).unwrap().session();
    done(&mut session, "SELECT 1");
    done(&mut root, "DROP TOKEN feed");
    refused(&mut session, "SELECT 1", SqlState::Unknown);
}

#[test]
fn there_is_always_an_admin() {
    let database = Database::in_memory(DatabaseOptions::default()).unwrap();
    let mut owner = Access::of_owner(&database).session();
    assert!(ran(&mut owner, "CREATE USER ann PASSWORD 'a'").is_err());
    assert!(!database.has_users().unwrap());
    done(&mut owner, "CREATE USER root PASSWORD 'r' IN ROLE admin");
    done(&mut owner, "CREATE USER ann PASSWORD 'a'");
    assert!(database.has_users().unwrap());
    let mut root = of(&database, "root");
    assert!(ran(&mut root, "DROP USER root").is_err());
    assert!(ran(&mut root, "REVOKE admin FROM root").is_err());
    assert!(ran(&mut root, "ALTER USER root PASSWORD NULL").is_err());
    done(&mut root, "GRANT admin TO ann");
    done(&mut root, "ALTER USER root PASSWORD NULL");
    assert!(ran(&mut root, "ALTER USER ann PASSWORD NULL").is_err());
    done(&mut root, "CREATE TOKEN spare FOR root");
    done(&mut root, "ALTER USER ann PASSWORD NULL");
    done(&mut root, "ALTER USER ann PASSWORD 'b'");
    done(&mut root, "DROP USER root");
}

/// A statement of a filtered user answers as one over a table of what is allowed alone.
#[test]
fn a_filter_is_a_smaller_table() {
    let seed = std::env::var("TICKSTONE_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut random = seed.unwrap_or_else(now) | 1;
    println!("TICKSTONE_SEED={random}");
    let mut draw = |count: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % count
    };
    let database = memory();
    let mut root = of(&database, "root");
    let filters =
        ["sym = 'A'", "px > 2", "sz IS NOT NULL AND sz % 3 = 0", "ts >= '2024-01-02'", "sym IN ('A', 'C')"];
    done(&mut root, "CREATE TABLE q (ts TIMESTAMP, sym SYMBOL, bid DOUBLE) TIMESTAMP(ts)");
    for row in 0..400 {
        let (minute, sym) = (draw(3 * 1440), ["'A'", "'B'", "'C'", "NULL"][draw(4) as usize]);
        let sz = if draw(9) == 0 { "NULL".to_string() } else { draw(50).to_string() };
        let at = format!("TIMESTAMP '2024-01-01' + INTERVAL '{minute} minutes'");
        let table = if row % 2 == 0 { "t" } else { "q" };
        let more = if row % 2 == 0 { format!(", {sz}") } else { String::new() };
        done(
            &mut root,
            &format!("INSERT INTO {table} VALUES ({at}, {sym}, {}{more})", draw(90) as f64 / 8.0),
        );
        if draw(60) == 0 {
            done(&mut root, "CHECKPOINT");
        }
    }
    let items = [
        "count(*) AS n, min(ts) AS a, max(px) AS b",
        "sum(sz) AS n, first(px) AS a, last(px) AS b",
        "count(DISTINCT sym) AS n, vwap(px, sz) AS a, max(sz) AS b",
    ];
    let mut asked = 0;
    for round in 0..12 {
        let user = format!("u{round}");
        let columns = ["", "(ts, sym, px)", "(ts, px, sym, sz)"][draw(3) as usize];
        let filter = filters[draw(filters.len() as u64) as usize];
        done(&mut root, &format!("CREATE USER {user} PASSWORD 'x'"));
        done(&mut root, &format!("GRANT SELECT ON t {columns} WHERE {filter} TO {user}"));
        done(&mut root, &format!("GRANT SELECT ON q TO {user}"));
        let names = if columns == "(ts, sym, px)" { "ts, sym, px" } else { "ts, sym, px, sz" };
        // The same rows, as a view that an admin reads.
        done(&mut root, &format!("CREATE OR REPLACE VIEW allowed AS SELECT {names} FROM t WHERE {filter}"));
        let (mut filtered, mut whole) = (of(&database, &user), of(&database, "root"));
        let mut statements = vec![
            "SELECT * FROM t ORDER BY ALL".to_string(),
            "SELECT count(*) FROM t".to_string(),
            "SELECT min(ts), max(ts) FROM t".to_string(),
            "SELECT * FROM t LATEST ON ts PARTITION BY sym ORDER BY ALL".to_string(),
            "SELECT sym, count(*) FROM t GROUP BY sym ORDER BY ALL".to_string(),
            "SELECT q.ts, q.sym, t.px FROM q ASOF JOIN t ON q.sym = t.sym ORDER BY ALL".to_string(),
            "SELECT t.ts, t.px, q.bid FROM t ASOF JOIN q ON q.sym = t.sym ORDER BY ALL".to_string(),
            "WITH w AS (SELECT * FROM t) SELECT count(*) FROM w a JOIN w b ON a.ts = b.ts".to_string(),
            "SELECT (SELECT max(px) FROM t u WHERE u.sym = q.sym) AS m, bid FROM q ORDER BY ALL LIMIT 9"
                .to_string(),
            "SELECT px FROM t WHERE px NOT IN (SELECT bid FROM q) ORDER BY ALL".to_string(),
            "SELECT DISTINCT sym FROM t ORDER BY 1".to_string(),
            "SELECT ts, px, lag(px) OVER (PARTITION BY sym ORDER BY ts, px) AS p FROM t ORDER BY ALL"
                .to_string(),
            "SELECT * FROM t ORDER BY ts DESC, px, sym LIMIT 3".to_string(),
        ];
        if names.ends_with("sz") {
            let item = items[draw(3) as usize];
            let step = ["1h", "1d", "90m"][draw(3) as usize];
            let by = ["", "sym, "][draw(2) as usize];
            statements.push(format!("SELECT {by}ts, {item} FROM t SAMPLE BY {step} ORDER BY ALL"));
            statements.push(format!("SELECT {item} FROM t WHERE sz > {}", draw(40)));
        } else {
            refused(&mut filtered, "SELECT sz FROM t", SqlState::UndefinedColumn);
            refused(&mut filtered, "SELECT count(*) FROM t WHERE t.sz > 1", SqlState::UndefinedColumn);
        }
        for statement in statements {
            let same = statement.replace("FROM t", "FROM allowed t").replace("JOIN t ", "JOIN allowed t ");
            let same = same.replace("FROM allowed t u", "FROM allowed u");
            // The second time by what was kept of the first.
            for _ in 0..2 {
                assert_eq!(done(&mut filtered, &statement), done(&mut whole, &same), "{filter}: {statement}");
                asked += 1;
            }
        }
        assert_eq!(done(&mut filtered, "SHOW TABLES").len(), 2);
        let columns = "SELECT count(*) FROM information_schema.columns WHERE table_name = 't'";
        assert_eq!(done(&mut filtered, columns), [names.split(',').count().to_string()]);
        for changes in ["DELETE FROM t", "UPDATE t SET px = 0", "INSERT INTO t (ts) VALUES ('2024-01-01')"] {
            refused(&mut filtered, changes, SqlState::Denied);
        }
    }
    assert!(asked > 300);
}

/// What others have asked before is no way around, nor is a schema before the name.
#[test]
fn what_others_asked_says_nothing() {
    let database = memory();
    let (mut root, mut ann, mut eve) = (of(&database, "root"), of(&database, "ann"), of(&database, "ann"));
    done(&mut root, "CREATE USER bob PASSWORD 'b'");
    done(&mut root, "GRANT SELECT ON t (ts, sym, px) WHERE sym = 'A' TO ann");
    done(&mut root, "GRANT INSERT ON t TO bob");
    done(&mut root, "GRANT CREATE ON ALL TABLES TO ann");
    let mut bob = of(&database, "bob");
    for name in
        ["secret", "public.secret", "tickstone.public.secret", "\"secret\"", "SECRET", "sums", "public.sums"]
    {
        for items in ["*", "x", "count(*)", "sum(x) + 1", "x AS y"] {
            for number in 0..3 {
                let sql = format!("SELECT {items} FROM {name} WHERE {number} = {number}");
                let allowed: Vec<_> = (0..3).map(|_| done(&mut root, &sql)).collect();
                assert!(!allowed[0].is_empty());
                for _ in 0..3 {
                    refused(&mut ann, &sql, SqlState::UndefinedTable);
                    refused(&mut eve, &sql, SqlState::UndefinedTable);
                    refused(&mut bob, &sql, SqlState::UndefinedTable);
                }
            }
        }
    }
    for name in ["t", "public.t", "x.PUBLIC.t", "\"public\".\"t\""] {
        for items in ["sym, px", "*", "count(*)", "sum(px)"] {
            let sql = format!("SELECT {items} FROM {name}");
            for _ in 0..3 {
                let all = done(&mut root, &sql);
                let some = done(&mut ann, &sql);
                assert_eq!(
                    some,
                    done(
                        &mut root,
                        &format!(
                            "SELECT {} FROM t WHERE sym = 'A'",
                            items.replace('*', if items == "*" { "ts, sym, px" } else { "*" })
                        )
                    )
                );
                assert_ne!(all, some, "{sql}");
                refused(&mut bob, &sql, SqlState::Denied);
            }
            refused(&mut bob, &format!("INSERT INTO t (px) SELECT px FROM {name}"), SqlState::Denied);
            refused(&mut bob, &format!("SUBSCRIBE TO (SELECT * FROM {name})"), SqlState::Denied);
        }
        let view =
            format!("CREATE MATERIALIZED VIEW bars AS SELECT ts, sym, max(px) AS m FROM {name} SAMPLE BY 1d");
        refused(&mut ann, &view, SqlState::Denied);
    }
    done(&mut root, "REVOKE SELECT ON t FROM ann");
    for _ in 0..3 {
        done(&mut root, "SELECT * FROM t");
        refused(&mut ann, "SELECT * FROM t", SqlState::UndefinedTable);
    }

    // A condition goes by columns, whose names stay while it is there.
    done(&mut root, "GRANT SELECT ON t WHERE sz > 15 TO ann");
    for change in ["RENAME COLUMN sz TO size", "DROP COLUMN sz"] {
        assert!(ran(&mut root, &format!("ALTER TABLE t {change}")).is_err(), "{change}");
    }
    done(&mut root, "REVOKE SELECT ON t FROM ann");
    done(&mut root, "ALTER TABLE t RENAME COLUMN sz TO size");
}

#[test]
fn grants_of_several_columns_and_rows_add_up() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    done(&mut root, "GRANT SELECT ON t (ts, px) WHERE sym = 'A' TO ann");
    done(&mut root, "GRANT SELECT ON t (ts, sz) WHERE sz > 15 TO ann");
    assert_eq!(
        done(&mut ann, "SELECT ts, px, sz FROM t ORDER BY ts"),
        [
            "2024-01-01T10:00:00 1.5",
            "2024-01-01T11:00:00  20",
            "2024-01-02T10:00:00 3.5 30",
            "2024-01-03T10:00:00  40"
        ]
    );
    for wrong in [
        "GRANT SELECT ON t WHERE nothing > 1 TO ann",
        "GRANT SELECT ON t WHERE px IN (SELECT x FROM secret) TO ann",
        "GRANT SELECT ON t WHERE px TO ann",
        "GRANT SELECT ON t WHERE px > 1) OR (1 = 1 TO ann",
        "GRANT INSERT ON t (px) TO ann",
        "GRANT SELECT ON t (nothing) TO ann",
        "GRANT ADMIN ON t TO ann",
        "GRANT FLY ON t TO ann",
        "GRANT SELECT ON nothing TO ann",
        "GRANT SELECT ON t TO nobody",
        "GRANT SELECT ON ALL TABLES TO reader",
    ] {
        assert!(ran(&mut root, wrong).is_err(), "{wrong}");
    }
}

/// Two changes of one table's grants at once lose neither, nor does one beside changes of users.
#[test]
fn grants_at_once_are_all_kept() {
    const EACH: usize = 20;
    let database = memory();
    let names: Vec<String> = (0..4 * EACH).map(|number| format!("u{number}")).collect();
    let mut root = of(&database, "root");
    for name in &names {
        done(&mut root, &format!("CREATE USER {name}"));
    }
    std::thread::scope(|scope| {
        for (place, names) in names.chunks(EACH).enumerate() {
            let database = &database;
            scope.spawn(move || {
                let mut root = of(database, "root");
                for name in names {
                    let rights = ["SELECT", "INSERT", "SELECT (ts)", "ALTER"][place];
                    let (right, columns) = rights.split_once(' ').unwrap_or((rights, ""));
                    done(&mut root, &format!("GRANT {right} ON t {columns} TO {name}"));
                    if place == 3 {
                        done(&mut root, &format!("ALTER USER {name} SET max_rows = 7"));
                    }
                }
            });
        }
    });
    let granted = done(&mut root, "SHOW GRANTS");
    for (place, names) in names.chunks(EACH).enumerate() {
        for name in names {
            let right = ["SELECT", "INSERT", "SELECT", "ALTER"][place];
            let is_there = |line: &String| line.starts_with(&format!("{name} ")) && line.contains(right);
            assert!(granted.iter().any(is_there), "{name} lacks {right}: {granted:?}");
        }
    }
    assert_eq!(done(&mut root, "SHOW LIMITS").len(), EACH);
}

#[test]
fn limits_of_memory_are_those_of_all_sessions_of_a_user() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    let sql = "SELECT cardinality(array_agg(value)) FROM range(0, 2000000)";
    done(&mut ann, sql);
    done(&mut root, "ALTER USER ann SET query_memory = '1MB'");
    let error = ran(&mut ann, sql).unwrap_err();
    assert_eq!(error.sql_state(), SqlState::OutOfMemory, "{error}");
    assert!(error.to_string().contains("the user's query_memory"), "{error}");
    done(&mut root, sql);
    done(&mut root, "ALTER USER ann RESET ALL");
    done(&mut ann, sql);
    // What an aborted statement held is given back.
    done(&mut root, "ALTER USER ann SET query_memory = '500MB'");
    (0..5).for_each(|_| drop(done(&mut ann, sql)));
}

#[test]
fn what_a_token_gives_is_described() {
    let database = memory();
    let mut root = of(&database, "root");
    for (sql, columns) in [("CREATE TOKEN a FOR ann", 3), ("CREATE TOKEN b FOR ann TYPE ES256", 5)] {
        let runtime = database.runtime().handle().clone();
        let (_, statement) = database.parse_with_texts(sql).unwrap().pop().unwrap();
        let described = runtime.block_on(root.describe(&statement, &[])).unwrap().rows.unwrap();
        let given = runtime.block_on(root.query(sql)).unwrap()[0].schema();
        assert_eq!((described.fields(), given.fields().len()), (given.fields(), columns), "{sql}");
    }
    // Describing makes none.
    assert_eq!(done(&mut root, "SHOW TOKENS").len(), 2);
}

/// Rows that memory has no room for go to disk, as far as the user may take some of it.
#[test]
fn limits_of_temporary_disk_are_those_of_all_sessions_of_a_user() {
    let options = DatabaseOptions { query_memory_bytes: Some(64 << 20), ..DatabaseOptions::default() };
    let database = Database::in_memory(options).unwrap();
    for sql in [
        "CREATE USER root PASSWORD 'r' IN ROLE admin",
        "CREATE USER ann PASSWORD 'a'",
        "CREATE USER bob PASSWORD 'b'",
    ] {
        done(&mut Access::of_owner(&database).session(), sql);
    }
    let (mut root, mut ann, mut bob) = (of(&database, "root"), of(&database, "ann"), of(&database, "bob"));
    // Sorted outside of memory.
    let sql = "SELECT count(*) FROM (SELECT value, repeat('x', 100) AS t FROM range(0, 600000) ORDER BY value % 7919, t OFFSET 1)";
    assert_eq!(done(&mut ann, sql), ["599999"]);
    done(&mut root, "ALTER USER ann SET temp_disk = '1MB'");
    for session in [&mut ann, &mut of(&database, "ann")] {
        let error = ran(session, sql).expect_err("it has no room");
        let text = format!("{error} {}", error.hint.clone().unwrap_or_default());
        assert!(text.contains("temporary disk than 1024.0 KB") && text.contains("SET temp_disk"), "{text}");
    }
    assert_eq!(done(&mut bob, sql), ["599999"]);
    done(&mut root, "ALTER USER ann RESET temp_disk");
    assert_eq!(done(&mut ann, sql), ["599999"]);
}

#[test]
fn who_makes_a_stream_may_change_and_drop_it() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    done(&mut root, "CREATE USER bob PASSWORD 'b'");
    let mut bob = of(&database, "bob");
    refused(&mut ann, "CREATE STREAM mine", SqlState::Denied);
    done(&mut root, "GRANT CREATE ON ALL STREAMS TO ann, bob");
    done(&mut root, "CREATE STREAM theirs");
    done(&mut ann, "CREATE STREAM mine");
    // It was there.
    done(&mut ann, "CREATE STREAM IF NOT EXISTS theirs");
    assert!(ran(&mut ann, "CREATE STREAM mine").is_err());
    assert_eq!(done(&mut ann, "SELECT stream FROM streams()"), ["mine"]);
    assert!(done(&mut bob, "SELECT stream FROM streams()").is_empty());
    done(&mut ann, "ALTER STREAM mine SET (ttl = '7d')");
    for sql in ["ALTER STREAM mine SET (ttl = '1d')", "DROP STREAM mine", "DROP STREAM theirs"] {
        assert!(ran(&mut bob, sql).is_err(), "{sql}");
    }
    assert!(ran(&mut ann, "DROP STREAM theirs").is_err());
    done(&mut ann, "DROP STREAM mine");
    done(&mut bob, "CREATE STREAM mine");
    assert!(ran(&mut ann, "DROP STREAM mine").is_err(), "it is another's");
    assert!(done(&mut ann, "SELECT stream FROM streams()").is_empty());
    done(&mut bob, "DROP STREAM mine");
}

/// Waits until a query gives these rows.
#[track_caller]
fn becomes(session: &mut Session, sql: &str, wanted: impl Fn(&[String]) -> bool) {
    let begun = std::time::Instant::now();
    loop {
        let rows = done(session, sql);
        if wanted(&rows) {
            return;
        }
        assert!(begun.elapsed().as_secs() < 30, "{sql} gives {rows:?}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// What somebody made of what they may not read any longer stays as it is, says why, and loses nothing.
#[test]
fn what_is_made_of_tables_and_streams_needs_its_owners_rights() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    for sql in [
        "GRANT SELECT ON t TO ann",
        "GRANT CREATE ON ALL TO ann",
        "CREATE STREAM raw",
        "GRANT SELECT ON STREAM raw TO ann",
    ] {
        done(&mut root, sql);
    }
    done(&mut ann, "CREATE MATERIALIZED VIEW bars AS SELECT ts, count(*) AS n FROM t SAMPLE BY 1d");
    done(&mut ann, "CREATE TABLE parsed AS STREAM 'raw' FORMAT json (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)");
    let append = |number: u32| {
        let document = format!("{{\"ts\": \"2024-01-01T00:00:0{number}Z\", \"x\": {number}}}");
        database.engine().streams().get("raw").unwrap().push([document.as_bytes()]).unwrap();
    };
    append(1);
    becomes(&mut root, "SELECT count(*) FROM parsed", |rows| rows == ["1"]);
    becomes(&mut root, "SELECT stale FROM views() WHERE view = 'bars'", |rows| rows == ["0"]);
    done(&mut root, "REVOKE SELECT ON t FROM ann");
    done(&mut root, "REVOKE SELECT ON STREAM raw FROM ann");
    done(&mut root, "INSERT INTO t VALUES ('2024-02-01T10:00:00Z', 'A', 1.5, 10)");
    append(2);
    let failure = |rows: &[String]| rows.first().is_some_and(|row| row.contains("may not SELECT on"));
    becomes(&mut root, "SELECT failure FROM views() WHERE view = 'bars'", failure);
    becomes(&mut root, "SELECT failure FROM streams() WHERE stream = 'raw'", failure);
    assert_eq!(done(&mut root, "SELECT count(*) FROM parsed"), ["1"]);
    done(&mut root, "GRANT SELECT ON t TO ann");
    done(&mut root, "GRANT SELECT ON STREAM raw TO ann");
    becomes(&mut root, "SELECT count(*), max(x) FROM parsed", |rows| rows == ["2 2"]);
    becomes(&mut root, "SELECT failure IS NULL FROM views() WHERE view = 'bars'", |rows| rows == ["true"]);
    assert_eq!(done(&mut root, "SELECT sum(n) FROM bars"), ["5"]);
    // Nobody of that name gets what was its own.
    done(&mut root, "DROP USER ann");
    append(3);
    let failure = |rows: &[String]| rows.first().is_some_and(|row| row.contains("was dropped"));
    becomes(&mut root, "SELECT failure FROM streams() WHERE stream = 'raw'", failure);
}

/// A table that takes another's place has its grants of columns by name.
#[test]
fn grants_of_columns_go_by_name_to_what_takes_a_table_s_place() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    done(&mut root, "CREATE TABLE f (ts TIMESTAMP, n BIGINT, s VARCHAR) TIMESTAMP(ts)");
    done(&mut root, "GRANT SELECT ON f (ts, n) TO ann");
    done(&mut root, "CREATE OR REPLACE TABLE f (ts TIMESTAMP, s VARCHAR, n BIGINT) TIMESTAMP(ts)");
    done(&mut root, "INSERT INTO f VALUES ('2024-01-01', 'secret', 1)");
    assert_eq!(done(&mut ann, "SELECT * EXCLUDE (ts) FROM f"), ["1"]);
    refused(&mut ann, "SELECT s FROM f", SqlState::UndefinedColumn);
    done(&mut root, "CREATE OR REPLACE TABLE f AS SELECT s, 5 AS other FROM f");
    assert!(ran(&mut ann, "SELECT * FROM f").is_err());
}

/// What takes a stretch of time takes it of the rows that are granted.
#[test]
fn the_past_is_replayed_within_its_bounds() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    done(&mut root, "GRANT SELECT, SUBSCRIBE ON t WHERE sym = 'B' TO ann");
    let replay = "REPLAY t FROM '2024-01-01' TO '2024-01-03' SPEED MAX";
    let rows = done(&mut ann, replay);
    let told: Vec<&String> = rows.iter().filter(|row| row.contains("2.5") || row.contains("4.5")).collect();
    assert!(told.len() == 1 && told[0].contains("2.5"), "{rows:?}");
}
