use super::*;
use proptest::prelude::*;

fn doubles(values: impl Iterator<Item = f64>) -> ArrayRef {
    Arc::new(values.collect::<Float64Array>())
}

fn of_rows(name: &str, rows: &[(f64, f64)]) -> Option<f64> {
    let made = Exact::of(name).expect("it has an exact form").made;
    let mut state = State::new(made);
    rows.iter().for_each(|(x, y)| state.row(*x, *y, true));
    state.evaluate()
}

/// In whole numbers, which 128 bits hold.
fn naive(name: &str, rows: &[(i64, i64)]) -> Option<f64> {
    let n = rows.len() as i128;
    let sum = |of: fn(&(i64, i64)) -> i128| rows.iter().map(of).sum::<i128>();
    let (x, y) = (sum(|row| row.0.into()), sum(|row| row.1.into()));
    let products = sum(|row| i128::from(row.0) * i128::from(row.1));
    let (xs, ys) = (sum(|row| i128::from(row.0).pow(2)), sum(|row| i128::from(row.1).pow(2)));
    let spread = |a: i128, b: i128, products: i128| (n * products - a * b) as f64 / n as f64;
    let parts = if name.contains("pop") { n } else { n - 1 };
    if n == 0 || (parts == 0 && !["sum", "avg", "vwap"].contains(&name)) {
        return None;
    }
    if let "skewness" | "kurtosis" = name {
        return shape(name, rows);
    }
    match name {
        "sum" => Some(x as f64),
        "avg" => Some(x as f64 / n as f64),
        "vwap" => (y != 0).then(|| products as f64 / y as f64),
        "var" | "var_pop" => Some(spread(x, x, xs) / parts as f64),
        "stddev" | "stddev_pop" => Some((spread(x, x, xs) / parts as f64).sqrt()),
        "covar_samp" | "covar_pop" => Some(spread(x, y, products) / parts as f64),
        _ => {
            let (xs, ys) = (spread(x, x, xs), spread(y, y, ys));
            (xs != 0.0 && ys != 0.0).then(|| spread(x, y, products) / moments::root_of_product(xs, ys))
        }
    }
}

/// The distances from the first value are small, and so are their powers.
fn shape(name: &str, rows: &[(i64, i64)]) -> Option<f64> {
    let n = rows.len() as i128;
    let power = |of: u32| rows.iter().map(|row| i128::from(row.0 - rows[0].0).pow(of)).sum::<i128>();
    let [a, b, c, d] = [1, 2, 3, 4].map(power);
    let m2 = (n * b - a * a) as f64 / (n * n) as f64;
    let m3 = (n * n * c - 3 * n * a * b + 2 * a.pow(3)) as f64 / n.pow(3) as f64;
    let m4 = (n.pow(3) * d - 4 * n * n * a * c + 6 * n * a * a * b - 3 * a.pow(4)) as f64 / n.pow(4) as f64;
    let n = n as f64;
    if m2 == 0.0 {
        return None;
    }
    match name {
        "skewness" if n > 2.0 => Some((n * (n - 1.0)).sqrt() / (n - 2.0) * m3 / m2.powf(1.5)),
        "kurtosis" if n > 3.0 => {
            Some((n - 1.0) / ((n - 2.0) * (n - 3.0)) * ((n + 1.0) * (m4 / (m2 * m2) - 3.0) + 6.0))
        }
        _ => None,
    }
}

proptest! {
    /// Large numbers that lie close together, whose squares a double cannot tell apart.
    #[test]
    fn as_in_whole_numbers(
        base in prop_oneof![Just(0_i64), Just(1_000_000_000), Just(1_000_000_000_000)],
        rows in prop::collection::vec((-1000_i64..1000, -1000_i64..1000), 0..40),
    ) {
        let rows: Vec<(i64, i64)> = rows.into_iter().map(|(x, y)| (base + x, base / 2 + y)).collect();
        let in_doubles: Vec<(f64, f64)> = rows.iter().map(|(x, y)| (*x as f64, *y as f64)).collect();
        for name in names().filter(|name| *name != "ksum") {
            match (of_rows(name, &in_doubles), naive(name, &rows)) {
                (Some(found), Some(expected)) => {
                    // What is near 0 in the shape of values is a difference of numbers that are not.
                    let least = if name.ends_with("sis") || name == "skewness" { 1.0 } else { 1e-300 };
                    let close = (found - expected).abs() <= 1e-13 * expected.abs().max(least);
                    prop_assert!(close, "{}: {} is not {} of {:?}", name, found, expected, rows);
                }
                (found, expected) => prop_assert_eq!(found, expected, "{}", name),
            }
        }
    }

    /// At once, in pieces that are merged, by group, and with rows that leave again.
    #[test]
    fn every_way_gives_the_same_bits(
        rows in prop::collection::vec((-1e6_f64..1e6, -1e3_f64..1e3, 0_usize..3), 1..60),
        cut in 0_usize..60,
    ) {
        let cut = cut.min(rows.len());
        for name in names() {
            let made = Exact::of(name).expect("it has an exact form").made;
            let arrays = |rows: &[(f64, f64, usize)]| {
                let mut arrays = vec![doubles(rows.iter().map(|row| row.0)), doubles(rows.iter().map(|row| row.1))];
                arrays.truncate(made.arguments());
                arrays
            };
            let groups: Vec<usize> = rows.iter().map(|row| row.2).collect();
            let mut late = Many { made, states: Vec::new() };
            late.update_batch(&arrays(&rows[cut..]), &groups[cut..], None, 3).expect("doubles");
            let states = late.state(EmitTo::All).expect("states");
            let mut all = Many { made, states: Vec::new() };
            all.merge_batch(&states, &[0, 1, 2], 3).expect("states");
            all.update_batch(&arrays(&rows[..cut]), &groups[..cut], None, 3).expect("doubles");
            let found = all.evaluate(EmitTo::All).expect("values");
            for group in 0..3 {
                let of: Vec<_> = rows.iter().filter(|row| row.2 == group).copied().collect();
                let mut one = One(State::new(made));
                one.update_batch(&arrays(&of)).expect("doubles");
                let expected = one.evaluate().expect("a value");
                prop_assert_eq!(ScalarValue::try_from_array(&found, group).expect("a value"), expected);
            }
            let mut moving = One(State::new(made));
            moving.update_batch(&arrays(&rows)).expect("doubles");
            moving.retract_batch(&arrays(&rows[..cut])).expect("doubles");
            let mut left = One(State::new(made));
            left.update_batch(&arrays(&rows[cut..])).expect("doubles");
            prop_assert_eq!(moving.evaluate().expect("a value"), left.evaluate().expect("a value"));
        }
    }
}
