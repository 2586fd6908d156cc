//! For every write and sync of a scripted load: power lost there, reopened, all that was acknowledged
//! is whole, nothing is half there, nothing is there twice.

use crate::ledger::{Contents, contents, options, rows, schema};
use std::path::Path;
use std::sync::Arc;
use tickstone_engine::disk::Disk;
use tickstone_engine::{Engine, EngineOptions, Selection};
use tickstone_model::{ColumnType, SyncPolicy, TableSchema};
use tickstone_sim::{CrashDisk, FaultRates, FaultyDisk, Image, Kept, StepClock, Survival};

pub(crate) fn open(disk: &CrashDisk, options: EngineOptions) -> tickstone_engine::Result<Engine> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Engine::open_on(disk, Arc::new(StepClock::new(0)), options)
}

/// States the database has passed through, each with the number of disk calls after which it was
/// acknowledged (and so must not be lost).
#[derive(Default)]
struct History {
    states: Vec<(usize, Contents)>,
}

impl History {
    fn note(&mut self, disk: &CrashDisk, engine: &Engine) {
        self.states.push((disk.calls(), contents(engine)));
    }

    /// The state a power cut left must be one passed through, not older than the last acknowledged.
    fn check(&self, image: &Image, found: &Contents) {
        let acknowledged = self.states.iter().rposition(|(calls, _)| *calls <= image.calls).unwrap_or(0);
        let allowed = &self.states[acknowledged..(acknowledged + 2).min(self.states.len())];
        assert!(
            allowed.iter().any(|(_, state)| state == found),
            "power cut after call {} ({:?}): found {found:?}, allowed {allowed:?}",
            image.calls,
            image.survival,
        );
    }
}

/// Runs a load step by step, then opens every image of it.
pub(crate) fn check(options: &EngineOptions, steps: &[&dyn Fn(&Engine)]) {
    let disk = CrashDisk::new();
    let engine = open(&disk, options.clone()).unwrap();
    let mut history = History::default();
    history.note(&disk, &engine);
    for step in steps {
        step(&engine);
        history.note(&disk, &engine);
    }
    drop(engine);
    history.states.push((disk.calls(), history.states.last().unwrap().1.clone()));
    let mut images = 0;
    for image in disk.images(0, 6) {
        let after = image.disk();
        let engine = open(&after, options.clone()).unwrap_or_else(|error| {
            panic!("power cut after call {} ({:?}): {error}", image.calls, image.survival)
        });
        history.check(&image, &contents(&engine));
        // It goes on: a commit after recovery stays, and survives a second crash with all the rest.
        if engine.snapshot().table("trades").is_some() {
            engine.append("trades", &rows(9_000, 2), None).unwrap();
        }
        let expected = contents(&engine);
        let again =
            open(&after.image(after.calls(), tickstone_sim::Survival::Nothing).disk(), options.clone())
                .unwrap();
        assert_eq!(contents(&again), expected, "second crash after call {}", image.calls);
        images += 1;
    }
    assert!(images > 100, "the load is too short to mean anything: {images} images");
}

pub(crate) fn append(table: &'static str, first: i64, count: i64) -> impl Fn(&Engine) {
    move |engine| {
        engine.append(table, &rows(first, count), None).unwrap();
    }
}

#[test]
fn commits_and_seals_survive() {
    let create = |engine: &Engine| engine.create_table(schema("trades")).unwrap();
    let seal = |engine: &Engine| engine.seal(None).unwrap();
    check(
        &options(),
        &[
            &create,
            &append("trades", 0, 5),
            &append("trades", 5, 30),
            &seal,
            &append("trades", 35, 1),
            &append("trades", 36, 1),
            &append("trades", 37, 12),
            &seal,
            &append("trades", 49, 2),
        ],
    );
}

#[test]
fn a_commit_over_two_tables_is_whole() {
    let create = |engine: &Engine| engine.create_table(schema("trades")).unwrap();
    let create_quotes = |engine: &Engine| engine.create_table(schema("quotes")).unwrap();
    let both = |first: i64| {
        move |engine: &Engine| {
            let mut transaction = engine.begin();
            transaction.append("trades", &rows(first, 3)).unwrap();
            transaction.append("quotes", &rows(first, 40)).unwrap();
            transaction.commit(None).unwrap();
        }
    };
    let seal_one = |engine: &Engine| engine.seal(Some("quotes")).unwrap();
    check(&options(), &[&create, &create_quotes, &both(0), &both(40), &seal_one, &both(80), &seal_one]);
}

#[test]
fn dropped_and_truncated_tables_stay_so() {
    let create = |engine: &Engine| engine.create_table(schema("trades")).unwrap();
    let create_quotes = |engine: &Engine| engine.create_table(schema("quotes")).unwrap();
    let seal = |engine: &Engine| engine.seal(None).unwrap();
    let drop_quotes = |engine: &Engine| engine.drop_table("quotes").unwrap();
    let truncate = |engine: &Engine| engine.truncate_table("trades").unwrap();
    check(
        &options(),
        &[
            &create,
            &create_quotes,
            &append("quotes", 0, 20),
            &append("trades", 0, 20),
            &seal,
            &append("quotes", 20, 3),
            &drop_quotes,
            &append("trades", 20, 4),
            &truncate,
            &append("trades", 24, 4),
            &create_quotes,
            &append("quotes", 23, 3),
            &seal,
        ],
    );
}

#[test]
fn a_table_aside_is_in_its_place_whole_or_never_was() {
    let create = |engine: &Engine| engine.create_table(schema("trades")).unwrap();
    let seal = |engine: &Engine| engine.seal(None).unwrap();
    let aside = |engine: &Engine, first: i64| {
        let aside = engine.aside().unwrap();
        aside.create(&schema("whatever")).unwrap();
        engine.append(aside.name(), &rows(first, 20), None).unwrap();
        engine.seal(Some(aside.name())).unwrap();
        engine.append(aside.name(), &rows(first + 20, 3), None).unwrap();
        aside
    };
    let new = |engine: &Engine| aside(engine, 0).take_name("quotes").unwrap();
    let instead = |engine: &Engine| aside(engine, 100).take_place("trades").unwrap();
    // One that fails goes with its handle.
    let in_vain = |engine: &Engine| drop(aside(engine, 200));
    check(
        &options(),
        &[
            &create,
            &append("trades", 0, 10),
            &new,
            &in_vain,
            &append("trades", 10, 2),
            &instead,
            &seal,
            &append("quotes", 23, 2),
            &in_vain,
        ],
    );
}

#[test]
fn a_bulk_load_is_whole_or_not_there() {
    let create = |engine: &Engine| engine.create_table(schema("trades")).unwrap();
    let load = |first: i64| {
        move |engine: &Engine| {
            let mut load = engine.load("trades").unwrap();
            for batch in 0..4 {
                load.append(&rows(first + batch * 25, 25)).unwrap();
            }
            load.commit(None).unwrap();
        }
    };
    let abandoned = |engine: &Engine| {
        let mut load = engine.load("trades").unwrap();
        load.append(&rows(5_000, 300)).unwrap();
        drop(load);
    };
    let seal = |engine: &Engine| engine.seal(None).unwrap();
    // A small budget makes the load write parts before its commit.
    let options = EngineOptions { memory_budget_bytes: 4_000, ..options() };
    check(
        &options,
        &[&create, &append("trades", 0, 10), &load(10), &append("trades", 110, 3), &abandoned, &seal],
    );
}

#[test]
fn unsynced_commits_are_lost_from_the_end_only() {
    let disk = CrashDisk::new();
    let engine = open(&disk, options()).unwrap();
    engine.create_table(schema("trades")).unwrap();
    let mut acknowledged = vec![(disk.calls(), 0)];
    for step in 0..12_i64 {
        let policy = if step % 4 == 3 { SyncPolicy::Always } else { SyncPolicy::None };
        engine.append("trades", &rows(step * 10, 10), Some(policy)).unwrap();
        if policy == SyncPolicy::Always {
            acknowledged.push((disk.calls(), (step + 1) * 10));
        }
    }
    let first = acknowledged[0].0;
    for image in disk.images(first, 10) {
        let engine = open(&image.disk(), options()).unwrap();
        let found = &contents(&engine)["trades"];
        let stable = acknowledged.iter().rev().find(|(calls, _)| *calls <= image.calls).unwrap().1;
        assert!(found.len() as i64 >= stable, "{} of {stable} rows after call {}", found.len(), image.calls);
        assert!(found.iter().copied().eq(0..found.len() as i64), "a commit is missing between others");
        assert_eq!(found.len() % 10, 0, "half a commit");
    }
}

fn keyed(name: &str) -> TableSchema {
    let builder = TableSchema::builder(name)
        .column("ts", ColumnType::Timestamp)
        .column("symbol", ColumnType::Symbol)
        .column("id", ColumnType::Int64);
    builder.timestamp("ts").dedup(["ts", "symbol"]).build().unwrap()
}

fn load(table: &'static str, first: i64, count: i64) -> impl Fn(&Engine) {
    move |engine| {
        let mut load = engine.load(table).unwrap();
        load.append(&rows(first, count)).unwrap();
        load.commit(None).unwrap();
    }
}

fn delete_first(engine: &Engine) {
    let mut rewrite = engine.rewrite("trades").unwrap();
    let table = Arc::clone(rewrite.table());
    for segment in table.select(&Selection::default()).unwrap() {
        rewrite.delete(&segment, &[segment.rows()[0].start]).unwrap();
    }
    rewrite.commit().unwrap();
}

/// Frames before a DROP tell of parts and of a manifest that went with the table: they are not missed.
#[test]
fn a_dropped_table_is_not_missed_by_its_frames() {
    let create_keyed = |engine: &Engine| engine.create_table(keyed("trades")).unwrap();
    let create = |engine: &Engine| engine.create_table(schema("trades")).unwrap();
    let create_quotes = |engine: &Engine| engine.create_table(schema("quotes")).unwrap();
    let drop_it = |engine: &Engine| engine.drop_table("trades").unwrap();
    let (late, more) = (append("trades", 20, 15), append("quotes", 0, 3));
    check(&options(), &[&create_keyed, &load("trades", 40, 30), &late, &drop_it, &create_quotes, &more]);
    check(&options(), &[&create, &append("trades", 0, 20), &delete_first, &drop_it, &create_quotes, &more]);
}

/// An opening that is cut short leaves what the next one needs: parts that left by a later frame, too.
#[test]
fn an_opening_cut_short_is_begun_again() {
    let disk = CrashDisk::new();
    let engine = open(&disk, options()).unwrap();
    engine.create_table(keyed("trades")).unwrap();
    engine.append("trades", &rows(40, 30), None).unwrap();
    engine.seal(None).unwrap();
    engine.append("trades", &rows(20, 15), None).unwrap();
    engine.truncate_table("trades").unwrap();
    engine.append("trades", &rows(0, 5), None).unwrap();
    let mut openings = 0;
    for image in disk.images(0, 3) {
        let after = image.disk();
        let first = after.calls();
        let engine = open(&after, options()).unwrap();
        let expected = contents(&engine);
        for calls in first..=after.calls() {
            let cut_short = after.image(calls, Survival::Everything).disk();
            let again = open(&cut_short, options())
                .unwrap_or_else(|error| panic!("call {} of call {}: {error}", calls, image.calls));
            assert_eq!(contents(&again), expected, "call {calls} of call {}", image.calls);
            openings += 1;
        }
    }
    assert!(openings > 300, "{openings}");
}

/// A close is clean for the next opening alone: that one may seal and let go of the tape without a frame of its
/// own, be killed before a manifest is stable, and leave it to the next to make it so.
#[test]
fn what_a_session_without_frames_saved_is_made_stable() {
    let mut killed_within = 0;
    for seed in 0..60 {
        let clock = Arc::new(StepClock::new(0));
        let disk = FaultyDisk::new(seed, Arc::clone(&clock));
        let open = |disk: &FaultyDisk| {
            Engine::open_on(Arc::new(disk.clone()), Arc::clone(&clock) as Arc<_>, options()).unwrap()
        };
        let engine = open(&disk);
        engine.create_table(schema("trades")).unwrap();
        for first in 0..12 {
            engine.append("trades", &rows(first * 30, 30), None).unwrap();
        }
        let expected = contents(&engine);
        drop(engine);
        let engine = open(&disk);
        disk.set_rates(FaultRates { sync_dir: 4, ..FaultRates::default() });
        killed_within += u64::from(engine.seal(None).is_err());
        let next = disk.kill();
        drop(engine);
        next.set_rates(FaultRates::default());
        let engine = open(&next);
        engine.seal(None).unwrap();
        let after = next.power_cut(Kept::Nothing);
        drop(engine);
        assert_eq!(contents(&open(&after)), expected, "seed {seed}");
    }
    assert!(killed_within > 20, "{killed_within}");
}

/// What a disk does while a table is dropped: each kind of call that a DROP makes after its frame fails.
const TROUBLES: [FaultRates; 5] = [
    FaultRates { read: 1, ..NO_TROUBLE },
    FaultRates { names: 1, ..NO_TROUBLE },
    FaultRates { names: 3, ..NO_TROUBLE },
    FaultRates { sync_dir: 1, ..NO_TROUBLE },
    FaultRates { sync_dir: 2, ..NO_TROUBLE },
];
const NO_TROUBLE: FaultRates =
    FaultRates { sync: 0, sync_dir: 0, append: 0, names: 0, read: 0, short_read: 0, slow: 0 };

fn open_faulty(disk: &FaultyDisk, segment_bytes: usize) -> tickstone_engine::Result<Engine> {
    let options = EngineOptions { segment_bytes, ..options() };
    Engine::open_on(Arc::new(disk.clone()), Arc::new(StepClock::new(0)), options)
}

/// A database of two tables, both with rows in parts and in memory.
fn two_tables(seed: u64, segment_bytes: usize) -> (FaultyDisk, Engine) {
    let disk = FaultyDisk::new(seed, Arc::new(StepClock::new(0)));
    let engine = open_faulty(&disk, segment_bytes).unwrap();
    for name in ["quotes", "trades"] {
        engine.create_table(schema(name)).unwrap();
    }
    for first in (0..100).step_by(20) {
        engine.append("quotes", &rows(first, 20), None).unwrap();
        engine.append("trades", &rows(first, 20), None).unwrap();
    }
    engine.seal(None).unwrap();
    engine.append("quotes", &rows(100, 3), None).unwrap();
    engine.append("trades", &rows(100, 3), None).unwrap();
    (disk, engine)
}

/// A DROP whose frame is stable is done, whatever the disk then says of the table's files; they go in an order of
/// which any power cut leaves a database that opens.
#[test]
fn a_drop_holds_where_its_files_cannot_be_removed() {
    let mut left = 0;
    for seed in 0..100 {
        // One segment, which is there before the trouble comes.
        let (disk, engine) = two_tables(seed, 1 << 20);
        let mut expected = contents(&engine);
        expected.remove("trades");
        disk.set_rates(TROUBLES[seed as usize % TROUBLES.len()]);
        engine.drop_table("trades").unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        left += usize::from(disk.files().iter().any(|(path, _)| path.starts_with("tables/2")));
        match seed / 5 % 4 {
            0 => {}
            // Maintenance tries again; with more or less luck.
            1 => disk.set_rates(FaultRates::default()),
            _ => disk.set_rates(FaultRates { names: 2, sync_dir: 2, ..FaultRates::default() }),
        }
        let _ = engine.maintain();
        disk.set_rates(if seed % 2 == 0 {
            FaultRates::default()
        } else {
            FaultRates { names: 2, ..NO_TROUBLE }
        });
        let dead = if seed % 3 == 0 { disk.clone() } else { disk.kill() };
        drop(engine);
        dead.set_rates(FaultRates::default());
        for image in 0..24 {
            let kept = [Kept::Any, Kept::Prefix][image as usize % 2];
            let mut after = dead.fork(image).power_cut(kept);
            // Cut short, and begun again.
            after.cut_power_after(Some(image / 2));
            drop(open_faulty(&after, 1 << 20));
            after = after.power_cut(Kept::Any);
            let engine = open_faulty(&after, 1 << 20)
                .unwrap_or_else(|error| panic!("seed {seed}, image {image} ({kept:?}): {error}"));
            assert_eq!(contents(&engine), expected, "seed {seed}, image {image}");
        }
    }
    assert!(left > 60, "{left}");
}

/// Files of a table that were removed before its manifest, as earlier builds did where the disk failed, do not
/// keep the database closed where the tape has the DROP; where it has none they are missed.
#[test]
fn files_of_a_dropped_table_are_not_missed() {
    let lost: [&[&str]; 3] = [&["symbols-1"], &["manifest"], &["symbols-1", "manifest.copy"]];
    for names in lost {
        for drops in [true, false] {
            // The tape has let go of the CREATE.
            let (disk, engine) = two_tables(0, 600);
            let before = disk.fork(0);
            if drops {
                engine.drop_table("trades").unwrap();
            }
            let expected = contents(&engine);
            drop(engine);
            // The tape of after, the table's files of before.
            let after = disk.kill();
            for (path, _) in before.files().iter().filter(|(path, _)| path.starts_with("tables/2")) {
                let _ = after.remove(path);
                let mut file = after.create(path).unwrap();
                file.append(&before.read(path).unwrap()).unwrap();
            }
            for name in names {
                after.remove(&Path::new("tables/2").join(name)).unwrap();
            }
            match open_faulty(&after, 600) {
                Ok(engine) if drops => assert_eq!(contents(&engine), expected, "{names:?}"),
                Ok(_) => panic!("{names:?} are missing"),
                Err(error) => assert!(!drops, "{names:?}: {error}"),
            }
        }
    }
}

/// A DROP in the tape excuses the files of the table that it dropped, not those of a later one with its number.
#[test]
fn a_drop_does_not_excuse_a_later_table_of_its_number() {
    let (disk, engine) = two_tables(0, 600);
    // The tape lets go of the CREATE: after the DROP the number is free.
    engine.seal(None).unwrap();
    engine.drop_table("trades").unwrap();
    drop(engine);
    let engine = open_faulty(&disk, 600).unwrap();
    engine.create_table(schema("later")).unwrap();
    engine.append("later", &rows(0, 20), None).unwrap();
    // Its rows are in parts, and the DROP still in the tape.
    drop(engine.rewrite("later").unwrap());
    let expected = contents(&engine);
    let after = disk.kill();
    drop(engine);
    let manifest = Path::new("tables/2/manifest");
    assert!(after.flip(manifest, 20, 1));
    let error = open_faulty(&after, 600).expect_err("a manifest that cannot be read");
    assert!(error.to_string().starts_with("tables/2/manifest is damaged"), "{error}");
    after.flip(manifest, 20, 1);
    assert_eq!(contents(&open_faulty(&after, 600).unwrap()), expected);
}

/// A session that replaces a symbol file and can save no manifest leaves symbols that the next one takes for stored:
/// the next one makes them so before it relies on them.
#[test]
fn symbols_that_no_manifest_relies_on_yet_stay() {
    let mut replaced = 0;
    for seed in 0..200 {
        let (disk, engine) = two_tables(seed, 1 << 20);
        drop(engine);
        // The manifests are older than the last frame.
        let engine = open_faulty(&disk, 1 << 20).unwrap();
        engine.append("trades", &rows(103, 3), None).unwrap();
        drop(engine);
        let engine = open_faulty(&disk, 1 << 20).unwrap();
        // Symbols of rows that are never committed.
        let mut staged = engine.begin();
        staged.append("trades", &rows(1_000, 100)).unwrap();
        let symbols = |disk: &FaultyDisk| disk.read(Path::new("tables/2/symbols-1")).unwrap().len();
        let before = symbols(&disk);
        disk.set_rates(FaultRates { sync_dir: 3, ..NO_TROUBLE });
        let failed = engine.seal(Some("trades")).is_err();
        disk.set_rates(FaultRates::default());
        replaced += usize::from(failed && symbols(&disk) > before);
        let next = disk.kill();
        drop((staged, engine));
        let engine = open_faulty(&next, 1 << 20).unwrap();
        engine.append("trades", &rows(2_000, 50), Some(SyncPolicy::Always)).unwrap();
        let expected = contents(&engine);
        let after = next.power_cut([Kept::Nothing, Kept::Any][seed as usize % 2]);
        drop(engine);
        let engine = open_faulty(&after, 1 << 20).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(contents(&engine), expected, "seed {seed}");
    }
    assert!(replaced > 10, "{replaced}");
}
