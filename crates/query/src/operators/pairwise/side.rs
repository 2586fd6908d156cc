//! The rows of one side, by group.

use super::node::{Measure, PairMeasure};
use crate::operators::key::{KeyIds, KeyReader};
use crate::operators::sample::kernel::{Joint, Spread};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use datafusion::arrow::compute::{concat, take};
use datafusion::arrow::datatypes::{Float64Type, Schema};
use datafusion::common::HashMap;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use std::ops::Range;
use std::sync::Arc;

/// What is read of a side's rows.
#[derive(Debug, Clone)]
pub(crate) struct SideExprs {
    pub(crate) on: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) groups: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) values: Vec<Arc<dyn PhysicalExpr>>,
}

impl SideExprs {
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.on.iter().chain(&self.groups).chain(&self.values)
    }
}

/// Rows on their way into a side.
pub(super) struct Reading {
    exprs: SideExprs,
    on_reader: KeyReader,
    groups: KeyIds,
    groups_reader: KeyReader,
    /// For each group its keys, in batches of those that were first met together.
    keys: Vec<Vec<ArrayRef>>,
    /// Group and key of the join of each row.
    rows: Vec<(u32, u32)>,
    values: Vec<Vec<Option<f64>>>,
    reservation: MemoryReservation,
}

impl Reading {
    pub(super) fn try_new(exprs: &SideExprs, input: &Schema, reservation: MemoryReservation) -> Result<Self> {
        Ok(Self {
            on_reader: KeyReader::new(exprs.on.len()),
            groups: KeyIds::of(&exprs.groups, input)?,
            groups_reader: KeyReader::new(exprs.groups.len()),
            keys: Vec::new(),
            rows: Vec::new(),
            values: vec![Vec::new(); exprs.values.len()],
            exprs: exprs.clone(),
            reservation,
        })
    }

    /// Takes in a batch; `on` gives the keys of the join the same ids on both sides.
    pub(super) fn read(&mut self, batch: &RecordBatch, on: &mut KeyIds) -> Result<()> {
        crate::wanted::look()?;
        let count = batch.num_rows();
        let evaluated = |exprs: &[Arc<dyn PhysicalExpr>]| {
            exprs.iter().map(|expr| expr.evaluate(batch)?.into_array(count)).collect::<Result<Vec<_>>>()
        };
        let (mut of_join, mut groups) = (Vec::with_capacity(count), Vec::with_capacity(count));
        on.read(&evaluated(&self.exprs.on)?, count, &mut self.on_reader, &mut of_join)?;
        let keys = evaluated(&self.exprs.groups)?;
        let known = self.groups.len();
        self.groups.read(&keys, count, &mut self.groups_reader, &mut groups)?;
        let mut first_met: Vec<u32> = Vec::with_capacity(self.groups.len() - known);
        for (row, group) in (0..).zip(&groups) {
            if *group as usize == known + first_met.len() {
                first_met.push(row);
            }
        }
        if !first_met.is_empty() {
            let rows = UInt32Array::from(first_met);
            self.keys.push(keys.iter().map(|key| Ok(take(key, &rows, None)?)).collect::<Result<_>>()?);
        }
        // A key that holds a NULL meets none.
        let joins: Vec<bool> = of_join.iter().map(|id| !on.is_null(*id)).collect();
        let kept = |row: &usize| joins[*row];
        self.rows.extend((0..count).filter(kept).map(|row| (groups[row], of_join[row])));
        for (values, array) in self.values.iter_mut().zip(evaluated(&self.exprs.values)?) {
            let array = array.as_primitive::<Float64Type>();
            let value = |row: usize| array.is_valid(row).then(|| array.value(row));
            values.extend((0..count).filter(kept).map(value));
        }
        let row_bytes = size_of::<(u32, u32)>() + self.values.len() * size_of::<Option<f64>>();
        // The lists that are made of them take as much again.
        self.reservation.try_resize(2 * self.rows.capacity() * row_bytes + self.groups.size())
    }

    pub(super) fn finish(self) -> Result<Side> {
        let count = self.groups.len();
        let mut order: Vec<u32> = (0..self.rows.len() as u32).collect();
        order.sort_unstable_by_key(|row| self.rows[*row as usize]);
        let all = List::of(count, order.iter().map(|row| (self.rows[*row as usize], 0.0)));
        let lists = self.values.iter().map(|values| {
            let there =
                order.iter().filter_map(|row| Some((self.rows[*row as usize], values[*row as usize]?)));
            List::of(count, there).with_spreads()
        });
        let lists = lists.collect();
        let keys = (0..self.exprs.groups.len()).map(|at| {
            let parts: Vec<&dyn Array> = self.keys.iter().map(|keys| keys[at].as_ref()).collect();
            Ok(concat(&parts)?)
        });
        let keys = if self.keys.is_empty() { Vec::new() } else { keys.collect::<Result<_>>()? };
        Ok(Side { keys, all, lists, _reservation: self.reservation })
    }
}

/// The rows of a side by group, in each in order of the keys of the join.
pub(super) struct Side {
    /// Of each group.
    pub(super) keys: Vec<ArrayRef>,
    /// All rows, their values left out.
    all: List,
    /// For each value the rows that have one.
    lists: Vec<List>,
    _reservation: MemoryReservation,
}

impl Side {
    pub(super) fn groups(&self) -> usize {
        self.all.ends.len()
    }

    pub(super) fn rows(&self) -> usize {
        self.all.on.len()
    }

    /// The keys of the join of all rows.
    pub(super) fn join_keys(&self) -> impl Iterator<Item = u32> {
        self.all.on.iter().copied()
    }
}

/// Rows by group, of which each has a key of the join and a value.
struct List {
    /// Where each group ends.
    ends: Vec<usize>,
    on: Vec<u32>,
    values: Vec<f64>,
    /// Whether no two rows of a group have the same key.
    unique: Vec<bool>,
    /// Of each group's values, where they were asked for.
    spreads: Vec<Spread>,
}

/// The rows of one group.
#[derive(Clone, Copy)]
struct Rows<'a> {
    on: &'a [u32],
    values: &'a [f64],
    unique: bool,
}

impl List {
    /// Of rows in order of group and key.
    fn of(groups: usize, rows: impl Iterator<Item = ((u32, u32), f64)>) -> Self {
        let (mut ends, mut on, mut values) = (vec![0; groups], Vec::new(), Vec::new());
        let mut unique = vec![true; groups];
        let mut last = None;
        for ((group, key), value) in rows {
            if last == Some((group, key)) {
                unique[group as usize] = false;
            }
            last = Some((group, key));
            on.push(key);
            values.push(value);
            ends[group as usize] = on.len();
        }
        // A group without rows ends where the one before it does.
        let mut end = 0;
        for of_group in &mut ends {
            end = end.max(*of_group);
            *of_group = end;
        }
        Self { ends, on, values, unique, spreads: Vec::new() }
    }

    fn with_spreads(mut self) -> Self {
        let spreads = (0..self.ends.len()).map(|group| Spread::of(&self.values[self.rows(group)]));
        self.spreads = spreads.collect();
        self
    }

    fn rows(&self, group: usize) -> Range<usize> {
        let start = if group == 0 { 0 } else { self.ends[group - 1] };
        start..self.ends[group]
    }

    fn of_group(&self, group: usize) -> Rows<'_> {
        let rows = self.rows(group);
        Rows { on: &self.on[rows.clone()], values: &self.values[rows], unique: self.unique[group] }
    }
}

impl Rows<'_> {
    /// Whether rows meet one by one, as they lie.
    fn is_aligned(self, other: Self) -> bool {
        self.unique && other.unique && self.on == other.on
    }

    /// Calls `meet` with stretches of rows of both that have the same key.
    fn meet(self, other: Self, mut meet: impl FnMut(Range<usize>, Range<usize>)) {
        let (mut a, mut b) = (0, 0);
        while a < self.on.len() && b < other.on.len() {
            let (here, there) = (self.on[a], other.on[b]);
            if here == there {
                let same =
                    |on: &[u32], from: usize| from + on[from..].iter().take_while(|on| **on == here).count();
                let ends = (same(self.on, a), same(other.on, b));
                meet(a..ends.0, b..ends.1);
                (a, b) = ends;
            } else {
                a += usize::from(here < there);
                b += usize::from(there < here);
            }
        }
    }

    fn count(self, other: Self) -> usize {
        if self.is_aligned(other) {
            return self.on.len();
        }
        let mut count = 0;
        self.meet(other, |a, b| count += a.len() * b.len());
        count
    }
}

/// What both sides' groups make, pair by pair.
pub(super) struct Pairs<'a> {
    sides: [&'a Side; 2],
    measures: &'a [PairMeasure],
    scratch: [Vec<f64>; 2],
}

impl<'a> Pairs<'a> {
    pub(super) fn new(sides: [&'a Side; 2], measures: &'a [PairMeasure]) -> Self {
        Self { sides, measures, scratch: Default::default() }
    }

    /// The measures of a pair, NULL or not, into `out`; `false` where its groups do not meet.
    pub(super) fn measure(&mut self, groups: [usize; 2], out: &mut [Found]) -> bool {
        let mut rows = None;
        let mut count = |known: bool| match known {
            true => 1,
            false => *rows.get_or_insert_with(|| {
                let [left, right] = [0, 1].map(|side| self.sides[side].all.of_group(groups[side]));
                left.count(right)
            }),
        };
        let mut met = false;
        let mut joints: Vec<([usize; 2], Joint)> = Vec::with_capacity(self.measures.len());
        for (measure, found) in self.measures.iter().zip(out.iter_mut()) {
            if measure.of == Measure::Count {
                continue;
            }
            let known = joints.iter().find(|(values, _)| *values == measure.values).map(|(_, joint)| *joint);
            let joint = known.unwrap_or_else(|| {
                let lists = [0, 1].map(|side| &self.sides[side].lists[measure.values[side]]);
                let joint = joint(lists, groups, &mut self.scratch);
                joints.push((measure.values, joint));
                joint
            });
            met |= joint.rows() > 0.0;
            *found = Found::Value(measured(measure.of, joint));
        }
        let counts = self.measures.iter().any(|measure| measure.of == Measure::Count);
        if count(met && !counts) == 0 {
            return false;
        }
        for (measure, found) in self.measures.iter().zip(out) {
            if measure.of == Measure::Count {
                *found = Found::Count(count(false) as i64);
            }
        }
        true
    }
}

/// A measure of one pair.
#[derive(Debug, Clone, Copy)]
pub(super) enum Found {
    Value(Option<f64>),
    Count(i64),
}

fn measured(of: Measure, joint: Joint) -> Option<f64> {
    match of {
        Measure::Correlation => joint.correlation(),
        Measure::Covariance { sample } => joint.covariance(sample),
        Measure::Count => None,
    }
}

fn joint([left, right]: [&List; 2], groups: [usize; 2], scratch: &mut [Vec<f64>; 2]) -> Joint {
    let (a, b) = (left.of_group(groups[0]), right.of_group(groups[1]));
    if a.on.is_empty() {
        return Joint::default();
    }
    if a.is_aligned(b) {
        let spreads = (left.spreads[groups[0]], right.spreads[groups[1]]);
        return Joint::of((a.values, spreads.0), (b.values, spreads.1));
    }
    let [ys, xs] = scratch;
    ys.clear();
    xs.clear();
    a.meet(b, |of_a, of_b| {
        for value in &a.values[of_a] {
            ys.resize(ys.len() + of_b.len(), *value);
            xs.extend_from_slice(&b.values[of_b.clone()]);
        }
    });
    match ys.is_empty() {
        true => Joint::default(),
        false => Joint::of((ys, Spread::of(ys)), (xs, Spread::of(xs))),
    }
}

/// A key of the join, the group of a row that has it, and its value.
type Keyed = (u32, u32, f64);

impl List {
    /// The rows in order of the keys of the join.
    fn by_key(&self) -> Vec<Keyed> {
        let of_group = |group: usize| {
            let Rows { on, values, .. } = self.of_group(group);
            on.iter().zip(values).map(move |(on, value)| (*on, group as u32, *value))
        };
        let mut rows: Vec<Keyed> = (0..self.ends.len()).flat_map(of_group).collect();
        rows.sort_unstable_by_key(|(on, group, _)| (*on, *group));
        rows
    }
}

/// Calls `visit` with each two rows of the same key.
fn each_meeting(a: &[Keyed], b: &[Keyed], mut visit: impl FnMut(&Keyed, &Keyed) -> Result<()>) -> Result<()> {
    let (a, b) = (a.chunk_by(|a, b| a.0 == b.0), b.chunk_by(|a, b| a.0 == b.0));
    let mut b = b.peekable();
    for a in a {
        while b.next_if(|b| b[0].0 < a[0].0).is_some() {}
        let Some(b) = b.next_if(|b| b[0].0 == a[0].0) else { continue };
        crate::wanted::look()?;
        for left in a {
            for right in b {
                visit(left, right)?;
            }
        }
    }
    Ok(())
}

/// The measures of the pairs of rows that meet, found row by row: for many groups of which few meet. `reserve` is told
/// how many pairs there are.
pub(super) fn meet(
    [left, right]: [&Side; 2],
    measures: &[PairMeasure],
    reserve: &dyn Fn(usize) -> Result<()>,
    mut pair: impl FnMut([u32; 2], &[Found]),
) -> Result<()> {
    let mut numbers = HashMap::<[u32; 2], usize>::new();
    let mut counts: Vec<i64> = Vec::new();
    each_meeting(&left.all.by_key(), &right.all.by_key(), |a, b| {
        let next = counts.len();
        let number = *numbers.entry([a.1, b.1]).or_insert(next);
        if number == next {
            counts.push(0);
            if next.is_power_of_two() {
                reserve(2 * next)?;
            }
        }
        counts[number] += 1;
        Ok(())
    })?;
    let mut joints: Vec<Vec<Joint>> = Vec::with_capacity(measures.len());
    for measure in measures {
        let mut of_pairs = Vec::new();
        if measure.of != Measure::Count {
            of_pairs.resize(counts.len(), Joint::default());
            let [ys, xs] = [(left, 0), (right, 1)].map(|(side, at)| side.lists[measure.values[at]].by_key());
            each_meeting(&ys, &xs, |a, b| {
                if let Some(number) = numbers.get(&[a.1, b.1]) {
                    of_pairs[*number].join(Joint::one(a.2, b.2));
                }
                Ok(())
            })?;
        }
        joints.push(of_pairs);
    }
    let mut found = Vec::with_capacity(measures.len());
    for (groups, number) in numbers {
        found.clear();
        found.extend(measures.iter().zip(&joints).map(|(measure, joints)| match joints.get(number) {
            Some(joint) => Found::Value(measured(measure.of, *joint)),
            None => Found::Count(counts[number]),
        }));
        pair(groups, &found);
    }
    Ok(())
}
