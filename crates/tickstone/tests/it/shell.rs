//! Ctrl-C.

use super::{Place, finished};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A query that would run for many seconds, and does not yield meanwhile.
const LONG: &str = "SELECT count(*) FROM generate_series(1, 30000) a, generate_series(1, 100000) b WHERE a.value * b.value % 7 = 8";

#[test]
fn an_interrupted_query_ends_with_130() {
    let place = Place::new();
    let child = place.command(&["sql", "-c", LONG]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("the program starts");
    std::thread::sleep(Duration::from_millis(700));
    let start = Instant::now();
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    let run = finished(&child.wait_with_output().expect("ends"));
    assert_eq!(run.code, 130, "{run:?}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}
