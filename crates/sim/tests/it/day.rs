//! A day of operation: memory, maps and open files stay flat.

use tickstone_sim::{Footprint, simulate_day};

/// `TICKSTONE_DAYS=1..9 cargo test -p tickstone-sim --test it days -- --ignored --nocapture`
#[test]
#[ignore = "a quarter of a minute each"]
fn days_of_many_seeds_end() {
    let text = std::env::var("TICKSTONE_DAYS").unwrap_or_else(|_| "1..9".to_string());
    let (first, end) = text.split_once("..").unwrap();
    for seed in first.parse().unwrap()..end.parse::<u64>().unwrap() {
        match simulate_day(seed, 6_000, 24) {
            Ok(_) => println!("day {seed}: whole"),
            Err(what) => panic!("day {seed}: {what}"),
        }
    }
}

#[test]
fn a_day_leaves_everything_flat() {
    let footprints = simulate_day(1, 6_000, 24).unwrap();
    assert_eq!(footprints.len(), 24);
    for (hour, now) in footprints.iter().enumerate() {
        println!("{hour:2} h: {now:?}");
        // A part read is a part mapped, and nothing else is.
        assert!(now.maps <= now.parts, "hour {hour}: {now:?}");
        assert!(now.open_files <= 1, "hour {hour}: {now:?}");
        // Only the current one.
        assert!(now.snapshots <= 1, "hour {hour}: {now:?}");
        // Parts, segments, the tape manifest, and of each table a manifest and up to four symbol files, with copies.
        assert!(now.files <= now.parts + now.segments + 2 + 4 * 5 * 2, "hour {hour}: {now:?}");
        assert!(now.recent_bytes <= 600_000, "hour {hour}: {now:?}");
        assert!(now.segments <= 12, "hour {hour}: {now:?}");
    }
    let most = |half: &[Footprint], of: fn(&Footprint) -> u64| half.iter().map(of).max().unwrap();
    let (morning, evening) = footprints.split_at(12);
    for (what, of) in [
        ("disk bytes", (|now| now.disk_bytes) as fn(&Footprint) -> u64),
        ("files", |now| now.files as u64),
        ("maps", |now| now.maps as u64),
        ("runs", |now| now.runs as u64),
    ] {
        let (before, after) = (most(morning, of), most(evening, of));
        assert!(after <= before * 2 + 20, "{what} grow: {before} until noon, {after} after");
    }
}
