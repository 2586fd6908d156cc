//! A server whose disk fails or is full says so.

use crate::Served;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use tickstone_engine::SystemClock;
use tickstone_engine::disk::{AppendFile, DirEntry, Disk, FileBytes, MemoryDisk};
use tickstone_query::{Database, DatabaseOptions};

const WELL: u8 = 0;
const NO_SYNC: u8 = 1;
const FULL: u8 = 2;
/// Files that are there take more, new ones are refused.
const NO_FILES: u8 = 3;

/// A disk in memory that can be told to fail.
#[derive(Debug)]
struct Failing {
    below: MemoryDisk,
    state: Arc<AtomicU8>,
}

#[derive(Debug)]
struct FailingFile {
    below: Box<dyn AppendFile>,
    state: Arc<AtomicU8>,
}

impl Disk for Failing {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        self.below.read(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        if matches!(self.state.load(Ordering::Relaxed), FULL | NO_FILES) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let below = self.below.create(path)?;
        Ok(Box::new(FailingFile { below, state: Arc::clone(&self.state) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.below.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.below.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.below.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.below.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.below.sync_dir(dir)
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        self.below.truncate(path, len)
    }
}

impl AppendFile for FailingFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.state.load(Ordering::Relaxed) {
            FULL => Err(io::ErrorKind::StorageFull.into()),
            _ => self.below.append(bytes),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        match self.state.load(Ordering::Relaxed) {
            NO_SYNC => Err(io::Error::other("the disk does not answer")),
            _ => self.below.sync(),
        }
    }
}

fn served() -> (Served, Arc<AtomicU8>) {
    let state = Arc::new(AtomicU8::new(WELL));
    let disk = Failing { below: MemoryDisk::new(), state: Arc::clone(&state) };
    let mut options = DatabaseOptions::default();
    options.engine.memory_budget_bytes = 4 << 20;
    let database = Database::open_on(Arc::new(disk), Arc::new(SystemClock), options).expect("a database");
    (Served::over(database, &[]), state)
}

#[test]
fn a_tape_that_stopped_is_not_green() {
    let (served, state) = served();
    assert_eq!(served.ask("http_port", "POST /write", b"t a=1i 1").0, 204);
    for path in ["/health", "/ready"] {
        assert_eq!(served.ask("http_port", &format!("GET {path}"), b"").0, 200);
    }
    state.store(NO_SYNC, Ordering::Relaxed);
    assert_eq!(served.ask("http_port", "POST /write", b"t a=2i 2").0, 503);
    state.store(WELL, Ordering::Relaxed);
    let (status, answer) = served.ask("http_port", "GET /health", b"");
    let health: serde_json::Value = serde_json::from_str(&answer).expect(&answer);
    assert_eq!((status, &health["status"]), (503, &"fail".into()), "{answer}");
    assert_eq!(health["checks"][0]["name"], "tape");
    let (status, answer) = served.ask("influx_port", "GET /ready", b"");
    assert!(status == 503 && answer.contains("the tape stopped"), "{status} {answer}");
    assert_eq!(served.exec("SELECT a FROM t").0, 200);
}

#[test]
fn a_full_disk_is_told() {
    let (served, state) = served();
    assert_eq!(served.ask("http_port", "POST /write", b"t a=1i 1").0, 204);
    state.store(FULL, Ordering::Relaxed);
    let (status, answer) =
        served.exec("INSERT INTO t (a, timestamp) VALUES (2, '1970-01-01T00:00:00.000000002')");
    assert!(status == 507 && answer.contains("the disk is full"), "{status} {answer}");
    assert_eq!(served.ask("http_port", "POST /write", b"t a=3i 3").0, 507);
    state.store(WELL, Ordering::Relaxed);
    assert_eq!(served.ask("http_port", "POST /write", b"t a=4i 4").0, 204);
    assert_eq!(served.ask("http_port", "GET /ready", b"").0, 200);
    assert_eq!(served.number("SELECT sum(a) FROM t"), Some(5));
}

#[test]
fn it_is_not_green_while_rows_cannot_be_sealed() {
    let (served, state) = served();
    assert_eq!(served.ask("http_port", "POST /write", b"t a=1i 1").0, 204);
    state.store(NO_FILES, Ordering::Relaxed);
    let mut next = 2;
    let mut ready = |wanted: u16, writes: bool| {
        let begun = Instant::now();
        loop {
            let (status, answer) = served.ask("http_port", "GET /ready", b"");
            if status == wanted {
                return answer;
            }
            assert!(begun.elapsed() < crate::PATIENCE, "{status} {answer}, not {wanted}");
            if writes {
                let lines: String = (next..next + 5_000).map(|row| format!("t a={row}i {row}\n")).collect();
                served.ask("http_port", "POST /write", lines.as_bytes());
                next += 5_000;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    let answer = ready(503, true);
    assert!(answer.contains("maintenance: ") && answer.contains("no storage space"), "{answer}");
    state.store(WELL, Ordering::Relaxed);
    ready(200, false);
}

#[test]
fn an_upload_that_a_full_disk_has_no_room_for_is_told() {
    let (served, state) = served();
    let csv = b"ts,a\n2024-08-08T09:30:00Z,1\n2024-08-08T09:31:00Z,2\n";
    let upload = |served: &Served, query: &str| {
        let request = format!("POST /imp?name=t&timestamp=ts{query}\nContent-Type: text/csv");
        served.ask("http_port", &request, csv)
    };
    for full in [FULL, NO_FILES] {
        for query in ["", "&fmt=json", "&overwrite=true"] {
            state.store(full, Ordering::Relaxed);
            let (status, answer) = upload(&served, query);
            assert!(status == 507 && !answer.is_empty(), "{full} {query}: {status} {answer}");
            state.store(WELL, Ordering::Relaxed);
            // Nothing of it is there, and it may be sent again.
            assert!(matches!(served.number("SELECT count(*) FROM t"), None | Some(0)));
            assert_eq!(upload(&served, query).0, 200);
            assert_eq!(served.number("SELECT count(*) FROM t"), Some(2));
            served.done("DROP TABLE t");
        }
    }
}
