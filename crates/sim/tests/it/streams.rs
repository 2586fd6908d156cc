//! Streams: what was waited for is there after any power cut, in order and once; damage takes no more than what it
//! touches; a full disk loses nothing; every reading against a plain vector.

use crate::check::{copy, look};
use crate::full_disk::SmallDisk;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tickstone_engine::check::{Report, Severity};
use tickstone_engine::disk::{Disk, MemoryDisk};
use tickstone_engine::repair::{RepairOptions, Repaired, repair};
use tickstone_engine::streams::{Documents, Stream, StreamSettings};
use tickstone_engine::{Engine, EngineError, EngineOptions, ErrorKind, backup};
use tickstone_sim::{CrashDisk, Random, StepClock, Survival};

/// A document as it is to be read: number, time, contents.
type Read = (u64, u64, Vec<u8>);

fn open_on(disk: Arc<dyn Disk>, background: bool) -> Engine {
    let options = EngineOptions { background, threads: 1, ..EngineOptions::default() };
    Engine::open_on(disk, Arc::new(StepClock::new(1_000_000_000)), options).unwrap()
}

fn open(disk: &CrashDisk) -> Engine {
    open_on(Arc::new(disk.clone()), false)
}

fn read(documents: &Documents) -> Vec<Read> {
    documents.entries().map(|(number, entry)| (number, entry.ts_us, entry.document.to_vec())).collect()
}

fn all(stream: &Stream) -> Vec<Read> {
    read(&stream.range(0, u64::MAX, u64::MAX).unwrap())
}

fn some_settings(random: &mut Random) -> StreamSettings {
    StreamSettings {
        index_documents: [1, 3, 1_000][random.below(3) as usize],
        index_bytes: [1, 500, 50_000_000][random.below(3) as usize],
        segment_bytes: [4_096, 8_192, 1 << 20][random.below(3) as usize],
        ..StreamSettings::default()
    }
}

fn some_document(random: &mut Random) -> Vec<u8> {
    let most = [1, 40, 700, 3_000][random.below(4) as usize];
    (0..random.below(most)).map(|_| random.next_u64() as u8).collect()
}

/// A seed that is another one with every run.
fn new_seed() -> u64 {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    println!("seed {seed}");
    seed
}

/// Appends, waits and reopens; gives what the stream must hold, and how much of it was waited for at which call.
fn script(disk: &CrashDisk, random: &mut Random, steps: usize) -> (Vec<Vec<u8>>, Vec<(usize, usize)>) {
    let mut engine = open(disk);
    let settings = some_settings(random);
    let mut stream = engine.streams().create("raw", settings).unwrap();
    let mut documents: Vec<Vec<u8>> = Vec::new();
    let mut waited = vec![(disk.calls(), 0)];
    for _ in 0..steps {
        match random.below(6) {
            0 => {
                drop((stream, engine));
                engine = open(disk);
                stream = engine.streams().get("raw").unwrap();
                waited.push((disk.calls(), documents.len()));
            }
            1 => {
                stream.flush().unwrap();
                waited.push((disk.calls(), documents.len()));
            }
            _ => {
                let new: Vec<_> = (0..random.below(12)).map(|_| some_document(random)).collect();
                stream.append(new.iter().map(Vec::as_slice)).unwrap();
                documents.extend(new);
            }
        }
    }
    stream.flush().unwrap();
    waited.push((disk.calls(), documents.len()));
    (documents, waited)
}

fn check(found: &[Read], documents: &[Vec<u8>], least: usize) {
    assert!(found.len() >= least, "{} documents of {least} that were waited for", found.len());
    for (place, (number, _, document)) in found.iter().enumerate() {
        assert_eq!(*number, place as u64 + 1);
        assert_eq!(document, &documents[place], "document {number}");
    }
    assert!(found.windows(2).all(|pair| pair[0].1 < pair[1].1), "times increase");
}

#[test]
fn a_power_cut_at_any_call_loses_nothing_that_was_waited_for() {
    let mut random = Random::new(new_seed());
    for _ in 0..12 {
        let disk = CrashDisk::new();
        let (documents, waited) = script(&disk, &mut random, 14);
        for image in disk.images(waited[0].0, 2) {
            let least =
                waited.iter().rev().find(|(calls, _)| *calls <= image.calls).map_or(0, |(_, count)| *count);
            let left = image.disk();
            let engine = open(&left);
            let stream = engine.streams().get("raw").unwrap();
            let found = all(&stream);
            check(&found, &documents, least);
            // What comes next follows, also in time, and a second look finds the same.
            let next = stream.append([b"next".as_slice()]).unwrap();
            stream.wait(next).unwrap();
            let newest = all(&stream).pop().unwrap();
            assert!(newest.0 > found.len() as u64 && newest.2 == b"next");
            assert!(found.last().is_none_or(|last| last.1 < newest.1));
            drop((stream, engine));
            let engine = open(&left);
            assert_eq!(all(&engine.streams().get("raw").unwrap()).len(), found.len() + 1);
        }
    }
}

#[test]
fn every_reading_gives_what_a_plain_vector_has() {
    let mut random = Random::new(new_seed());
    for _ in 0..40 {
        let disk = CrashDisk::new();
        let (documents, _) = script(&disk, &mut random, 40);
        let engine = open(&disk);
        let stream = engine.streams().get("raw").unwrap();
        let whole = all(&stream);
        check(&whole, &documents, documents.len());
        let reader = Engine::open_read_only_on(Arc::new(disk.clone()), EngineOptions::default()).unwrap();
        let beside = reader.streams().get("raw").unwrap();
        assert_eq!(all(&beside), whole);
        for _ in 0..60 {
            let some_time = |random: &mut Random| match whole.len() as u64 {
                0 => random.below(3),
                count => whole[random.below(count) as usize].1 + random.below(3) - 1,
            };
            let (from, to) = (some_time(&mut random), some_time(&mut random));
            let expected: Vec<Read> =
                whole.iter().filter(|(_, ts, _)| (from..=to).contains(ts)).cloned().collect();
            assert_eq!(read(&stream.range(from, to, u64::MAX).unwrap()), expected, "{from}..={to}");
            let most = random.below(4_000);
            let bytes =
                |read: &[Read]| read.iter().map(|(.., document)| document.len() as u64 + 12).sum::<u64>();
            let cut = stream.range(from, to, most).unwrap();
            let first = read(&cut);
            assert_eq!(cut.bytes(), bytes(&first));
            assert_eq!(first, expected[..first.len()]);
            assert!(bytes(&first) <= most || first.len() == 1);
            assert_eq!(first.is_empty(), expected.is_empty());
            assert!(
                expected.get(first.len()).is_none_or(|next| bytes(&first) + next.2.len() as u64 + 12 > most)
            );
            let number = random.below(whole.len() as u64 + 2);
            let after = stream.after(number, u64::MAX).unwrap();
            assert_eq!(read(&after), whole[(number as usize).min(whole.len())..]);
            assert_eq!(after.last(), whole.last().map(|last| last.0).filter(|last| *last > number));
            let last: Vec<Read> = whole.iter().rfind(|(_, ts, _)| *ts < from).cloned().into_iter().collect();
            assert_eq!(read(&stream.last_before(from).unwrap()), last, "before {from}");
        }
    }
}

#[test]
fn damage_takes_only_the_frames_it_touches() {
    let mut random = Random::new(new_seed());
    for _ in 0..60 {
        let disk = CrashDisk::new();
        let (documents, _) = script(&disk, &mut random, 30);
        let logs: Vec<(PathBuf, usize)> = disk
            .files()
            .into_iter()
            .filter(|(path, bytes)| {
                path.extension().is_some_and(|e| e == "log" || e == "index") && *bytes > 40
            })
            .collect();
        let Some((path, bytes)) = logs.get(random.below(logs.len().max(1) as u64) as usize) else { continue };
        // Of the header, too: it keeps nobody from the documents behind it.
        let flipped = if random.one_in(4) { random.below(40) } else { random.below(*bytes as u64) };
        disk.flip(path, (flipped as usize).min(bytes - 1), 1 << random.below(8));
        let engine = open(&disk);
        let stream = engine.streams().get("raw").unwrap();
        let found = all(&stream);
        // Each document that is there is the one of its number, and most are.
        for (number, _, document) in &found {
            assert_eq!(document, &documents[*number as usize - 1]);
        }
        assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
        let next = stream.append([b"next".as_slice()]).unwrap();
        stream.wait(next).unwrap();
        assert_eq!(all(&stream).pop().unwrap().2, b"next");
    }
}

#[test]
fn a_full_disk_loses_nothing_that_was_taken() {
    let mut random = Random::new(new_seed());
    for background in [false, true] {
        let disk = SmallDisk { memory: MemoryDisk::new(), room: Arc::new(AtomicU64::new(u64::MAX)) };
        let engine = open_on(Arc::new(disk.clone()), background);
        // Several bursts are written at once, and files are closed between them.
        let settings =
            StreamSettings { segment_bytes: 8_192, index_documents: 3, ..StreamSettings::default() };
        let stream = engine.streams().create("raw", settings).unwrap();
        let mut documents = Vec::new();
        for _ in 0..10 {
            disk.room.store(random.below(6_000), Ordering::SeqCst);
            for _ in 0..5 {
                let new: Vec<_> = (0..5).map(|_| some_document(&mut random)).collect();
                stream.append(new.iter().map(Vec::as_slice)).unwrap();
                documents.extend(new);
                if !background {
                    let _ = stream.flush();
                }
            }
            disk.room.store(u64::MAX, Ordering::SeqCst);
            let tries = (0..100).take_while(|_| stream.flush().is_err()).count();
            assert!(tries < 100, "there is room, and it is not written");
        }
        let found = all(&stream);
        assert_eq!(found.len(), documents.len());
        check(&found, &documents, documents.len());
        drop((stream, engine));
        let engine = open_on(Arc::new(disk), false);
        check(&all(&engine.streams().get("raw").unwrap()), &documents, documents.len());
    }
}

#[test]
fn a_full_disk_holds_nobody_who_closes_or_asks_for_a_flush() {
    let disk = SmallDisk { memory: MemoryDisk::new(), room: Arc::new(AtomicU64::new(u64::MAX)) };
    let engine = open_on(Arc::new(disk.clone()), true);
    let stream = engine.streams().create("raw", StreamSettings::default()).unwrap();
    stream.append([b"kept".as_slice()]).unwrap();
    stream.flush().unwrap();
    disk.room.store(10, Ordering::SeqCst);
    stream.append([[1; 100].as_slice()]).unwrap();
    let error = stream.flush().unwrap_err();
    assert!(error.to_string().contains("full") && error.kind() == ErrorKind::FreeSpace, "{error}");
    assert!(stream.stats().unwrap().failure.is_some());
    drop((stream, engine));
    disk.room.store(u64::MAX, Ordering::SeqCst);
    let found = all(&open_on(Arc::new(disk), false).streams().get("raw").unwrap());
    assert_eq!(found.iter().map(|read| read.2.as_slice()).collect::<Vec<_>>(), [b"kept"]);
}

#[test]
fn many_threads_append_while_others_read() {
    let engine = open_on(Arc::new(MemoryDisk::new()), true);
    let settings = StreamSettings { segment_bytes: 64 << 10, ..StreamSettings::default() };
    let stream = engine.streams().create("raw", settings).unwrap();
    const WRITERS: u64 = 4;
    const EACH: u64 = 3_000;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let stream = stream.clone();
            scope.spawn(move || {
                for place in 0..EACH {
                    let text = format!("{writer} {place} {}", "x".repeat((place % 50) as usize));
                    let number = stream.append([text.as_bytes()]).unwrap();
                    if place % 500 == 0 {
                        stream.wait(number).unwrap();
                        let own = stream.after(number - 1, u64::MAX).unwrap();
                        assert_eq!(own.entries().next().unwrap().1.document, text.as_bytes());
                    }
                }
            });
        }
        let stream = stream.clone();
        scope.spawn(move || {
            let mut seen = 0;
            while seen < WRITERS * EACH {
                let newest = stream.wait_for_newer(seen, Duration::from_secs(10)).unwrap();
                assert!(newest > seen, "nothing came");
                let came = stream.after(seen, 100_000).unwrap();
                let numbers: Vec<u64> = came.entries().map(|(number, _)| number).collect();
                assert_eq!(numbers, (seen + 1..=came.last().unwrap()).collect::<Vec<_>>());
                seen = came.last().unwrap();
            }
        });
    });
    let stats = stream.stats().unwrap();
    assert_eq!((stats.documents, stats.last, stats.buffered), (WRITERS * EACH, WRITERS * EACH, 0));
}

#[test]
fn streams_are_made_altered_and_dropped() {
    let disk = CrashDisk::new();
    let engine = open(&disk);
    let streams = engine.streams();
    let settings = StreamSettings { document_bytes_max: 10, ..StreamSettings::default() };
    let stream = streams.create("Größe/1", settings).unwrap();
    assert!(matches!(streams.create("Größe/1", settings), Err(EngineError::StreamExists { .. })));
    assert!(streams.get_or_create("Größe/1", StreamSettings::default()).unwrap().settings() == settings);
    for name in ["", "a\nb", &"x".repeat(256)] {
        assert!(matches!(streams.create(name, settings), Err(EngineError::BadStream { .. })), "{name:?}");
    }
    let error = stream.append([b"12345678901".as_slice()]).unwrap_err();
    let text = "a document of 11 bytes exceeds the limit of stream 'Größe/1', document_bytes_max = 10";
    assert_eq!(error.to_string(), text);
    streams.alter("Größe/1", StreamSettings { document_bytes_max: 11, ..settings }).unwrap();
    stream.append([b"12345678901".as_slice()]).unwrap();
    stream.flush().unwrap();
    assert!(streams.alter("Größe/1", StreamSettings { index_bytes: 0, ..settings }).is_err());
    let before = disk.calls();
    streams.drop("Größe/1").unwrap();
    assert!(matches!(stream.append([b"1".as_slice()]), Err(EngineError::NoSuchStream { .. })));
    assert!(matches!(streams.get("Größe/1"), Err(EngineError::NoSuchStream { .. })));
    let left = |disk: &CrashDisk| disk.files().iter().any(|(path, _)| path.starts_with("streams"));
    assert!(!left(&disk));
    // A crash on the way: all of it or nothing, and nothing is left lying.
    for image in disk.images(before, 2) {
        let disk = image.disk();
        let engine = open(&disk);
        let found = engine.streams().all().unwrap();
        assert!(found.is_empty() || all(&found[0]).len() == 1);
        assert_eq!(left(&disk), !found.is_empty());
    }
}

#[test]
fn old_files_go_by_size_and_by_age() {
    let disk = CrashDisk::new();
    let clock = Arc::new(StepClock::new(0));
    let options = EngineOptions { background: false, threads: 1, ..EngineOptions::default() };
    let engine = Engine::open_on(Arc::new(disk.clone()), Arc::clone(&clock) as Arc<_>, options).unwrap();
    let settings =
        StreamSettings { segment_bytes: 4_096, max_bytes: Some(20_000), ..StreamSettings::default() };
    let stream = engine.streams().create("raw", settings).unwrap();
    for _ in 0..100 {
        stream.append([[7; 1_000].as_slice()]).unwrap();
        stream.flush().unwrap();
    }
    let stats = stream.stats().unwrap();
    assert!((15_000..25_000).contains(&stats.bytes), "{} bytes", stats.bytes);
    assert_eq!(stats.last, 100);
    let found = all(&stream);
    assert_eq!(found.last().unwrap().0, 100);
    assert_eq!(found.len() as u64, stats.documents);
    assert!(stream.after(3, u64::MAX).unwrap().entries().next().unwrap().0 > 3);
    let image = disk.image(disk.calls(), Survival::Everything).disk();
    let reopened = all(&open(&image).streams().get("raw").unwrap());
    assert!(found.ends_with(&reopened) && reopened.len() + 4 >= found.len());
}

#[test]
fn a_backup_has_the_streams_and_a_check_reads_them() {
    let mut random = Random::new(new_seed());
    for _ in 0..10 {
        let (disk, target) = (CrashDisk::new(), CrashDisk::new());
        let (documents, _) = script(&disk, &mut random, 25);
        let engine = open(&disk);
        let stream = engine.streams().get("raw").unwrap();
        let to: Arc<dyn Disk> = Arc::new(target.clone());
        engine.backup(&to, &mut |_| {}).unwrap();
        // Another one beside the first, with what came meanwhile, synced or not.
        let new: Vec<_> = (0..20).map(|_| some_document(&mut random)).collect();
        stream.append(new.iter().map(Vec::as_slice)).unwrap();
        engine.streams().create("other", StreamSettings::default()).unwrap();
        engine.backup(&to, &mut |_| {}).unwrap();
        let documents: Vec<_> = documents.into_iter().chain(new).collect();
        let restored = CrashDisk::new();
        backup::restore(&to, &(Arc::new(restored.clone()) as Arc<dyn Disk>), &mut |_| {}).unwrap();
        engine.streams().drop("other").unwrap();
        engine.backup(&to, &mut |_| {}).unwrap();
        for (disk, streams) in [(&target, 1), (&restored, 2)] {
            let report = look(disk);
            assert!(report.is_clean(), "{report}");
            let engine = open(disk);
            assert_eq!(engine.streams().all().unwrap().len(), streams);
            check(&all(&engine.streams().get("raw").unwrap()), &documents, documents.len());
        }
        drop((stream, engine));
        let report = look(&disk);
        assert!(report.is_clean(), "{report}");
        // No flipped bit of a log goes by unseen.
        let files = disk.files();
        let logs: Vec<_> =
            files.iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "log")).collect();
        let (path, bytes) = logs[random.below(logs.len() as u64) as usize];
        disk.flip(path, random.below(*bytes as u64) as usize, 1 << random.below(8));
        let report = look(&disk);
        assert!(!report.is_clean() || !report.findings.is_empty(), "{}", path.display());
    }
}

fn logs(disk: &CrashDisk) -> Vec<(PathBuf, usize)> {
    let is_log = |path: &Path| path.extension().is_some_and(|extension| extension == "log");
    disk.files().into_iter().filter(|(path, _)| is_log(path)).collect()
}

fn mend(disk: &CrashDisk) -> Repaired {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    repair(&disk, &RepairOptions::default(), &mut |_| {}).unwrap()
}

fn names(report: &Report, path: &Path) -> bool {
    report.findings.iter().any(|finding| finding.path == path && finding.severity == Severity::Damage)
}

/// What a stream has that lost some of what it held: its documents are those of their numbers.
fn what_is_left(engine: &Engine, documents: &[Vec<u8>]) -> Vec<u64> {
    let found = all(&engine.streams().get("raw").unwrap());
    for (number, _, document) in &found {
        assert_eq!(document, &documents[*number as usize - 1], "document {number}");
    }
    found.into_iter().map(|(number, ..)| number).collect()
}

/// No number of a document is given again, over several openings: a table that has parsed it would pass over the next one.
fn numbers_go_on(disk: &CrashDisk, documents: usize, what: &str) {
    let disk = copy(disk);
    let mut last = documents as u64;
    for _ in 0..3 {
        let engine = open(&disk);
        let stream = engine.streams().get("raw").unwrap();
        let number = stream.append([b"next".as_slice()]).unwrap();
        assert!(number > last, "{what}: {number} after {last}");
        stream.flush().unwrap();
        let found = stream.after(last, u64::MAX).unwrap();
        assert_eq!(found.damaged_bytes(), 0, "{what}");
        last = number;
        drop((stream, engine));
        assert!(look(&disk).is_clean(), "{what}");
    }
}

/// Each file of a log, removed or cut, is named by a check, counted, told to readers, and forgotten by a repair.
#[test]
fn a_file_of_a_log_that_is_missing_is_named() {
    let mut random = Random::new(new_seed());
    let (mut removed, mut cut) = (0, 0);
    for _ in 0..12 {
        let disk = CrashDisk::new();
        let (documents, _) = script(&disk, &mut random, 30);
        let whole = logs(&disk);
        for (path, bytes) in &whole {
            let damaged = copy(&disk);
            if random.one_in(2) {
                damaged.remove(path).unwrap();
                removed += 1;
            } else {
                // The index may say that this is all of it.
                damaged.truncate(path, random.below(*bytes as u64)).unwrap();
                cut += 1;
            }
            if random.one_in(2) {
                damaged.remove(&path.with_extension("index")).unwrap();
            }
            let what = path.display().to_string();
            let report = look(&damaged);
            assert!(names(&report, path), "{what}: {report}");
            let reader =
                Engine::open_read_only_on(Arc::new(copy(&damaged)), EngineOptions::default()).unwrap();
            let beside = reader.streams().get("raw").unwrap();
            assert!(beside.stats().unwrap().damaged_bytes > 0, "{what}");
            assert!(beside.range(0, u64::MAX, u64::MAX).unwrap().damaged_bytes() > 0, "{what}");
            // An opening goes on with the others, and gives no number twice.
            let opened = copy(&damaged);
            for _ in 0..2 {
                let engine = open(&opened);
                let stream = engine.streams().get("raw").unwrap();
                assert!(stream.stats().unwrap().damaged_bytes > 0, "{what}");
                let found = stream.range(0, u64::MAX, u64::MAX).unwrap();
                assert!(found.damaged_bytes() > 0, "{what}");
                let next = stream.append([b"next".as_slice()]).unwrap();
                assert!(next > documents.len() as u64, "{what}: {next} of {}", documents.len());
                stream.flush().unwrap();
                assert_eq!(stream.after(next - 1, u64::MAX).unwrap().damaged_bytes(), 0, "{what}");
                let to: Arc<dyn Disk> = Arc::new(CrashDisk::new());
                assert!(
                    matches!(engine.backup(&to, &mut |_| {}), Err(EngineError::Damaged { .. })),
                    "{what}"
                );
            }
            assert!(names(&look(&opened), path), "{what}: an opening forgets it");
            // A repair says what is lost, and forgets it.
            let before = what_is_left(&open(&copy(&damaged)), &documents);
            let done = mend(&damaged);
            let report = look(&damaged);
            assert!(report.is_clean(), "{what}: after\n{done}\n{}\nstill\n{report}", done.found);
            assert!(!mend(&damaged).changed, "{what}: a second repair finds something");
            let lost: Vec<u64> = done
                .documents_lost
                .iter()
                .flat_map(|(_, first, last)| *first..=last.unwrap_or(documents.len() as u64))
                .collect();
            numbers_go_on(&damaged, documents.len(), &what);
            let engine = open(&damaged);
            assert_eq!(what_is_left(&engine, &documents), before, "{what}");
            let all: Vec<u64> =
                (1..=documents.len() as u64).filter(|number| !lost.contains(number)).collect();
            assert_eq!(before, all, "{what}: {done}");
            assert_eq!(engine.streams().get("raw").unwrap().stats().unwrap().damaged_bytes, 0);
        }
    }
    assert!(removed > 5 && cut > 5, "{removed} {cut}");
}

/// The file that grew when a process was killed, and is gone: no number that it may have had is given again.
#[test]
fn the_newest_file_of_a_killed_process_is_missed() {
    let disk = CrashDisk::new();
    let engine = open(&disk);
    let stream = engine.streams().create("raw", StreamSettings::default()).unwrap();
    stream.append((0..500).map(|_| b"x".as_slice())).unwrap();
    stream.flush().unwrap();
    let left = disk.image(disk.calls(), Survival::Everything).disk();
    let (path, _) = logs(&left).pop().unwrap();
    left.remove(&path).unwrap();
    assert!(names(&look(&left), &path));
    let engine = open(&left);
    let stream = engine.streams().get("raw").unwrap();
    assert!(stream.stats().unwrap().damaged_bytes > 0);
    assert!(stream.append([b"next".as_slice()]).unwrap() > 500);
}

/// A flipped bit of a log, or of what describes a stream, is named, and gone after a repair with nothing but its frame.
#[test]
fn damage_of_a_stream_is_repaired() {
    let mut random = Random::new(new_seed());
    for _ in 0..80 {
        let disk = CrashDisk::new();
        let (documents, _) = script(&disk, &mut random, 20);
        let is_index = |path: &Path| path.extension().is_some_and(|extension| extension == "index");
        let files: Vec<_> = disk
            .files()
            .into_iter()
            .filter(|(path, _)| path.starts_with("streams") && !is_index(path))
            .collect();
        let (path, bytes) = &files[random.below(files.len() as u64) as usize];
        disk.flip(path, random.below(*bytes as u64) as usize, 1 << random.below(8));
        let what = path.display().to_string();
        let report = look(&disk);
        assert!(report.findings.iter().any(|finding| finding.path == *path), "{what}: {report}");
        let done = mend(&disk);
        let report = look(&disk);
        assert!(report.is_clean(), "{what}: after\n{done}\n{}\nstill\n{report}", done.found);
        let left = what_is_left(&open(&disk), &documents);
        if done.changed {
            let lost: u64 =
                done.documents_lost.iter().map(|(_, first, last)| last.unwrap() + 1 - first).sum();
            assert_eq!(left.len() as u64 + lost, documents.len() as u64, "{what}: {done}");
        }
        numbers_go_on(&disk, documents.len(), &what);
    }
}

#[test]
fn the_copy_of_what_describes_a_stream_is_missed() {
    let disk = CrashDisk::new();
    let engine = open(&disk);
    engine.streams().create("raw", StreamSettings::default()).unwrap();
    drop(engine);
    let path = Path::new("streams/1/stream.copy");
    let whole = disk.read(path).unwrap().to_vec();
    disk.remove(path).unwrap();
    assert!(names(&look(&disk), path));
    // Either way it is written anew.
    let opened = copy(&disk);
    drop(open(&opened));
    assert!(mend(&disk).changed);
    for disk in [&opened, &disk] {
        assert!(look(disk).is_clean());
        assert_eq!(disk.read(path).unwrap().to_vec(), whole);
    }
}
