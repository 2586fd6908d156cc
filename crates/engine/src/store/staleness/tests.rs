use super::*;

fn range(from: i64, to: i64) -> TimeRange {
    TimeRange::new(from, to)
}

/// Against a position for each instant.
#[test]
fn stretches_are_as_instants_one_by_one() {
    let mut seed = 7_u64;
    let mut next = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..200 {
        let mut staleness = Staleness::default();
        let (mut stale, mut frozen) = ([0_u64; 40], [false; 40]);
        for position in 1..60_u64 {
            let (a, b) = (next(40), next(41));
            let (from, to) = (a.min(b), a.max(b));
            let (within, at) = (range(from.cast_signed(), to.cast_signed()), from as usize..to as usize);
            match next(8) {
                0 if next(4) == 0 => {
                    staleness.freeze(within);
                    at.for_each(|at| (stale[at], frozen[at]) = (0, true));
                }
                1..=3 => {
                    let as_of = position.saturating_sub(next(10));
                    staleness.settle(within, as_of);
                    at.filter(|at| stale[*at] <= as_of)
                        .collect::<Vec<_>>()
                        .into_iter()
                        .for_each(|at| stale[at] = 0);
                }
                _ => {
                    staleness.mark(within, position);
                    at.for_each(|at| stale[at] = if frozen[at] { 0 } else { position });
                }
            }
            let mut of_stretches = [0_u64; 40];
            for stretch in staleness.stale() {
                (stretch.range.from..stretch.range.to)
                    .for_each(|at| of_stretches[at as usize] = stretch.position);
            }
            assert_eq!(of_stretches, stale);
            for at in 0..40 {
                assert_eq!(staleness.frozen_in(range(at, at + 1)).is_some(), frozen[at as usize]);
                assert_eq!(staleness.is_stale_in(range(at, at + 1)), stale[at as usize] > 0);
            }
            let mut out = Encoder::default();
            staleness.encode(&mut out);
            let bytes = out.finish();
            assert_eq!(Staleness::decode(&mut Decoder::new(&bytes)).unwrap(), staleness);
        }
    }
}

#[test]
fn very_many_stretches_become_fewer() {
    let mut staleness = Staleness::default();
    staleness.freeze(range(100, 102));
    for place in 0..3 * STRETCHES_MAX as i64 {
        staleness.mark(range(4 * place, 4 * place + 1), place.unsigned_abs() + 1);
    }
    assert!(staleness.stale().len() <= STRETCHES_MAX);
    assert!(!staleness.is_stale_in(range(100, 102)));
    assert!(
        (0..3 * STRETCHES_MAX as i64).all(|at| at == 25 || staleness.is_stale_in(range(4 * at, 4 * at + 1)))
    );
}

#[test]
fn times_mark_buckets() {
    let view = |bucket_ns, origin_ns| MaterializedView {
        query: String::new(),
        base: String::new(),
        buckets: String::new(),
        bucket_ns,
        origin_ns,
    };
    let marked = marked_by_times(&view(10, Some(0)), &[-11, -10, 3, 9, 10, 35]);
    assert_eq!(marked, [range(-20, 20), range(30, 40)]);
    assert_eq!(marked_by_times(&view(640, None), &[5, 100]), [range(0, 10), range(100, 110)]);
    assert_eq!(view(640, None).buckets_of(range(0, 10)), range(-640, 650));
    assert_eq!(view(10, Some(0)).buckets_of(range(1, 20)), range(0, 20));
    assert_eq!(view(10, Some(0)).buckets_of(TimeRange::ALL), TimeRange::new(i64::MIN, i64::MAX));
    assert_eq!(view(10, Some(3)).buckets_of(range(3, 14)), range(3, 23));
    assert_eq!(view(640, None).frozen_by(range(1, 20)), range(1, 20));
    assert_eq!(view(10, Some(-3)).frozen_by(range(1, 17)), range(-3, 17));
}
