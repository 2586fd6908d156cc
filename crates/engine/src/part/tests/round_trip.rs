//! Any table, split into any batches, is read back as a sort of its rows would give it.

use super::table::{Random, Shape, batches, schema, with_later};
use super::*;
use arrow_array::{Array, ArrayRef, ListArray, PrimitiveArray, cast::AsArray, types::*};
use proptest::prelude::*;
use tickstone_model::{ColumnType, ElementType, NULL_SYMBOL, TimeRange};

/// A value as bytes, `None` for NULL: equal where the bits are.
pub(super) fn cell(array: &dyn Array, row: usize) -> Option<Vec<u8>> {
    fn number<A: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> Vec<u8> {
        let array: &PrimitiveArray<A> = array.as_primitive();
        let bytes = array.values().inner().as_slice();
        let size = size_of::<A::Native>();
        bytes[row * size..(row + 1) * size].to_vec()
    }
    use arrow_schema::DataType::*;
    array.is_valid(row).then(|| match array.data_type() {
        Boolean => vec![u8::from(array.as_boolean().value(row))],
        Int8 => number::<Int8Type>(array, row),
        Int16 => number::<Int16Type>(array, row),
        Int32 => number::<Int32Type>(array, row),
        Int64 => number::<Int64Type>(array, row),
        UInt8 => number::<UInt8Type>(array, row),
        UInt16 => number::<UInt16Type>(array, row),
        UInt32 => number::<UInt32Type>(array, row),
        UInt64 => number::<UInt64Type>(array, row),
        Float32 => number::<Float32Type>(array, row),
        Float64 => number::<Float64Type>(array, row),
        Decimal128(_, _) => number::<Decimal128Type>(array, row),
        Date32 => number::<Date32Type>(array, row),
        Time64(_) => number::<Time64NanosecondType>(array, row),
        Timestamp(_, _) => number::<TimestampNanosecondType>(array, row),
        Utf8 => array.as_string::<i32>().value(row).as_bytes().to_vec(),
        Binary => array.as_binary::<i32>().value(row).to_vec(),
        FixedSizeBinary(_) => array.as_fixed_size_binary().value(row).to_vec(),
        List(_) => {
            let elements = array.as_list::<i32>().value(row);
            let cells = (0..elements.len()).map(|at| cell(&elements, at));
            let sized = |bytes: Vec<u8>| [&(bytes.len() as u64).to_le_bytes(), &bytes[..]].concat();
            cells.flat_map(|cell| cell.map_or(vec![0xff], sized)).collect()
        }
        other => panic!("no column has type {other}"),
    })
}

/// All rows by arrival: for each column its cells.
fn arrival(batches: &[RowBatch]) -> Vec<Vec<Option<Vec<u8>>>> {
    let width = batches[0].columns().len();
    let column = |at: usize| {
        batches
            .iter()
            .flat_map(move |b| (0..b.rows()).map(|row| cell(&b.columns()[at], row)).collect::<Vec<_>>())
    };
    (0..width).map(|at| column(at).collect()).collect()
}

fn times(batches: &[RowBatch]) -> Option<Vec<i64>> {
    batches[0].times()?;
    Some(batches.iter().flat_map(|b| b.times().unwrap().to_vec()).collect())
}

fn keys(batches: &[RowBatch], schema: &TableSchema) -> Vec<Vec<u32>> {
    let id = |b: &RowBatch, column: usize, row: usize| {
        let ids = b.symbols(column).unwrap();
        if ids.is_valid(row) { ids.value(row) } else { NULL_SYMBOL }
    };
    batches
        .iter()
        .flat_map(|b| {
            (0..b.rows())
                .map(|row| schema.series().iter().map(|&c| id(b, c, row)).collect())
                .collect::<Vec<_>>()
        })
        .collect()
}

/// What the part's order must be, given where its slices were cut.
fn expected_order(part: &Part, times: Option<&[i64]>, keys: &[Vec<u32>]) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..keys.len()).collect();
    if let Some(times) = times {
        rows.sort_by_key(|&row| times[row]);
    }
    for slice in part.slices() {
        rows[slice.rows.clone()].sort_by_key(|&row| (&keys[row], times.map(|times| times[row])));
    }
    rows
}

fn check_slices(part: &Part, sorted_times: Option<&[i64]>, slice_rows: usize) {
    let mut end = 0;
    for slice in part.slices() {
        assert_eq!(slice.rows.start, end);
        assert!(!slice.rows.is_empty() && slice.rows.len() <= slice_rows);
        end = slice.rows.end;
        let times = sorted_times.map(|times| &times[slice.rows.clone()]);
        assert_eq!(slice.times, times.map(|t| (*t.iter().min().unwrap(), *t.iter().max().unwrap())));
    }
    for pair in part.slices().windows(2) {
        let Some(((_, before), (after, _))) = pair[0].times.zip(pair[1].times) else { continue };
        assert!(before <= after, "slices are in order of time");
        if before == after {
            assert_eq!(pair[0].times.unwrap().0, before, "one instant is cut only where it fills a slice");
        }
    }
    assert_eq!(end as u64, part.summary().rows);
}

fn check_series(part: &Part, keys: &[Vec<u32>], order: &[usize]) {
    for (number, slice) in part.slices().iter().enumerate() {
        let index = part.series(number);
        assert_eq!(index.iter().count(), index.len());
        let mut row = slice.rows.start;
        let mut before: Option<Vec<u32>> = None;
        for entry in index.iter() {
            let ids: Vec<u32> = entry.ids().collect();
            assert!(before.is_none_or(|before| before < ids));
            assert_eq!(entry.rows().start, row);
            assert!(entry.rows().all(|row| keys[order[row]] == ids));
            row = entry.rows().end;
            if let Some(&first) = ids.first() {
                let found = index.find(first);
                assert!(index.iter().enumerate().all(|(at, e)| found.contains(&at) == (e.id(0) == first)));
            }
            before = Some(ids);
        }
        assert_eq!(row, slice.rows.end);
        assert!(index.find(NULL_SYMBOL - 1).is_empty());
    }
}

fn check_seek(part: &Part, sorted_times: &[i64], random: &mut Random) {
    for number in 0..part.slices().len() {
        for entry in part.series(number).iter() {
            let rows = entry.rows();
            let instant = |random: &mut Random| {
                sorted_times[random.below(sorted_times.len() as u64) as usize] + random.below(3) as i64 - 1
            };
            let time = TimeRange::new(instant(random), instant(random));
            let found = part.seek(rows.clone(), time).unwrap();
            let wanted: Vec<usize> = rows.clone().filter(|&row| time.contains(sorted_times[row])).collect();
            assert_eq!(found.clone().collect::<Vec<_>>(), wanted, "{rows:?} {time:?}");
            assert_eq!(part.seek(rows.clone(), TimeRange::ALL).unwrap(), rows);
        }
    }
}

fn stat_values(array: &ArrayRef, column_type: ColumnType) -> Option<Vec<Option<StatValue>>> {
    let number = |row: usize| -> Option<StatValue> {
        let bytes = cell(array, row)?;
        let mut wide = [0; 16];
        wide[..bytes.len()].copy_from_slice(&bytes);
        let signed = i128::from_le_bytes(wide) << (128 - bytes.len() * 8) >> (128 - bytes.len() * 8);
        Some(match column_type {
            ColumnType::Float64 => StatValue::Float(array.as_primitive::<Float64Type>().value(row)),
            ColumnType::Float32 => {
                StatValue::Float(f64::from(array.as_primitive::<Float32Type>().value(row)))
            }
            ColumnType::Boolean
            | ColumnType::UInt8
            | ColumnType::UInt16
            | ColumnType::UInt32
            | ColumnType::UInt64 => StatValue::Int(i128::from_le_bytes(wide)),
            _ => StatValue::Int(signed),
        })
    };
    match column_type {
        ColumnType::Varchar
        | ColumnType::Binary
        | ColumnType::Uuid
        | ColumnType::Symbol
        | ColumnType::Array(_) => None,
        _ => Some((0..array.len()).map(number).collect()),
    }
}

fn fits(value: &StatValue, bound: &ColumnBound) -> bool {
    let order = |a: &StatValue, b: &StatValue| match (a, b) {
        (StatValue::Int(a), StatValue::Int(b)) => a.cmp(b),
        (StatValue::Float(a), StatValue::Float(b)) => a.total_cmp(b),
        _ => panic!("one kind a column"),
    };
    bound.min.is_none_or(|min| order(value, &min).is_ge())
        && bound.max.is_none_or(|max| order(value, &max).is_le())
}

fn check_stats(part: &Part, column: usize, random: &mut Random) {
    let rows = part.summary().rows as usize;
    let column_type = part.schema().columns()[column].column_type;
    let array = part.read(column, 0..rows).unwrap();
    let stats = part.column_stats(column);
    assert_eq!((stats.rows, stats.nulls), (rows as u64, array.null_count() as u64));
    let Some(values) = stat_values(&array, column_type) else {
        assert_eq!((stats.min, stats.max, stats.sum), (None, None, None));
        return;
    };
    let present: Vec<StatValue> = values.iter().flatten().copied().collect();
    let is_nan = |v: &StatValue| matches!(v, StatValue::Float(v) if v.is_nan());
    assert_eq!(stats.has_nan, present.iter().any(is_nan));
    let real: Vec<StatValue> = present.iter().filter(|v| !is_nan(v)).copied().collect();
    let within = |v: &StatValue| fits(v, &ColumnBound { column, min: stats.min, max: stats.max });
    assert!(real.iter().all(within));
    for edge in [stats.min, stats.max].into_iter().flatten() {
        let same = |v: &StatValue| match (v, edge) {
            (StatValue::Float(v), StatValue::Float(e)) => v.to_bits() == e.to_bits(),
            (v, e) => *v == e,
        };
        assert!(real.iter().any(same));
    }
    if !matches!(column_type, ColumnType::Decimal { .. }) {
        assert_eq!(stats.min.is_some(), !real.is_empty());
    }
    if let Some(StatValue::Int(sum)) = stats.sum {
        let exact: i128 = present.iter().map(|v| if let StatValue::Int(v) = v { *v } else { 0 }).sum();
        assert_eq!(sum, exact);
    }
    for _ in 0..3 {
        let mut edge = || {
            let pick = random.below(present.len() as u64 + 1) as usize;
            present.get(pick).copied()
        };
        let bound = ColumnBound { column, min: edge(), max: edge() };
        let from = random.below(rows as u64 + 1) as usize;
        let to = from + random.below((rows - from) as u64 + 1) as usize;
        let kept = part.prune(&bound, from..to);
        assert!(kept.windows(2).all(|pair| pair[0].end < pair[1].start));
        for (row, value) in values.iter().enumerate().take(to).skip(from) {
            let wanted = value.is_some_and(|value| fits(&value, &bound));
            assert!(!wanted || kept.iter().any(|range| range.contains(&row)), "row {row} {bound:?}");
        }
        assert!(kept.iter().all(|range| from <= range.start && range.end <= to && !range.is_empty()));
    }
}

fn check_take(part: &Part, column: usize, all: &ArrayRef, random: &mut Random) {
    let rows = part.summary().rows;
    for most in [0, 3, 200] {
        let mut picked: Vec<usize> = (0..most.min(rows)).map(|_| random.below(rows) as usize).collect();
        if random.below(2) == 0 {
            picked.sort_unstable();
        }
        let taken = part.take(column, &picked).unwrap();
        assert_eq!((taken.len(), taken.data_type()), (picked.len(), all.data_type()));
        for (at, row) in picked.iter().enumerate() {
            assert_eq!(cell(&taken, at), cell(all, *row), "row {row}");
        }
    }
    assert!(part.take(column, &[rows as usize]).is_err());
}

fn check(shape: &Shape, slice_rows: usize, threads: usize) {
    for density in [Density::Fast, Density::Dense] {
        check_as(density, shape, slice_rows, threads);
    }
}

fn check_as(density: Density, shape: &Shape, slice_rows: usize, threads: usize) {
    let schema = with_later(&schema(shape));
    let batches = batches(shape, &schema);
    let part = open(write_as(density, &schema, &batches, slice_rows, threads), &schema).unwrap();
    part.check().unwrap();
    assert_eq!(part.density(), density);
    assert_eq!(part.positions(), POSITIONS);
    assert_eq!(part.summary().rows as usize, shape.rows);
    let (times, keys) = (times(&batches), keys(&batches, &schema));
    let order = expected_order(&part, times.as_deref(), &keys);
    let sorted_times: Option<Vec<i64>> = times.map(|times| order.iter().map(|&row| times[row]).collect());
    check_slices(&part, sorted_times.as_deref(), slice_rows);
    check_series(&part, &keys, &order);
    let mut random = Random(shape.seed);
    if let Some(times) = sorted_times.as_ref().filter(|times| !times.is_empty()) {
        let bounds = (*times.iter().min().unwrap(), *times.iter().max().unwrap());
        assert_eq!(part.summary().times, Some(bounds));
        check_seek(&part, times, &mut random);
    }
    let arrived = arrival(&batches);
    for (column, cells) in arrived.iter().enumerate() {
        let name = &schema.columns()[column].name;
        let array = part.read(column, 0..shape.rows).unwrap();
        assert_eq!(*array.data_type(), schema.columns()[column].column_type.stored_type());
        for (row, &from) in order.iter().enumerate() {
            assert_eq!(cell(&array, row), cells[from], "{name} row {row}");
        }
        let from = random.below(shape.rows as u64 + 1) as usize;
        let to = from + random.below((shape.rows - from) as u64 + 1) as usize;
        let some = part.read(column, from..to).unwrap();
        assert_eq!(some.len(), to - from);
        for row in from..to {
            assert_eq!(cell(&some, row - from), cell(&array, row), "{name} row {row} of {from}..{to}");
        }
        check_ranges(&part, column, &array, &mut random);
        check_take(&part, column, &array, &mut random);
        check_stats(&part, column, &mut random);
    }
}

/// Ranges far apart, touching and empty, of a few rows and of many: what [`Part::read`] gives for each.
fn check_ranges(part: &Part, column: usize, all: &ArrayRef, random: &mut Random) {
    let longest = [3, 40, 2_000][random.below(3) as usize];
    let (mut ranges, mut row) = (Vec::new(), 0);
    while ranges.len() < 200 {
        let start = row + random.below(longest) as usize * random.below(2) as usize;
        row = start + random.below(longest) as usize;
        if row > all.len() {
            break;
        }
        ranges.push(start..row);
    }
    let read = part.read_ranges(column, &ranges).unwrap();
    let rows: Vec<usize> = ranges.iter().cloned().flatten().collect();
    assert_eq!(read.len(), rows.len());
    for (at, row) in rows.into_iter().enumerate() {
        assert_eq!(cell(&read, at), cell(all, row), "row {row} of {ranges:?}");
    }
    if let Some(array) = read.as_primitive_opt::<Float64Type>() {
        let mut values = vec![1.5; 7];
        let nulls = part.read_into::<Float64Type>(column, &ranges, &mut values).unwrap();
        assert_eq!(nulls.as_ref(), array.nulls());
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&values), bits(array.values()));
        assert!(part.read_into::<UInt64Type>(column, &ranges, &mut Vec::new()).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_table_is_read_back(
        seed: u64, rows in prop_oneof![0_usize..40, 900..1_200_usize, 0..5_000_usize], batches in 1_usize..4,
        symbols in prop_oneof![Just(1_u64), 2..6_u64, Just(70_000_u64)], timestamp: bool, shuffled: bool,
        series in 0_usize..3, nulls: bool,
        slice_rows in prop_oneof![Just(1_000_000_usize), 500..3_000_usize, 1..50_usize], threads in 1_usize..4,
    ) {
        let rows = if slice_rows < 50 { rows % 300 } else { rows };
        let shape = Shape { seed, rows, batches, symbols, timestamp, shuffled, series, nulls };
        check(&shape, slice_rows, threads);
    }
}

#[test]
fn rows_and_columns_out_of_range_are_errors() {
    let shape = Shape {
        seed: 1,
        rows: 10,
        batches: 1,
        symbols: 2,
        timestamp: true,
        shuffled: false,
        series: 1,
        nulls: false,
    };
    let schema = schema(&shape);
    let part = open(write(&schema, &batches(&shape, &schema), 100, 1), &schema).unwrap();
    assert!(part.read(0, 5..11).is_err());
    assert!(part.read(99, 0..1).is_err());
    assert_eq!(part.read_ranges(0, &[]).unwrap().len(), 0);
    assert_eq!(part.read_ranges(0, &[0..0, 2..5, 5..6, 10..10]).unwrap().len(), 4);
    assert!(part.read_ranges(0, &[2..5, 4..6]).is_err());
    assert!(part.read_ranges(0, &[2..5, 9..11]).is_err());
    assert_eq!(part.column_stats(99).rows, 0);
    assert!(part.series(9).is_empty());
    assert_eq!(part.seek(3..3, TimeRange::ALL).unwrap(), 3..3);
    assert_eq!(part.seek(20..30, TimeRange::ALL).unwrap(), 20..30);
    let bound = ColumnBound { column: 99, min: None, max: None };
    assert_eq!(part.prune(&bound, 0..10), vec![0..10]);
}

#[test]
fn no_arrays_empty_arrays_and_null_elements_differ() {
    let schema = TableSchema::builder("books").column("bids", ColumnType::Array(ElementType::Float64));
    let schema = Arc::new(schema.build().unwrap());
    let rows = || {
        let levels = |row: usize| match row % 4 {
            0 => None,
            1 => Some(Vec::new()),
            2 => Some(vec![Some(row as f64 / 4.0), None]),
            _ => Some(vec![None; row % 7]),
        };
        (0..3_000).map(levels)
    };
    let column = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>(rows()));
    // Twice, as two batches, the second one a slice: its elements do not begin at the first.
    let halves = [column.slice(0, 1_700), column.slice(1_700, 1_300)];
    let batches = halves.map(|half| RowBatch::new(Arc::clone(&schema), vec![Arc::new(half)]).unwrap());
    let part = open(write(&schema, &batches, 1_000_000, 1), &schema).unwrap();
    assert_eq!(part.read(0, 0..3_000).unwrap().as_list::<i32>(), &*column);
    let picked = [2_999, 0, 1, 2, 1_023, 1_024, 1_025, 1_026];
    let wanted: Vec<_> = rows().collect();
    let wanted = picked.map(|row| wanted[row].clone());
    let wanted = ListArray::from_iter_primitive::<Float64Type, _, _>(wanted);
    assert_eq!(part.take(0, &picked).unwrap().as_list::<i32>(), &wanted);
    assert_eq!(part.column_stats(0).nulls, 750);
}

#[test]
fn arrays_of_the_same_length_take_no_more_than_their_elements() {
    let levels = |row: i32| (0..10).map(move |level| Some(f64::from(row % 50 + level) / 100.0));
    let lists = ListArray::from_iter_primitive::<Float64Type, _, _>((0..20_480).map(|row| Some(levels(row))));
    let bytes_of = |values: ArrayRef, column_type: ColumnType| {
        let schema = Arc::new(TableSchema::builder("t").column("c", column_type).build().unwrap());
        let batch = RowBatch::new(Arc::clone(&schema), vec![values]).unwrap();
        let part = open(write_as(Density::Fast, &schema, &[batch], 1 << 20, 1), &schema).unwrap();
        part.column_bytes(0) - part.index_bytes(0)
    };
    let flat = bytes_of(Arc::clone(lists.values()), ColumnType::Float64);
    let nested = bytes_of(Arc::new(lists), ColumnType::Array(ElementType::Float64));
    assert!(nested < flat + flat / 50, "{nested} bytes, {flat} of the elements alone");
}

#[test]
fn a_failed_write_leaves_nothing() {
    #[derive(Debug)]
    struct NoRename(MemoryDisk);
    impl Disk for NoRename {
        fn read(&self, path: &Path) -> io::Result<FileBytes> {
            self.0.read(path)
        }
        fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
            self.0.create(path)
        }
        fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn remove(&self, path: &Path) -> io::Result<()> {
            self.0.remove(path)
        }
        fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
            self.0.list(dir)
        }
        fn sync_dir(&self, dir: &Path) -> io::Result<()> {
            self.0.sync_dir(dir)
        }
        fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
            self.0.truncate(path, len)
        }
    }
    let shape = Shape {
        seed: 1,
        rows: 10,
        batches: 1,
        symbols: 2,
        timestamp: true,
        shuffled: false,
        series: 1,
        nulls: false,
    };
    let schema = schema(&shape);
    let disk = NoRename(MemoryDisk::default());
    let options = PartOptions { slice_rows: 100, threads: 2, density: Density::Fast };
    let batches = batches(&shape, &schema);
    Part::write(&disk, Path::new("p"), &schema, POSITIONS, &batches, options).unwrap_err();
    assert!(disk.0.0.lock().unwrap().is_empty());
}
