use super::*;
use crate::disk::{AppendFile, DirEntry, FileBytes, MemoryDisk};
use crate::tape::named::TapeManifest;
use crate::tape::segment::{Segment, list_segments};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now_ns(&self) -> i64 {
        0
    }
}

#[derive(Debug, Default)]
struct Collected(Mutex<Vec<(u64, u32)>>);

impl Publish<u32> for Collected {
    fn publish(&self, group: Vec<Written<u32>>) {
        self.0.lock().unwrap().extend(group.into_iter().map(|written| (written.position, written.effect)));
    }
}

/// A disk whose syncs take a while, and fail when told to; also full when told to.
#[derive(Debug, Clone, Default)]
struct SlowDisk {
    memory: MemoryDisk,
    syncs: Arc<AtomicUsize>,
    fails: Arc<AtomicBool>,
    full: Arc<AtomicBool>,
    /// Whether its files can be synced beside who writes.
    beside: bool,
    /// How many syncs beside who writes have begun, and held while it is so.
    begun: Arc<AtomicUsize>,
    held: Arc<AtomicBool>,
}

#[derive(Debug)]
struct SlowFile(Box<dyn AppendFile>, SlowDisk);

impl AppendFile for SlowFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.1.full.load(Ordering::Relaxed) {
            self.0.append(&bytes[..bytes.len() / 2])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.append(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        std::thread::sleep(Duration::from_millis(2));
        self.1.syncs.fetch_add(1, Ordering::Relaxed);
        if self.1.fails.load(Ordering::Relaxed) { Err(io::Error::other("planned")) } else { self.0.sync() }
    }

    fn beside(&self) -> io::Result<Option<Arc<dyn SyncFile>>> {
        let disk = self.1.clone();
        Ok(disk.beside.then(|| Arc::new(SlowSync(disk)) as Arc<dyn SyncFile>))
    }
}

#[derive(Debug)]
struct SlowSync(SlowDisk);

impl SyncFile for SlowSync {
    fn sync(&self) -> io::Result<()> {
        self.0.begun.fetch_add(1, Ordering::SeqCst);
        while self.0.held.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.0.fails.load(Ordering::Relaxed) { Err(io::Error::other("planned")) } else { Ok(()) }
    }
}

impl Disk for SlowDisk {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        self.memory.read(path)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        Ok(Box::new(SlowFile(self.memory.create(path)?, self.clone())))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.memory.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.memory.remove(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.memory.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.memory.sync_dir(dir)
    }
    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        self.memory.truncate(path, len)
    }
}

fn start(disk: &SlowDisk, segment_bytes: usize) -> (Tape<u32>, Arc<Collected>) {
    let collected = Arc::new(Collected::default());
    let options = TapeOptions { segment_bytes, sync_interval: Duration::from_millis(5), background: true };
    let publisher = Arc::clone(&collected) as Arc<dyn Publish<u32>>;
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let names = Arc::new(Names::new(&disk, TapeManifest::default(), TapeManifest::default()));
    (Tape::start(disk, Arc::new(Still), publisher, names, 1, options).unwrap(), collected)
}

/// Positions of the frames on the disk, in order.
fn positions(disk: &SlowDisk) -> Vec<u64> {
    let mut positions = Vec::new();
    for first in list_segments(disk).unwrap() {
        let segment = Segment::open(disk, first).unwrap();
        let end = segment.read(false, None, |frame| {
            positions.push(frame.header.position);
            Ok(())
        });
        assert!(!end.unwrap().torn);
    }
    positions
}

#[test]
fn one_sync_serves_all_who_wait() {
    let disk = SlowDisk::default();
    let (tape, collected) = start(&disk, 1 << 20);
    let (threads, each) = (16_u32, 40_u32);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let tape = &tape;
            scope.spawn(move || {
                for n in 0..each {
                    let ticket = tape.append(1, b"row", thread * each + n, SyncPolicy::Always).unwrap();
                    tape.wait(&ticket).unwrap();
                }
            });
        }
    });
    let frames = (threads * each) as usize;
    // While 16 wait, each sync takes what arrived during the one before: far fewer syncs than frames.
    assert!(disk.syncs.load(Ordering::Relaxed) * 4 < frames, "{} syncs", disk.syncs.load(Ordering::Relaxed));
    let published = collected.0.lock().unwrap().clone();
    assert!(published.is_sorted_by_key(|(position, _)| *position));
    assert_eq!(published.len(), frames);
    tape.close().unwrap();
    assert_eq!(positions(&disk), published.iter().map(|(position, _)| *position).collect::<Vec<_>>());
}

#[test]
fn segments_end_at_their_size_and_stay_in_order() {
    let disk = SlowDisk::default();
    let (tape, _) = start(&disk, 300);
    for n in 0..20 {
        let ticket = tape.append(1, &[7; 50], n, SyncPolicy::None).unwrap();
        tape.wait(&ticket).unwrap();
    }
    tape.close().unwrap();
    assert!(list_segments(&disk).unwrap().len() > 4);
    assert_eq!(positions(&disk), (1..=20).map(|n| (1 << 40) + n).collect::<Vec<_>>());
}

#[test]
fn nothing_is_acknowledged_after_a_failed_sync() {
    let disk = SlowDisk::default();
    let (tape, _) = start(&disk, 1 << 20);
    let ticket = tape.append(1, b"kept", 0, SyncPolicy::Always).unwrap();
    tape.wait(&ticket).unwrap();
    disk.fails.store(true, Ordering::Relaxed);
    let ticket = tape.append(1, b"unsure", 1, SyncPolicy::Always).unwrap();
    assert!(
        matches!(tape.wait(&ticket), Err(EngineError::TapeStopped { cause }) if cause.contains("planned"))
    );
    disk.fails.store(false, Ordering::Relaxed);
    assert!(tape.append(1, b"refused", 2, SyncPolicy::None).is_err());
    assert!(tape.sync(ticket.position).is_err());
    assert!(tape.close().is_err());
}

/// Panics at the second frame.
#[derive(Debug)]
struct Panics;

impl Publish<u32> for Panics {
    fn publish(&self, group: Vec<Written<u32>>) {
        assert!(group.iter().all(|written| written.effect == 0), "planned");
    }
}

#[test]
fn a_thread_that_panics_while_it_leads_stops_the_tape() {
    let options =
        TapeOptions { segment_bytes: 1 << 20, sync_interval: Duration::from_millis(5), background: true };
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::default());
    let names = Arc::new(Names::new(&disk, TapeManifest::default(), TapeManifest::default()));
    let tape = Tape::start(Arc::clone(&disk), Arc::new(Still), Arc::new(Panics), names, 1, options).unwrap();
    tape.wait(&tape.append(1, b"kept", 0, SyncPolicy::Always).unwrap()).unwrap();
    let panicked = std::thread::scope(|scope| {
        let leads = scope.spawn(|| tape.wait(&tape.append(1, b"lost", 1, SyncPolicy::Interval).unwrap()));
        leads.join().is_err()
    });
    assert!(panicked);
    assert!(matches!(
        tape.append(1, b"refused", 0, SyncPolicy::None),
        Err(EngineError::TapeStopped { cause }) if cause.contains("panicked")
    ));
    assert!(tape.close().is_err());
}

/// Waits until something is so, for ten seconds at most.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let soon = (0..10_000).find(|_| {
        std::thread::sleep(Duration::from_millis(1));
        is_so()
    });
    assert!(soon.is_some(), "not {what} within ten seconds");
}

#[test]
fn interval_rows_are_synced_without_another_commit() {
    for beside in [false, true] {
        let disk = SlowDisk { beside, ..SlowDisk::default() };
        let (tape, _) = start(&disk, 1 << 20);
        let ticket = tape.append(1, b"row", 0, SyncPolicy::Interval).unwrap();
        tape.wait(&ticket).unwrap();
        wait_until("synced", || tape.syncs() > 0);
        assert_eq!(disk.begun.load(Ordering::SeqCst) > 0, beside);
    }
}

#[test]
fn a_sync_by_interval_holds_nobody_but_who_wants_one() {
    let disk = SlowDisk { beside: true, ..SlowDisk::default() };
    disk.held.store(true, Ordering::SeqCst);
    let (tape, collected) = start(&disk, 1 << 20);
    let interval = || {
        let ticket = tape.append(1, b"row", 0, SyncPolicy::Interval).unwrap();
        tape.wait(&ticket).unwrap();
    };
    interval();
    wait_until("begun", || disk.begun.load(Ordering::SeqCst) == 1);
    (0..100).for_each(|_| interval());
    assert_eq!((tape.syncs(), collected.0.lock().unwrap().len()), (0, 101), "they were held");
    std::thread::scope(|scope| {
        let always = scope.spawn(|| {
            let ticket = tape.append(1, b"row", 0, SyncPolicy::Always).unwrap();
            tape.wait(&ticket).unwrap();
        });
        std::thread::sleep(Duration::from_millis(30));
        assert!(!always.is_finished(), "acknowledged while a sync is under way that may fail");
        disk.held.store(false, Ordering::SeqCst);
        always.join().unwrap();
    });
    tape.close().unwrap();
    assert_eq!(positions(&disk).len(), 102);
}

#[test]
fn segments_end_while_syncs_are_beside_them() {
    let disk = SlowDisk { beside: true, ..SlowDisk::default() };
    let (tape, _) = start(&disk, 300);
    for row in 0..400_u32 {
        let policy = if row % 50 == 49 { SyncPolicy::Always } else { SyncPolicy::Interval };
        let ticket = tape.append(1, b"a row of some bytes", row, policy).unwrap();
        tape.wait(&ticket).unwrap();
        if row % 20 == 0 {
            std::thread::sleep(Duration::from_millis(6));
        }
    }
    tape.close().unwrap();
    let positions = positions(&disk);
    assert_eq!(positions.len(), 400);
    assert!(positions.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    assert!(disk.begun.load(Ordering::SeqCst) > 0);
}

#[test]
fn a_sync_by_interval_that_fails_stops_the_tape() {
    let disk = SlowDisk { beside: true, ..SlowDisk::default() };
    let (tape, _) = start(&disk, 1 << 20);
    disk.held.store(true, Ordering::SeqCst);
    let ticket = tape.append(1, b"row", 0, SyncPolicy::Interval).unwrap();
    tape.wait(&ticket).unwrap();
    wait_until("begun", || disk.begun.load(Ordering::SeqCst) == 1);
    disk.fails.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let always = scope.spawn(|| {
            // Where it comes too late, it is refused at once.
            let ticket = tape.append(1, b"unsure", 1, SyncPolicy::Always)?;
            tape.wait(&ticket)
        });
        std::thread::sleep(Duration::from_millis(10));
        disk.held.store(false, Ordering::SeqCst);
        let outcome = always.join().unwrap();
        assert!(
            matches!(&outcome, Err(EngineError::TapeStopped { cause }) if cause.contains("planned")),
            "{outcome:?}"
        );
    });
    disk.fails.store(false, Ordering::Relaxed);
    assert!(tape.append(1, b"refused", 2, SyncPolicy::None).is_err());
    assert!(tape.close().is_err());
}

#[test]
fn a_payload_past_the_limit_is_refused() {
    let (tape, _) = start(&SlowDisk::default(), 1 << 20);
    let payload = vec![0; MAX_PAYLOAD_BYTES + 1];
    assert!(matches!(
        tape.append(1, &payload, 0, SyncPolicy::Always),
        Err(EngineError::CommitTooLarge { .. })
    ));
}

/// The disk is full now and then while many write: what was acknowledged is on it, in order, and nothing else.
#[test]
fn a_full_disk_refuses_and_goes_on() {
    for segment_bytes in [300, 1 << 20] {
        let disk = SlowDisk::default();
        let (tape, collected) = start(&disk, segment_bytes);
        let refused = AtomicUsize::new(0);
        let done = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..8_u32 {
                let (tape, refused, done, disk) = (&tape, &refused, &done, &disk);
                scope.spawn(move || {
                    for n in 0..40 {
                        if thread == 0 && n % 4 == 0 {
                            disk.full.store(n % 8 == 0, Ordering::Relaxed);
                        }
                        let sync = [SyncPolicy::Always, SyncPolicy::Interval][n as usize % 2];
                        let ticket = match tape.append(1, &[7; 50], thread * 100 + n, sync) {
                            Ok(ticket) => ticket,
                            Err(error) => {
                                assert!(matches!(error, EngineError::DiskFull { .. }), "{error}");
                                continue;
                            }
                        };
                        match tape.wait(&ticket) {
                            Ok(()) => done.lock().unwrap().push((ticket.position, thread * 100 + n)),
                            Err(EngineError::DiskFull { .. }) => {
                                refused.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                    disk.full.store(false, Ordering::Relaxed);
                });
            }
        });
        let mut done = done.into_inner().unwrap();
        done.sort_unstable();
        assert!(refused.into_inner() > 0);
        tape.settle().unwrap();
        assert_eq!(*collected.0.lock().unwrap(), done, "published is what was acknowledged");
        tape.close().unwrap();
        let first = (1 << 40) + 1;
        let positions = positions(&disk);
        assert_eq!(positions, (first..first + done.len() as u64).collect::<Vec<_>>());
    }
}

#[test]
fn a_frame_that_relies_on_a_refused_one_is_refused() {
    let disk = SlowDisk::default();
    let (tape, _) = start(&disk, 1 << 20);
    tape.wait(&tape.append(1, b"kept", 0, SyncPolicy::Always).unwrap()).unwrap();
    let fate = tape.fate();
    let (one, two) =
        (tape.append(1, b"one", 1, SyncPolicy::None).unwrap(), tape.append(1, b"two", 2, SyncPolicy::None));
    disk.full.store(true, Ordering::Relaxed);
    assert!(matches!(tape.wait(&one), Err(EngineError::DiskFull { .. })));
    disk.full.store(false, Ordering::Relaxed);
    assert!(matches!(tape.wait(&two.unwrap()), Err(EngineError::DiskFull { .. })));
    assert_eq!(one.outcome(tape.written()), Some(false));
    let relies = tape.append_after(&fate, 1, b"three", 3, SyncPolicy::None);
    assert!(matches!(relies, Err(EngineError::DiskFull { .. })));
    let again = tape.append(1, b"four", 4, SyncPolicy::Always).unwrap();
    tape.wait(&again).unwrap();
    assert_eq!(again.position, one.position);
    tape.close().unwrap();
    assert_eq!(positions(&disk).len(), 2);
}
