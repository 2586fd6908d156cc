//! Rights that change while something is read, and what is made by those who lose theirs.

use crate::access::{done, memory, of, ran, refused};
use tickstone_query::{Access, Session, SqlState};

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
