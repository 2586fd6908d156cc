//! Who follows, from wherever he begins and however often he comes back, hears what makes his rows those of the table.

use crate::crash_images;
use crate::ledger::options;
use crate::model::{Row, TABLE, World, assert_same, batch, random_rows, rows_of_columns, selected, table};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tickstone_engine::{
    Difference, EngineError, EngineOptions, FollowFrom, Follower, Happened, Heard, HeardRows, Selection,
    TableSnapshot, difference,
};
use tickstone_model::{RowBatch, TableSchema};
use tickstone_sim::{CrashDisk, Random};

/// One who keeps the rows of the table by what he hears.
struct Mirror {
    follower: Option<Follower>,
    position: u64,
    rows: Vec<Row>,
    dedup: bool,
}

impl Mirror {
    /// Begins with the rows there are.
    fn begin(world: &World, dedup: bool) -> Self {
        let engine = world.engine();
        // The place first: what comes between it and the snapshot is heard, too.
        let follower = engine.follow(FollowFrom::Now).unwrap();
        let snapshot = engine.snapshot();
        assert_eq!(follower.position(), snapshot.position());
        let rows = selected(snapshot.table(TABLE).unwrap(), &Selection::default());
        Self { position: follower.position(), follower: Some(follower), rows, dedup }
    }

    fn add(&mut self, rows: Vec<Row>) {
        for row in rows {
            assert!(self.rows.iter().all(|old| old.id != row.id), "row {} is heard twice", row.id);
            if self.dedup {
                self.rows.retain(|old| (old.ts, old.symbol) != (row.ts, row.symbol));
            }
            self.rows.push(row);
        }
    }

    fn remove(&mut self, rows: Vec<Row>) {
        for row in rows {
            let at = self.rows.iter().position(|old| *old == row);
            self.rows.remove(at.unwrap_or_else(|| panic!("{row:?} goes, and was not there")));
        }
    }

    fn hear(&mut self, heard: &Heard) {
        assert!(heard.position > self.position);
        self.position = heard.position;
        for change in &heard.changes {
            match &change.what {
                Happened::Rows(rows) => self.add(rows_heard(rows)),
                Happened::Loaded(table) => {
                    // Rows of a load that others of it replace are there, too.
                    let mut rows = selected(table, &Selection::default());
                    rows.sort_by_key(|row| row.id);
                    self.add(rows);
                }
                Happened::Rewritten(rewrite) => {
                    let parts: Vec<_> = rewrite.parts().map(|(gone, _)| Arc::clone(gone)).collect();
                    let of = &parts[0];
                    let mut all = Vec::new();
                    for place in 0..parts.len() {
                        let each = |found: Difference| {
                            let before = stored(&found.updated.before, of);
                            let after = stored(&found.updated.after, of);
                            assert_eq!(before.len(), after.len());
                            all.push((stored(&found.deleted, of), before, after));
                            Ok(())
                        };
                        difference(rewrite, place, each).unwrap();
                    }
                    for (deleted, before, after) in all {
                        for (old, new) in before.iter().zip(&after) {
                            assert!(old.id == new.id && old != new, "{old:?} became {new:?}");
                        }
                        self.remove(deleted);
                        self.remove(before);
                        self.rows.extend(after);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Listens until nothing comes, or once.
    fn listen(&mut self, world: &World, whole: bool) -> Result<(), EngineError> {
        loop {
            let engine = world.engine();
            let follower = match &mut self.follower {
                Some(follower) => follower,
                None => self.follower.insert(engine.follow(FollowFrom::After(self.position))?),
            };
            let news = follower.next(Duration::ZERO)?;
            let at = follower.position();
            let nothing = news.heard.is_empty();
            for heard in &news.heard {
                self.hear(heard);
            }
            self.position = self.position.max(at);
            if nothing || !whole {
                return Ok(());
            }
        }
    }
}

fn rows_heard(rows: &HeardRows) -> Vec<Row> {
    let of = |piece: &RowBatch| rows_of_columns(piece.columns(), |column| rows.dictionary(column).unwrap());
    rows.pieces().iter().flat_map(of).collect()
}

fn stored(batch: &RowBatch, table: &TableSnapshot) -> Vec<Row> {
    rows_of_columns(batch.columns(), |column| table.dictionary(column).unwrap())
}

/// Runs a seed; how often a place was gone, and how often it was not.
fn run(seed: u64, schema: TableSchema, dedup: bool, steps: usize) -> (usize, usize) {
    let mut world = World::new(seed, schema, dedup);
    let mut random = Random::new(seed ^ 0xF0);
    let mut mirrors = vec![Mirror::begin(&world, dedup)];
    let (mut gone, mut resumed) = (0, 0);
    for _ in 0..steps {
        // A follower keeps the database open.
        let kept = mirrors.len();
        let reopens = random.one_in(6);
        if reopens {
            mirrors.iter_mut().for_each(|mirror| mirror.follower = None);
        }
        world.step_where(reopens);
        if mirrors.len() < 3 && random.one_in(3) {
            mirrors.push(Mirror::begin(&world, dedup));
        }
        for mirror in &mut mirrors[..kept] {
            if random.one_in(4) {
                mirror.follower = None;
            }
            if random.one_in(2) {
                continue;
            }
            let back = mirror.follower.is_none();
            let whole = random.one_in(2);
            match mirror.listen(&world, whole) {
                Ok(()) => {
                    resumed += usize::from(back);
                    if whole {
                        assert_same(mirror.rows.clone(), world.rows.clone());
                    }
                }
                Err(EngineError::PositionGone { position, oldest }) => {
                    assert!(position < oldest, "{position} is gone, the oldest is {oldest}");
                    gone += 1;
                    *mirror = Mirror::begin(&world, dedup);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    (gone, resumed)
}

fn run_all(seeds: u64, steps: usize) {
    let first = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let (mut gone, mut resumed) = (0, 0);
    for seed in first..first + seeds {
        let dedup = seed % 3 == 0;
        let schema = match (dedup, seed % 5 == 0) {
            (true, _) => table().dedup(["ts", "symbol"]).build().unwrap(),
            (false, true) => table().series::<&str>([]).build().unwrap(),
            (false, false) => table().build().unwrap(),
        };
        let outcome = std::panic::catch_unwind(|| run(seed, schema, dedup, steps));
        let (seed_gone, seed_resumed) = outcome.unwrap_or_else(|panic| {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic)
        });
        gone += seed_gone;
        resumed += seed_resumed;
    }
    assert!(gone > 0 && resumed > gone, "places were gone {gone} times, and there {resumed} times");
}

/// `FOLLOW_SEEDS` for more.
#[test]
fn who_follows_has_the_rows_of_the_table() {
    let seeds = std::env::var("FOLLOW_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    run_all(seeds.unwrap_or(40), 60);
}

/// What a load named is kept for those who come back, and goes with its table.
#[test]
fn files_of_a_dropped_table_are_not_kept_for_who_follows() {
    for follows in [false, true] {
        let disk = CrashDisk::new();
        let engine =
            crash_images::open(&disk, EngineOptions { tape_keep_bytes: 1 << 20, ..options() }).unwrap();
        let follower = follows.then(|| engine.follow(FollowFrom::Now).unwrap());
        engine.create_table(table().build().unwrap()).unwrap();
        let mut load = engine.load(TABLE).unwrap();
        load.append(&batch(&random_rows(&mut Random::new(1), 0, 50))).unwrap();
        load.commit(None).unwrap();
        let parts =
            || disk.files().iter().filter(|(path, _)| path.extension() == Some("part".as_ref())).count();
        assert!(parts() > 0);
        drop(follower);
        engine.drop_table(TABLE).unwrap();
        assert_eq!(parts(), 0, "followed: {follows}");
    }
}
