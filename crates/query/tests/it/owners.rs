//! Rights that change while something is read, and what is made by those who lose theirs.

use crate::access::{done, memory, of, ran, refused};
use std::sync::Arc;
use tickstone_model::{ColumnType, TableSchema};
use tickstone_query::append::{AppendRequest, append};
use tickstone_query::arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampNanosecondArray};
use tickstone_query::{Access, Database, DatabaseOptions, Session, SqlState};

#[test]
fn what_is_read_later_is_what_may_still_be_read() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    for sql in [
        "CREATE USER bob PASSWORD 'b'",
        "CREATE ROLE desk",
        "GRANT SELECT ON t WHERE sym = 'A' TO ann",
        "GRANT SELECT ON secret TO bob",
        "GRANT CREATE ON ALL TABLES TO bob",
    ] {
        done(&mut root, sql);
    }
    done(&mut of(&database, "bob"), "CREATE VIEW of_bob AS SELECT x FROM secret WHERE x > 1");
    done(&mut root, "GRANT SELECT ON of_bob TO ann");
    let begun = |session: &Session, sql: &str| {
        let statement = session.parse(sql).unwrap().remove(0);
        session.entitlement(&statement).unwrap().expect("a user's")
    };
    // What changes nothing that is read.
    let (table, view) = (
        begun(&ann, "SELECT * FROM t JOIN t u ON t.ts = u.ts"),
        begun(&ann, "WITH w AS (SELECT * FROM of_bob) SELECT 1 FROM w"),
    );
    for sql in [
        "GRANT SELECT ON secret TO ann",
        "GRANT INSERT ON t TO ann",
        "GRANT SELECT ON t TO bob, desk",
        "ALTER TABLE t ADD COLUMN more BIGINT",
        "INSERT INTO t VALUES ('2024-01-04T10:00:00Z', 'A', 5.5, 50, 1)",
        "ALTER USER ann SET max_rows = 1000000",
        "CREATE TABLE other (ts TIMESTAMP) TIMESTAMP(ts)",
    ] {
        done(&mut root, sql);
        table.check().unwrap_or_else(|error| panic!("{sql}: {error}"));
        view.check().unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
    // What does, each from the state before.
    let ends = |root: &mut Session, read: &str, change: &str, back: &[&str]| {
        let begun = begun(&of(&database, "ann"), read);
        begun.check().unwrap();
        done(root, change);
        let error = begun.check().expect_err(change);
        assert!([SqlState::Denied, SqlState::Unknown].contains(&error.sql_state()), "{change}: {error}");
        back.iter().for_each(|sql| drop(done(root, sql)));
    };
    let t = "SELECT sum(px) FROM t";
    ends(&mut root, t, "REVOKE SELECT ON t FROM ann", &["GRANT SELECT ON t WHERE sym = 'A' TO ann"]);
    ends(
        &mut root,
        t,
        "GRANT SELECT ON t WHERE sym = 'B' TO ann",
        &["REVOKE SELECT ON t FROM ann", "GRANT SELECT ON t WHERE sym = 'A' TO ann"],
    );
    ends(&mut root, t, "GRANT reader TO ann", &["REVOKE reader FROM ann"]);
    ends(
        &mut root,
        "SELECT * FROM of_bob",
        "REVOKE SELECT ON of_bob FROM ann",
        &["GRANT SELECT ON of_bob TO ann"],
    );
    ends(
        &mut root,
        "SELECT * FROM of_bob",
        "REVOKE SELECT ON secret FROM bob",
        &["GRANT SELECT ON secret TO bob"],
    );
    // A view that is another by then, or none.
    let of_bob = "CREATE OR REPLACE VIEW of_bob AS SELECT x FROM secret WHERE x > 1";
    let narrowed = "CREATE OR REPLACE VIEW of_bob AS SELECT x FROM secret WHERE x > 100";
    ends(&mut root, "SELECT * FROM of_bob", narrowed, &[of_bob]);
    let back = ["ALTER VIEW of_bob OWNER TO bob"];
    ends(&mut root, "SELECT * FROM of_bob", "ALTER VIEW of_bob OWNER TO root", &back);
    let back = [of_bob, "ALTER VIEW of_bob OWNER TO bob", "GRANT SELECT ON of_bob TO ann"];
    ends(&mut root, "SELECT * FROM of_bob", "DROP VIEW of_bob", &back);
    ends(&mut root, "SELECT * FROM of_bob", "DROP USER bob", &[]);
    // By whatever way a table is named, and of streams.
    done(&mut root, "CREATE TABLE \"odd.name\" (ts TIMESTAMP) TIMESTAMP(ts)");
    done(&mut root, "CREATE STREAM raw");
    for (grant, read) in [
        ("SELECT ON t", "SELECT * FROM public.t"),
        ("SELECT ON \"odd.name\"", "SELECT * FROM \"odd.name\""),
        ("SELECT ON STREAM raw", "SELECT * FROM stream('raw')"),
    ] {
        let back = [format!("GRANT {grant} TO ann")];
        done(&mut root, &back[0]);
        let kept = begun(&of(&database, "ann"), read);
        done(&mut root, "CREATE OR REPLACE TABLE other (ts TIMESTAMP) TIMESTAMP(ts)");
        kept.check().unwrap_or_else(|error| panic!("{read}: {error}"));
        ends(&mut root, read, &format!("REVOKE {grant} FROM ann"), &[&back[0]]);
    }
    ends(&mut root, "SELECT 1", "DROP USER ann", &[]);
    let of_root = begun(&root, "SELECT * FROM secret");
    of_root.check().unwrap();
    assert!(
        Access::of_owner(&database)
            .session()
            .entitlement(&root.parse("SELECT 1").unwrap()[0])
            .unwrap()
            .is_none()
    );
    assert!(ran(&mut ann, "SELECT 1").is_err());
}

#[test]
fn views_give_everybody_what_their_owner_may_read() {
    let database = memory();
    let mut root = of(&database, "root");
    for sql in [
        "CREATE USER bob PASSWORD 'b'",
        "GRANT SELECT ON t WHERE sym = 'A' TO bob",
        "GRANT CREATE ON ALL TABLES TO bob",
    ] {
        done(&mut root, sql);
    }
    let mut bob = of(&database, "bob");
    done(&mut bob, "CREATE VIEW of_bob AS SELECT sym, sum(px) AS px FROM t GROUP BY sym");
    done(&mut bob, "CREATE VIEW over AS SELECT sum(px) AS px FROM of_bob");
    done(&mut root, "CREATE VIEW of_root AS SELECT px FROM over");
    done(&mut root, "GRANT SELECT ON over, of_root TO ann");
    let mut owner = Access::of_owner(&database).session();
    for _ in 0..3 {
        for session in [&mut root, &mut owner, &mut bob] {
            assert_eq!(done(session, "SELECT px FROM over"), ["5.0"]);
        }
        for session in [&mut root, &mut owner, &mut of(&database, "ann")] {
            assert_eq!(done(session, "SELECT px FROM of_root"), ["5.0"]);
        }
        assert_eq!(done(&mut root, "SELECT sum(px) FROM t"), ["12.0"]);
    }
    // The owner's rights are those of now, for plans that are kept, too.
    done(&mut root, "GRANT SELECT ON t TO bob");
    assert_eq!(done(&mut root, "SELECT px FROM over"), ["12.0"]);
    done(&mut root, "REVOKE SELECT ON t FROM bob");
    let error = refused(&mut root, "SELECT px FROM over", SqlState::Denied);
    assert!(error.to_string().contains("'bob' may not SELECT on t"), "{error}");
    done(&mut root, "DROP USER bob");
    for session in [&mut root, &mut owner] {
        let error = refused(session, "SELECT px FROM over", SqlState::Denied);
        assert!(error.to_string().contains("owner"), "{error}");
    }
    // What it was of is still read by who may.
    assert_eq!(done(&mut root, "SELECT sum(px) FROM t"), ["12.0"]);
}

#[test]
fn rows_of_an_open_transaction_count_towards_the_limit_of_memory() {
    let database = memory();
    let mut root = of(&database, "root");
    done(&mut root, "GRANT writer TO ann");
    done(&mut root, "ALTER USER ann SET query_memory = '4MB'");
    let rows = "INSERT INTO t SELECT timestamp_s(value), 'X', 1.0, value FROM range(0, 20000)";
    let mut ann = of(&database, "ann");
    for end in ["ROLLBACK", "COMMIT"] {
        done(&mut ann, "BEGIN");
        let mut added = 0;
        let error = loop {
            match ran(&mut ann, rows) {
                Ok(_) => added += 1,
                Err(error) => break error,
            }
            assert!(added < 20, "there is no limit");
        };
        assert!(added > 1 && error.to_string().contains("query_memory"), "{added}: {error}");
        // The rows of another of the user's sessions have no room beside them, and have it afterwards.
        let mut other = of(&database, "ann");
        assert!(ran(&mut other, "SELECT cardinality(array_agg(value)) FROM range(0, 500000)").is_err());
        done(&mut ann, end);
        done(&mut other, rows);
    }
}

#[test]
fn commit_needs_the_rights_of_what_waits() {
    let database = memory();
    let mut root = of(&database, "root");
    done(&mut root, "CREATE TABLE u (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts) DEDUP UPSERT KEYS(ts)");
    done(&mut root, "GRANT INSERT, SELECT, UPDATE ON u TO ann");
    done(&mut root, "GRANT INSERT, SELECT ON t TO ann");
    let rows = "INSERT INTO t VALUES ('2024-01-01', 'X', 1.0, 1)";
    let changes = "INSERT INTO u VALUES ('2024-01-01', 1) ON CONFLICT (ts) DO UPDATE SET x = excluded.x";
    let own = "INSERT INTO own VALUES ('2024-01-01')";
    let mut ann = of(&database, "ann");
    done(&mut ann, "CREATE TEMP TABLE own (ts TIMESTAMP) TIMESTAMP(ts)");
    let count = |of: &mut Session, table: &str| done(of, &format!("SELECT count(*) FROM {table}"));
    let before = count(&mut root, "t");
    for (waiting, revoked, given) in [
        (rows, "REVOKE INSERT ON t FROM ann", "GRANT INSERT ON t TO ann"),
        (changes, "REVOKE UPDATE ON u FROM ann", "GRANT UPDATE ON u TO ann"),
        (changes, "REVOKE INSERT ON u FROM ann", "GRANT INSERT ON u TO ann"),
    ] {
        done(&mut ann, "BEGIN");
        [own, waiting].iter().for_each(|sql| drop(done(&mut ann, sql)));
        done(&mut root, revoked);
        refused(&mut ann, "COMMIT", SqlState::Denied);
        assert!(!ann.in_transaction(), "it is rolled back");
        done(&mut root, given);
    }
    assert_eq!((count(&mut root, "t"), count(&mut root, "u")), (before.clone(), vec!["0".to_string()]));
    assert_eq!(count(&mut ann, "own"), ["0"], "all of a transaction is rolled back");
    // What is granted again by then may be stored, and tables of the session need no grant.
    done(&mut ann, "BEGIN");
    [own, changes, rows].iter().for_each(|sql| drop(done(&mut ann, sql)));
    for sql in ["REVOKE INSERT ON t FROM ann", "GRANT INSERT ON t TO ann"] {
        done(&mut root, sql);
    }
    done(&mut ann, "COMMIT");
    assert_ne!(count(&mut root, "t"), before);
    assert_eq!(
        (count(&mut root, "u"), count(&mut ann, "own")),
        (vec!["1".to_string()], vec!["1".to_string()])
    );
}

#[test]
fn who_alters_a_table_opens_no_grant_and_no_view_of_it() {
    let database = memory();
    let mut root = of(&database, "root");
    for sql in [
        "CREATE TABLE m (ts TIMESTAMP, px DOUBLE, flag VARCHAR, q DOUBLE) TIMESTAMP(ts)",
        "INSERT INTO m VALUES ('2024-01-01', 1, NULL, 5), ('2024-01-02', 999, 'secret', 7)",
        "CREATE USER bob PASSWORD 'b'",
        "GRANT SELECT ON m (ts, px) WHERE flag IS NULL TO ann",
        "CREATE MATERIALIZED VIEW bars AS SELECT ts, sum(q) s FROM m SAMPLE BY 1d",
        "CREATE VIEW seen AS SELECT ts, px FROM m WHERE flag IS NULL",
        "GRANT SELECT ON seen TO ann, bob",
        "GRANT ALTER ON m TO ann, bob",
    ] {
        done(&mut root, sql);
    }
    let (mut ann, mut bob) = (of(&database, "ann"), of(&database, "bob"));
    // Neither one who is shown some rows nor one who is shown none changes what a name is of.
    for session in [&mut ann, &mut bob] {
        for sql in [
            "ALTER TABLE m DROP COLUMN flag",
            "ALTER TABLE m RENAME COLUMN flag TO f",
            "ALTER TABLE m RENAME COLUMN q TO p",
            "ALTER TABLE m DROP COLUMN q",
            "ALTER TABLE m RENAME TO other",
        ] {
            refused(session, sql, SqlState::Denied);
        }
        // Of the view it says nothing that is not known.
        let error = ran(session, "DROP TABLE m").expect_err("a view reads it").to_string();
        assert!(error.contains("a materialized view") || error.contains("'…'"), "{error}");
        assert!(!error.contains("bars"), "{error}");
        assert_eq!(done(session, "SELECT px FROM seen"), ["1.0"]);
    }
    assert_eq!(done(&mut ann, "SELECT * FROM m").len(), 1);
    for sql in ["SELECT * FROM table_storage('m')", "SELECT * FROM table_partitions('m')"] {
        refused(&mut ann, sql, SqlState::Denied);
        done(&mut root, sql);
    }
    // One who sees everything is told what stands in the way.
    done(&mut root, "GRANT SELECT ON m TO bob");
    for sql in ["ALTER TABLE m DROP COLUMN flag", "ALTER TABLE m RENAME COLUMN flag TO f"] {
        let error = ran(&mut bob, sql).expect_err("the condition of a grant").to_string();
        assert!(error.contains("condition of a grant") && !error.contains("ann"), "{error}");
    }
    for sql in ["ALTER TABLE m RENAME COLUMN q TO p", "ALTER TABLE m DROP COLUMN q"] {
        let error = ran(&mut bob, sql).expect_err("a view reads it").to_string();
        assert!(error.contains("reads column 'q'") && !error.contains("bars"), "{error}");
        let error = ran(&mut root, sql).expect_err("a view reads it").to_string();
        assert!(error.contains("'bars'"), "{error}");
    }
    // What takes its place has the columns of conditions as they are.
    done(&mut root, "DROP MATERIALIZED VIEW bars");
    for columns in ["ts TIMESTAMP, px DOUBLE", "ts TIMESTAMP, px DOUBLE, flag BIGINT"] {
        let sql = format!("CREATE OR REPLACE TABLE m ({columns}) TIMESTAMP(ts)");
        let error = ran(&mut root, &sql).expect_err(&sql).to_string();
        assert!(error.contains("condition of a grant"), "{error}");
    }
    done(&mut root, "CREATE OR REPLACE TABLE m AS SELECT *, 1 AS one FROM m");
    assert_eq!(done(&mut ann, "SELECT px FROM m"), ["1.0"]);
    done(&mut root, "REVOKE SELECT ON m FROM ann");
    done(&mut root, "CREATE OR REPLACE TABLE m AS SELECT ts, px FROM m");
}

/// What others make of a table stands in its owner's way no longer than the owner wants.
#[test]
fn who_owns_a_table_is_rid_of_views_that_others_made_of_it() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    for sql in [
        "CREATE USER bob PASSWORD 'b'",
        "CREATE USER eve PASSWORD 'e'",
        "GRANT CREATE ON ALL TABLES TO ann",
        "GRANT CREATE ON ALL TABLES TO bob",
    ] {
        done(&mut root, sql);
    }
    let make = |ann: &mut Session| {
        done(ann, "CREATE TABLE mine (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts) PARTITION BY DAY");
        done(ann, "INSERT INTO mine VALUES ('2024-01-01', 1), ('2024-01-02', 2), ('2024-01-03', 3)");
        done(ann, "GRANT SELECT ON mine TO bob");
        done(ann, "GRANT ALTER ON mine TO eve");
        let mut bob = of(&database, "bob");
        done(&mut bob, "CREATE MATERIALIZED VIEW of_bob AS SELECT ts, sum(x) AS x FROM mine SAMPLE BY 1h");
        done(&mut bob, "CREATE MATERIALIZED VIEW above AS SELECT ts, sum(x) AS x FROM of_bob SAMPLE BY 1d");
    };
    make(&mut ann);
    for (sql, named) in [
        ("DROP TABLE mine", "'of_bob'"),
        ("ALTER TABLE mine RENAME TO other", "'of_bob'"),
        ("CREATE OR REPLACE TABLE mine (ts TIMESTAMP) TIMESTAMP(ts)", "'of_bob'"),
        ("ALTER TABLE mine DROP COLUMN x", "'of_bob'"),
        ("DROP MATERIALIZED VIEW of_bob", "'above'"),
    ] {
        let error = ran(&mut ann, sql).expect_err(sql).to_string();
        assert!(error.contains(named), "{sql}: {error}");
    }
    // One who may change the table, and does not own it, is told no name.
    let mut eve = of(&database, "eve");
    for sql in ["DROP TABLE mine", "DROP TABLE mine CASCADE", "DROP MATERIALIZED VIEW above"] {
        let error = ran(&mut eve, sql).expect_err(sql).to_string();
        assert!(!error.contains("of_bob"), "{sql}: {error}");
    }
    // The rows of the view are its owner's to show.
    refused(&mut ann, "SELECT * FROM of_bob", SqlState::UndefinedTable);
    refused(&mut ann, "ALTER MATERIALIZED VIEW of_bob RENAME TO mine_now", SqlState::UndefinedTable);
    assert!(done(&mut ann, "SELECT view FROM views()").is_empty());
    // Its owner has lost the right: it takes nothing in, and says so without telling what it is made of.
    done(&mut ann, "INSERT INTO mine VALUES ('2024-01-01T05:00:00', 9)");
    done(&mut ann, "REVOKE SELECT ON mine FROM bob");
    let error = ran(&mut ann, "ALTER TABLE mine DROP PARTITION LIST '2024-01-01'").expect_err("taken in");
    assert!(error.to_string().contains("'of_bob' cannot take in their rows"), "{error}");
    assert_eq!(error.detail, None);
    done(&mut ann, "DROP MATERIALIZED VIEW above");
    done(&mut ann, "DROP MATERIALIZED VIEW IF EXISTS of_bob");
    done(&mut ann, "ALTER TABLE mine DROP PARTITION LIST '2024-01-01'");
    done(&mut ann, "DROP TABLE mine");
    make(&mut ann);
    done(&mut of(&database, "bob"), "CREATE TABLE of_bobs_own (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)");
    done(&mut ann, "DROP TABLE mine CASCADE");
    assert_eq!(done(&mut root, "SELECT count(*) FROM views() WHERE base IS NOT NULL"), ["0"]);
    assert!(done(&mut root, "SHOW TABLES").iter().any(|row| row.contains("of_bobs_own")));
}

#[test]
fn names_of_users_and_roles_are_not_each_others() {
    let database = memory();
    let mut root = of(&database, "root");
    done(&mut root, "CREATE ROLE desk NOLOGIN");
    for (sql, says) in [
        ("DROP ROLE IF EXISTS ann", "'ann' is a user"),
        ("DROP USER IF EXISTS desk", "'desk' is a role"),
        // Of an empty password, as a client makes it.
        (
            "CREATE USER eve PASSWORD 'SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$\
             AJ6h8dbzJdqPups1RHMsUwUwWmoe55vzkmldCT32rlY=:PaPyzvmMvez2KHVzr2IQl1SyC/VgZCEXKozJyWErWOE='",
            "not empty",
        ),
        ("GRANT USAGE ON SCHEMA public TO ann", "one schema"),
        ("GRANT CONNECT ON DATABASE tickstone TO ann", "one database"),
        ("REVOKE GRANT OPTION FOR SELECT ON t FROM ann", "GRANT OPTION FOR"),
    ] {
        let error = ran(&mut root, sql).map(|_| ()).expect_err(sql).to_string();
        assert!(error.contains(says), "{sql}: {error}");
    }
    for sql in [
        "DROP ROLE IF EXISTS nobody",
        "GRANT desk TO USER ann",
        "GRANT SELECT ON t TO ROLE desk, USER ann",
        "REVOKE SELECT ON t FROM ROLE desk CASCADE",
        "ALTER ROLE ann WITH PASSWORD 'x'",
        "ALTER USER ann WITH LOGIN PASSWORD 'y'",
        "CREATE TABLE schema (ts TIMESTAMP) TIMESTAMP(ts)",
        "GRANT SELECT ON schema TO ann",
    ] {
        done(&mut root, sql);
    }
}

#[test]
fn what_all_rights_are_depends_on_what_they_are_on() {
    let database = memory();
    let mut root = of(&database, "root");
    done(&mut root, "GRANT ALL PRIVILEGES ON ALL TABLES TO ann");
    let mut ann = of(&database, "ann");
    for sql in
        ["CREATE USER eve PASSWORD 'e' IN ROLE admin", "ALTER USER root PASSWORD 'x'", "GRANT admin TO ann"]
    {
        refused(&mut ann, sql, SqlState::Denied);
    }
    for sql in ["SELECT * FROM secret", "CREATE TABLE own (ts TIMESTAMP) TIMESTAMP(ts)", "DROP TABLE secret"]
    {
        done(&mut ann, sql);
    }
    assert!(ran(&mut root, "GRANT ADMIN ON ALL TABLES TO ann").is_err());
    done(&mut root, "REVOKE ALL ON ALL TABLES FROM ann");
    // Who owns a table gives all that it may.
    done(&mut root, "CREATE USER bob PASSWORD 'b'");
    done(&mut ann, "GRANT ALL ON own TO bob");
    done(&mut of(&database, "bob"), "DROP TABLE own");
    // All tables of a statement, or none.
    assert!(ran(&mut root, "GRANT SELECT ON t, nowhere TO ann").is_err());
    refused(&mut ann, "SELECT * FROM t", SqlState::UndefinedTable);
    done(&mut root, "GRANT SELECT ON t, sums TO ann");
    assert!(ran(&mut root, "REVOKE SELECT ON t, nowhere FROM ann").is_err());
    done(&mut ann, "SELECT * FROM t");
    let error = ran(&mut root, "GRANT SELECT ON t TO PUBLIC").unwrap_err();
    assert!(error.hint.unwrap().contains("CREATE ROLE"), "{}", error.message);
    for (sql, hint) in [
        ("CREATE USER eve SUPERUSER", "admin"),
        ("CREATE ROLE eve VALID UNTIL 'infinity'", "CREATE TOKEN"),
        ("ALTER USER ann RENAME TO eve", "PASSWORD"),
        ("ALTER ROLE writer SET max_rows = 5", "CREATE ROLE"),
        ("DROP ROLE ann", "USER"),
    ] {
        let error = ran(&mut root, sql).unwrap_err();
        assert!(error.hint.as_ref().is_some_and(|of| of.contains(hint)), "{sql}: {error:?}");
    }
    done(&mut root, "CREATE ROLE carl WITH LOGIN NOSUPERUSER INHERIT PASSWORD 'c'");
    done(&mut of(&database, "carl"), "SELECT 1");
    done(&mut root, "CREATE ROLE login");
    done(&mut root, "CREATE ROLE other IN ROLE login");
    assert!(database.access_of("other").is_err());
    assert!(ran(&mut root, "CREATE ROLE more PASSWORD 'm'").is_err());
    // The last user stays, whatever they may do.
    for sql in ["DROP USER ann", "DROP USER bob", "DROP USER carl"] {
        done(&mut root, sql);
    }
    assert!(ran(&mut root, "DROP USER root").is_err());
    done(&mut Access::of_owner(&database).session(), "DROP USER root");
}

#[test]
fn another_owner_mends_what_the_dropped_one_left() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    for sql in
        ["CREATE USER bob PASSWORD 'b'", "GRANT SELECT ON t TO bob", "GRANT CREATE ON ALL TABLES TO bob"]
    {
        done(&mut root, sql);
    }
    let mut bob = of(&database, "bob");
    done(&mut bob, "CREATE VIEW v AS SELECT sym, px FROM t");
    done(&mut bob, "CREATE VIEW w AS SELECT px FROM t");
    done(&mut bob, "CREATE MATERIALIZED VIEW bars AS SELECT ts, sym, count(*) AS n FROM t SAMPLE BY 1d");
    done(&mut bob, "REFRESH MATERIALIZED VIEW bars");
    done(&mut root, "GRANT SELECT ON v, w, bars TO ann");
    let bars = "SELECT sum(n) FROM bars";
    assert_eq!(done(&mut ann, bars), ["4"]);
    // With fewer rights the stored bars stay what they are, and nothing is worked out from fewer rows.
    done(&mut root, "REVOKE SELECT ON t FROM bob");
    done(&mut root, "GRANT SELECT ON t WHERE sym = 'A' TO bob");
    assert!(ran(&mut root, "REFRESH MATERIALIZED VIEW bars FULL").is_err());
    for session in [&mut ann, &mut root] {
        assert_eq!(done(session, bars), ["4"]);
    }
    done(&mut root, "INSERT INTO t VALUES ('2024-01-01T12:00:00Z', 'A', 1.0, 1)");
    let error = refused(&mut ann, bars, SqlState::Denied);
    assert!(
        error.to_string().contains("not current") && !format!("{error:?}").contains("SELECT on t"),
        "{error:?}"
    );
    let error = refused(&mut root, bars, SqlState::Denied);
    assert!(error.detail.unwrap().contains("SELECT on t"));
    done(&mut root, "DROP USER bob");
    for sql in ["SELECT * FROM v", "SELECT * FROM w", bars] {
        let error = refused(&mut root, sql, SqlState::Denied);
        assert!(!error.to_string().contains("(stored)"), "{error}");
    }
    // What an admin says anew, and what is given to somebody, is theirs.
    done(&mut root, "CREATE OR REPLACE VIEW v AS SELECT sym, px FROM t");
    done(&mut root, "ALTER VIEW w OWNER TO root");
    done(&mut root, "ALTER MATERIALIZED VIEW bars OWNER TO root");
    assert_eq!(done(&mut ann, "SELECT count(*) FROM v"), ["5"]);
    assert_eq!(done(&mut ann, "SELECT count(*) FROM w"), ["5"]);
    assert_eq!(done(&mut ann, bars), ["5"]);
    done(&mut root, "REFRESH MATERIALIZED VIEW bars");
    assert_eq!(done(&mut ann, bars), ["5"]);
    refused(&mut ann, "ALTER TABLE t OWNER TO ann", SqlState::Denied);
    done(&mut root, "ALTER TABLE t OWNER TO ann");
    done(&mut ann, "TRUNCATE TABLE t");
    assert!(ran(&mut root, "ALTER TABLE t OWNER TO nobody").is_err());
}

#[test]
fn tokens_are_named_by_their_user() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    done(&mut root, "CREATE USER bob PASSWORD 'b'");
    done(&mut root, "CREATE TOKEN feed FOR bob");
    // That bob has one of the name is not told.
    done(&mut ann, "CREATE TOKEN feed");
    refused(&mut ann, "CREATE TOKEN FEED", SqlState::DuplicateObject);
    refused(&mut ann, "DROP TOKEN feed FOR bob", SqlState::Denied);
    let error = ran(&mut root, "DROP TOKEN feed").expect_err("of two").to_string();
    assert!(error.contains("several users have a token 'feed'"), "{error}");
    done(&mut ann, "DROP TOKEN feed");
    refused(&mut ann, "DROP TOKEN feed", SqlState::UndefinedObject);
    assert_eq!(done(&mut root, "SHOW TOKENS").len(), 1);
    done(&mut ann, "CREATE TOKEN feed");
    done(&mut root, "DROP TOKEN feed FOR bob");
    assert!(done(&mut root, "SHOW TOKENS")[0].contains("ann"));
    done(&mut root, "DROP TOKEN IF EXISTS feed FOR bob");
}

#[test]
fn grants_are_shown_to_owners_and_with_those_of_roles() {
    let database = memory();
    let (mut root, mut ann) = (of(&database, "root"), of(&database, "ann"));
    for sql in [
        "CREATE USER bob PASSWORD 'b'",
        "CREATE ROLE desk",
        "GRANT SELECT ON secret TO desk",
        "GRANT desk TO bob",
        "GRANT INSERT ON t TO bob",
        "GRANT CREATE ON ALL TABLES TO ann",
    ] {
        done(&mut root, sql);
    }
    done(&mut ann, "CREATE TABLE own (ts TIMESTAMP) TIMESTAMP(ts)");
    done(&mut ann, "GRANT SELECT ON own TO bob");
    let seen = done(&mut ann, "SHOW GRANTS").join("\n");
    assert!(seen.lines().any(|line| line.starts_with("bob") && line.contains("own")), "{seen}");
    assert!(!seen.contains("INSERT") && !seen.contains("secret"), "{seen}");
    let of_bob = done(&mut root, "SHOW GRANTS FOR bob").join("\n");
    for part in ["desk  table  secret", "INSERT", "own"].map(|part| part.split_whitespace()) {
        let is_it = |line: &&str| part.clone().all(|word| line.contains(word));
        assert!(of_bob.lines().any(|line| is_it(&line)), "{of_bob}");
    }
}

/// Grants add up: one of some rows beside one of all would seem to leave out the others.
#[test]
fn a_grant_of_some_rows_is_none_beside_one_of_all() {
    let database = memory();
    let mut root = of(&database, "root");
    let refused = |root: &mut Session, sql: &str| {
        let error = ran(root, sql).expect_err(sql).to_string();
        assert!(error.contains("grants add up"), "{sql}: {error}");
    };
    done(&mut root, "GRANT SELECT ON t TO ann");
    refused(&mut root, "GRANT SELECT ON t WHERE sym = 'A' TO ann");
    refused(&mut root, "GRANT SELECT ON t (ts, px) TO ann");
    done(&mut root, "GRANT SUBSCRIBE ON t WHERE sym = 'A' TO ann");
    done(&mut root, "REVOKE ALL ON t FROM ann");
    done(&mut root, "GRANT reader TO ann");
    refused(&mut root, "GRANT SELECT ON t WHERE sym = 'A' TO ann");
    done(&mut root, "REVOKE reader FROM ann");
    done(&mut root, "GRANT SELECT ON t WHERE sym = 'A' TO ann");
    // Nobody is told to lift a condition.
    let mut ann = of(&database, "ann");
    for sql in ["SHOW PARTITIONS FROM t", "DELETE FROM t WHERE sz = 1"] {
        let error = ran(&mut ann, sql).expect_err(sql).to_string();
        assert!(!error.contains("GRANT SELECT"), "{sql}: {error}");
    }
    assert!(ran(&mut root, "GRANT SELECT ON ALL VIEWS TO ann").is_err());
    assert_eq!(done(&mut ann, "SELECT \"table\" FROM tables() WHERE rows IS NULL"), ["t"]);
}

#[test]
fn names_beside_streams_are_not_for_others() {
    let database = memory();
    let mut root = of(&database, "root");
    for sql in [
        "CREATE USER bob PASSWORD 'b'",
        "GRANT CREATE ON ALL TABLES TO ann, bob",
        "CREATE STREAM raw",
        "GRANT SELECT ON STREAM raw TO bob",
    ] {
        done(&mut root, sql);
    }
    let (mut ann, mut bob) = (of(&database, "ann"), of(&database, "bob"));
    let rejected = "(ts TIMESTAMP, seq BIGINT, document BINARY, reason VARCHAR) TIMESTAMP(ts)";
    let progress = "(ts TIMESTAMP, \"key\" SYMBOL, seq BIGINT) TIMESTAMP(ts) PARTITION BY NONE DEDUP UPSERT KEYS (ts, \"key\")";
    refused(&mut ann, &format!("CREATE TABLE stream_progress {progress}"), SqlState::Denied);
    refused(&mut ann, "CREATE TABLE Audit (ts TIMESTAMP) TIMESTAMP(ts)", SqlState::Denied);
    done(&mut ann, &format!("CREATE TABLE tt_rejected {rejected}"));
    let make = "CREATE TABLE tt AS STREAM 'raw' FORMAT json (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)";
    let error = ran(&mut bob, make).expect_err("another's is in the way").to_string();
    assert!(error.contains("'tt_rejected' is in the way"), "{error}");
    done(&mut ann, "DROP TABLE tt_rejected");
    done(&mut bob, make);
    // Its owner reads what was rejected.
    done(&mut bob, "SELECT count(*) FROM tt_rejected");
    done(&mut root, "DROP TABLE tt_rejected");
    refused(&mut ann, &format!("CREATE TABLE tt_rejected {rejected}"), SqlState::Denied);
    done(&mut ann, &format!("CREATE TABLE other {rejected}"));
    refused(&mut ann, "ALTER TABLE other RENAME TO tt_rejected", SqlState::Denied);
    // Nor does a new name lead to another's.
    done(&mut ann, &format!("CREATE TABLE uu_rejected {rejected}"));
    let error =
        ran(&mut bob, "ALTER TABLE tt RENAME TO uu").expect_err("another's is in the way").to_string();
    assert!(error.contains("'uu_rejected' is in the way"), "{error}");
    done(&mut ann, "DROP TABLE uu_rejected");
    done(&mut bob, "ALTER TABLE tt RENAME TO uu");
    // Who has the table has what is rejected.
    done(&mut bob, "CREATE TABLE ww AS STREAM 'raw' FORMAT json (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)");
    done(&mut root, "ALTER TABLE ww OWNER TO ann");
    done(&mut ann, "SELECT count(*) FROM ww_rejected");
    refused(&mut bob, "SELECT count(*) FROM ww_rejected", SqlState::UndefinedTable);
}

#[test]
fn what_a_user_owned_is_given_to_another() {
    let database = memory();
    let mut root = of(&database, "root");
    done(&mut root, "CREATE USER bob PASSWORD 'b'");
    done(&mut root, "GRANT CREATE ON ALL TABLES TO ann");
    let mut ann = of(&database, "ann");
    done(&mut ann, "CREATE TABLE own (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)");
    done(&mut ann, "CREATE VIEW of_own AS SELECT x FROM own");
    refused(&mut ann, "REASSIGN OWNED BY ann TO bob", SqlState::Denied);
    done(&mut root, "REASSIGN OWNED BY ann TO bob");
    done(&mut root, "DROP USER ann");
    let mut bob = of(&database, "bob");
    done(&mut bob, "INSERT INTO own VALUES ('2024-01-01', 7)");
    assert_eq!(done(&mut bob, "SELECT * FROM of_own"), ["7"]);
    refused(&mut root, "CREATE USER tickstone PASSWORD 'x'", SqlState::DuplicateObject);
    assert!(ran(&mut root, "CREATE USER c PASSWORD 'md5d41d8cd98f00b204e9800998ecf8427e'").is_err());
    // Nobody is let in.
    done(&mut root, "ALTER USER bob SET max_connections = 0");
    assert!(database.access_of("bob").unwrap().limits().is_err());
    refused(&mut bob, "SELECT 1", SqlState::Unknown);
    // What others read by the rights of bob goes on.
    done(&mut root, "CREATE USER eve PASSWORD 'e'");
    done(&mut root, "GRANT SELECT ON of_own TO eve");
    assert_eq!(done(&mut of(&database, "eve"), "SELECT * FROM of_own"), ["7"]);
    // A role that is let in no more does not lock an admin out.
    done(&mut root, "CREATE ROLE gone");
    done(&mut root, "ALTER ROLE gone SET max_connections = 0");
    done(&mut root, "GRANT gone TO root, eve");
    done(&mut of(&database, "root"), "SELECT 1");
    refused(&mut of(&database, "eve"), "SELECT 1", SqlState::Unknown);
    done(&mut root, "GRANT admin TO bob");
    done(&mut of(&database, "bob"), "SELECT 1");
    done(&mut root, "REVOKE admin FROM bob");
    done(&mut root, "ALTER USER bob RESET max_connections");
    database.access_of("bob").unwrap().limits().unwrap();
}

/// A REVOKE that changes nothing, of a right that stays, would seem to have ended it.
#[test]
fn revoke_does_not_seem_to_have_ended_what_stays() {
    let database = memory();
    let mut root = of(&database, "root");
    for sql in
        ["CREATE ROLE desk", "CREATE STREAM raw", "GRANT SELECT ON STREAM raw TO desk", "GRANT reader TO ann"]
    {
        done(&mut root, sql);
    }
    let stays = |root: &mut Session, sql: &str| {
        let error = ran(root, sql).expect_err(sql).to_string();
        assert!(error.contains("nothing was revoked"), "{sql}: {error}");
    };
    stays(&mut root, "REVOKE SELECT ON t FROM ann");
    stays(&mut root, "REVOKE ALL ON t FROM ann CASCADE");
    stays(&mut root, "REVOKE SELECT ON STREAM raw FROM ann");
    // What ann has not may be revoked again and again.
    done(&mut root, "REVOKE INSERT ON t FROM ann RESTRICT");
    done(&mut root, "GRANT SELECT ON t TO ann");
    done(&mut root, "REVOKE SELECT ON t FROM ann");
    done(&mut root, "REVOKE reader FROM ann");
    done(&mut root, "REVOKE SELECT ON t FROM ann");
    done(&mut root, "GRANT desk TO ann");
    stays(&mut root, "REVOKE SELECT ON STREAM raw FROM ann");
    // On all of them, and of roles.
    for (grant, stay, ends) in [
        ("GRANT reader TO ann", "REVOKE SELECT ON ALL TABLES FROM ann", "REVOKE reader FROM ann"),
        ("GRANT reader TO ann", "REVOKE ALL ON ALL FROM ann", "REVOKE reader FROM ann"),
        ("GRANT admin TO ann", "REVOKE ADMIN ON ALL FROM ann", "REVOKE admin FROM ann"),
        ("GRANT ADMIN ON ALL TO ann", "REVOKE admin FROM ann", "REVOKE ADMIN ON ALL FROM ann"),
        ("GRANT reader TO desk", "REVOKE reader FROM ann", "REVOKE reader FROM desk"),
    ] {
        done(&mut root, grant);
        stays(&mut root, stay);
        done(&mut root, ends);
        done(&mut root, ends);
    }
    // Of all tables is of each of them.
    done(&mut root, "GRANT SELECT, INSERT ON t TO ann");
    done(&mut root, "GRANT SELECT ON secret TO ann");
    done(&mut root, "REVOKE SELECT ON ALL TABLES IN SCHEMA public FROM ann");
    let left = done(&mut root, "SHOW GRANTS FOR ann").join("\n");
    assert!(
        left.contains("INSERT") && !left.contains("secret") && !left.contains("SELECT, INSERT"),
        "{left}"
    );
    done(&mut root, "REVOKE ALL ON ALL TABLES FROM ann");
    done(&mut root, "REVOKE SELECT ON STREAM raw FROM desk");
}

fn rows_of(count: usize) -> RecordBatch {
    let times = TimestampNanosecondArray::from_iter_values((0..count).map(|row| row as i64));
    let columns: [(&str, ArrayRef); 2] =
        [("ts", Arc::new(times)), ("x", Arc::new(Int64Array::from(vec![7; count])))];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// Rows that come for a table are that table's, whatever has its name by their end, and nobody's whose right ended.
#[test]
fn loads_stay_with_the_table_that_they_began_with() {
    let x = "(ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)";
    // Through the tape, and straight into parts.
    for count in [10, 1 << 18] {
        for (act, wanted) in [
            (&["ALTER TABLE t1 RENAME TO t2", "ALTER TABLE secret RENAME TO t1"][..], None),
            (
                &["DROP TABLE t1", "CREATE TABLE t1 (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)"],
                Some("was dropped"),
            ),
            (&["REVOKE INSERT ON t1 FROM ann"], Some("may not INSERT")),
            (&["DROP USER ann"], Some("was dropped")),
            (&["ALTER USER ann SET max_connections = 0"], Some("may not connect")),
        ] {
            let database = memory();
            let mut root = of(&database, "root");
            done(&mut root, &format!("CREATE TABLE t1 {x}"));
            done(&mut root, "GRANT SELECT, INSERT ON t1 TO ann");
            let ann = database.access_of("ann").unwrap();
            let batch = rows_of(count);
            let batches = (0..2).map(|number| {
                if number == 1 {
                    act.iter().for_each(|sql| drop(done(&mut of(&database, "root"), sql)));
                }
                Ok(batch.clone())
            });
            let appended = append(&ann, &AppendRequest::new("t1"), &batch.schema(), batches);
            match (appended, wanted) {
                (Ok(rows), None) => assert_eq!(rows, 2 * count as u64),
                (Err(error), Some(wanted)) => assert!(error.to_string().contains(wanted), "{act:?}: {error}"),
                (appended, _) => panic!("{act:?}: {appended:?}"),
            }
            let (renamed, left) = match wanted {
                None => (done(&mut root, "SELECT count(*) FROM t2"), "1"),
                Some(_) => (vec![], "0"),
            };
            assert!(wanted.is_some() || renamed == [(2 * count).to_string()], "{act:?}: {renamed:?}");
            assert_eq!(done(&mut root, "SELECT count(*) FROM t1"), [left], "{act:?}");
        }
    }
}

/// What was filled takes the place of a table that its user may replace by then, and of no other.
#[test]
fn a_table_is_replaced_by_those_who_may_in_the_end() {
    let database = memory();
    let mut root = of(&database, "root");
    done(&mut root, "GRANT CREATE ON ALL TABLES TO ann");
    let ann = database.access_of("ann").unwrap();
    let filled = || {
        let aside = database.engine().aside().unwrap();
        let schema = TableSchema::builder("any").column("x", ColumnType::Int64).build().unwrap();
        aside.create(&schema.owned_by(ann.owner())).unwrap();
        aside
    };
    ann.put_in_place(&filled(), "mine").unwrap();
    ann.put_in_place(&filled(), "mine").unwrap();
    done(&mut root, "DROP TABLE mine");
    ann.put_in_place(&filled(), "mine").unwrap();
    done(&mut root, "DROP TABLE mine");
    done(&mut root, "CREATE TABLE mine AS (SELECT 42 AS x)");
    let error = ann.put_in_place(&filled(), "mine").expect_err("it is root's by now");
    assert_eq!(error.sql_state(), SqlState::Denied, "{error}");
    assert_eq!(done(&mut root, "SELECT x FROM mine"), ["42"]);
    // One after the other takes the place of the one before.
    let both = std::thread::scope(|scope| {
        let place = || Access::of_owner(&database).put_in_place(&filled(), "both");
        let threads = [0, 1, 2, 3].map(|_| scope.spawn(place));
        threads.map(|thread| thread.join().unwrap())
    });
    both.into_iter().for_each(|placed| placed.unwrap());
}

#[test]
fn how_far_streams_are_parsed_is_the_database_s_to_say() {
    let database = memory();
    let mut root = of(&database, "root");
    done(&mut root, "CREATE STREAM raw");
    done(&mut root, "CREATE TABLE tt AS STREAM 'raw' FORMAT json (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)");
    for sql in ["GRANT writer TO ann", "GRANT UPDATE, DELETE, ALTER ON ALL TABLES TO ann"] {
        done(&mut root, sql);
    }
    let mut ann = of(&database, "ann");
    done(&mut ann, "SELECT count(*) FROM stream_progress");
    for sql in [
        "INSERT INTO stream_progress (ts, \"key\", seq) VALUES ('1970-01-01', 'tt', 0)",
        "UPDATE stream_progress SET seq = 0",
        "DELETE FROM stream_progress",
        "TRUNCATE TABLE stream_progress",
        "DROP TABLE stream_progress",
        "ALTER TABLE stream_progress ADD COLUMN x BIGINT",
        "CREATE OR REPLACE TABLE stream_progress (ts TIMESTAMP) TIMESTAMP(ts)",
    ] {
        refused(&mut ann, sql, SqlState::Denied);
    }
    let batch = rows_of(1);
    let access = database.access_of("ann").unwrap();
    let appended = append(
        &access,
        &AppendRequest::new("stream_progress"),
        &batch.schema(),
        [Ok(batch.clone())].into_iter(),
    );
    assert_eq!(appended.expect_err("nobody's").sql_state(), SqlState::Denied);
}

/// A table that is hidden is told from none by no message, nor by its place.
#[test]
fn what_is_hidden_is_missing_as_what_is_not_there() {
    let database = memory();
    let mut root = of(&database, "root");
    done(
        &mut root,
        "CREATE MATERIALIZED VIEW hidden_bars AS SELECT ts, sum(x) AS x FROM secret SAMPLE BY 1h",
    );
    done(&mut root, "GRANT SELECT, SUBSCRIBE ON t TO ann");
    let mut ann = of(&database, "ann");
    for form in [
        "SELECT * FROM {}",
        "SELECT count(*)\nFROM t JOIN {} u ON t.ts = u.ts",
        "WITH w AS (SELECT * FROM {}) SELECT * FROM w",
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM public.{})",
        "SELECT (SELECT max(ts) FROM {})",
        "EXPLAIN SELECT * FROM {}",
        "DESCRIBE SELECT * FROM {}",
        "DESCRIBE {}",
        "SUMMARIZE {}",
        "SELECT ts, count(*) FROM {} SAMPLE BY 1h",
        "SELECT * FROM t ASOF JOIN {}",
        "SUBSCRIBE TO {}",
        "INSERT INTO {} VALUES (1)",
        "SHOW CREATE TABLE {}",
        "DROP TABLE {} CASCADE",
        "DROP VIEW {} CASCADE",
        "DROP MATERIALIZED VIEW {} CASCADE",
    ] {
        for name in ["secret", "sums", "hidden_bars"] {
            let mut told = |name: &str| {
                let error = ran(&mut ann, &form.replace("{}", name)).expect_err(form);
                (error.to_string().replace(name, "name"), error.position, error.sql_state())
            };
            assert_eq!(told(name), told(&format!("{}X", &name[1..])), "{form} of {name}");
        }
    }
}

#[test]
fn readers_of_a_view_do_not_see_what_it_is_made_of() {
    let database = memory();
    let mut root = of(&database, "root");
    for sql in [
        "CREATE MATERIALIZED VIEW bars AS SELECT ts, sum(x) AS x FROM secret WHERE x > 41 SAMPLE BY 1h",
        "GRANT SELECT ON sums, bars TO ann",
        "CREATE USER bob PASSWORD 'b' IN ROLE reader",
        "CREATE USER eve PASSWORD 'e'",
        "GRANT SELECT ON bars WHERE x > 0 TO eve",
    ] {
        done(&mut root, sql);
    }
    let shown = "SELECT view, query IS NULL, base IS NULL FROM views() ORDER BY view";
    let mut ann = of(&database, "ann");
    assert_eq!(done(&mut ann, shown), ["bars true true", "sums true true"]);
    assert_eq!(done(&mut of(&database, "eve"), shown), ["bars true true"]);
    assert_eq!(done(&mut of(&database, "bob"), shown), ["bars false false", "sums false true"]);
    for sql in ["SHOW CREATE VIEW sums", "SHOW CREATE MATERIALIZED VIEW bars"] {
        let error = refused(&mut ann, sql, SqlState::Denied).to_string();
        assert!(!error.contains("secret"), "{error}");
        assert!(done(&mut root, sql)[0].contains("secret"));
    }
    assert_eq!(done(&mut ann, "SELECT x FROM sums"), ["42"]);
    assert_eq!(done(&mut ann, "SELECT x FROM bars"), ["42"]);
    assert!(
        database
            .access_of("ann")
            .unwrap()
            .ddl_of(&TableSchema::builder("v").view("SELECT 1 AS x").build().unwrap())
            .ends_with("AS ")
    );
}

/// Who makes, keeps, replaces and drops one name at once is never told of the others.
#[test]
fn one_name_is_made_by_several_at_once() {
    let database = Database::in_memory(DatabaseOptions::default()).unwrap();
    let statements = [
        "CREATE TABLE IF NOT EXISTS k (a BIGINT)",
        "CREATE OR REPLACE TABLE k (a BIGINT)",
        "CREATE OR REPLACE TABLE k AS SELECT 1 AS a",
        "CREATE TABLE IF NOT EXISTS k AS SELECT 1 AS a",
        "DROP TABLE IF EXISTS k",
        "CREATE OR REPLACE VIEW v AS SELECT 1 AS a",
        "CREATE VIEW IF NOT EXISTS v AS SELECT 2 AS a",
        "DROP VIEW IF EXISTS v",
    ];
    std::thread::scope(|scope| {
        for first in 0..4 {
            let database = &database;
            scope.spawn(move || {
                let mut session = Access::of_owner(database).session();
                for at in 0..200 {
                    done(&mut session, statements[(first * 3 + at * 5) % statements.len()]);
                }
            });
        }
    });
}
