//! The groups of the rows of a batch: as runs of rows of one group, or row by row where runs are short.

use datafusion::arrow::buffer::BooleanBuffer;
use std::ops::Range;

/// Below so many rows a run, runs cost more than they spare.
const RUN_ROWS_MIN: usize = 4;
/// Totals of one group that are kept side by side, since an addition to one waits for that before.
const LANES: usize = 4;
/// Rows for each group of a batch from which on that is worth while.
const LANE_ROWS_MIN: usize = 8;

/// Rows of a batch, from where the run before it ends, that are of one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) group: usize,
    pub(super) end: usize,
}

/// The groups of a batch's rows, filled anew for each batch.
#[derive(Debug, Default)]
pub(super) struct Placed {
    runs: Vec<Run>,
    each: Vec<u32>,
}

impl Placed {
    pub(super) fn clear(&mut self) {
        self.runs.clear();
        self.each.clear();
    }

    /// The rows up to `end`, from where the last ones ended, are of `group`.
    pub(super) fn push(&mut self, group: usize, end: usize) {
        match self.runs.last_mut() {
            Some(run) if run.group == group => run.end = end,
            _ => self.runs.push(Run { group, end }),
        }
    }

    /// Adds so many rows, whose groups are to be filled in one by one.
    pub(super) fn each(&mut self, rows: usize) -> &mut [u32] {
        let start = self.each.len();
        self.each.resize(start + rows, 0);
        &mut self.each[start..]
    }

    /// The runs pushed so far.
    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    pub(super) fn rows(&mut self) -> Rows<'_> {
        let Some(last) = self.runs.last() else { return Rows::Each(&self.each) };
        if last.end >= self.runs.len() * RUN_ROWS_MIN {
            return Rows::Runs(&self.runs);
        }
        for run in &self.runs {
            // A query that makes four billion groups has run out of memory long before.
            self.each.resize(run.end, u32::try_from(run.group).unwrap_or(u32::MAX));
        }
        Rows::Each(&self.each)
    }

    pub(super) fn size(&self) -> usize {
        self.runs.capacity() * size_of::<Run>() + self.each.capacity() * 4
    }
}

/// The groups of a batch's rows.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rows<'a> {
    Runs(&'a [Run]),
    /// The group of each row.
    Each(&'a [u32]),
}

impl Rows<'_> {
    /// Calls `reduce` with the group and the rows of each run; of a run in which not all rows count, with
    /// those pieces that do.
    #[inline]
    pub(super) fn runs(&self, counted: Option<&BooleanBuffer>, mut reduce: impl FnMut(usize, Range<usize>)) {
        let mut start = 0;
        let mut run = |group: usize, end: usize| {
            match counted {
                None => reduce(group, start..end),
                Some(counted) => {
                    for (from, to) in counted.slice(start, end - start).set_slices() {
                        reduce(group, start + from..start + to);
                    }
                }
            }
            start = end;
        };
        match self {
            Rows::Runs(runs) => runs.iter().for_each(|of| run(of.group, of.end)),
            Rows::Each(groups) => {
                let mut end = 0;
                for same in groups.chunk_by(|a, b| a == b) {
                    end += same.len();
                    run(same[0] as usize, end);
                }
            }
        }
    }

    /// Calls `add` with the group and the place of each row that counts, and says so with `true`, where rows
    /// are given one by one.
    #[inline]
    pub(super) fn each(&self, counted: Option<&BooleanBuffer>, mut add: impl FnMut(usize, usize)) -> bool {
        let Rows::Each(groups) = self else { return false };
        match counted {
            None => groups.iter().enumerate().for_each(|(row, group)| add(*group as usize, row)),
            Some(counted) => counted.set_indices().for_each(|row| add(groups[row] as usize, row)),
        }
        true
    }

    /// Adds up what `add` makes of the rows that count, by group, and says so with `true`, where rows are given one by
    /// one: `total` gets each group's totals, which may be several.
    #[inline]
    pub(super) fn totals<A: Copy + Default>(
        &self,
        counted: Option<&BooleanBuffer>,
        add: impl Fn(&mut A, usize),
        mut total: impl FnMut(usize, A),
    ) -> bool {
        let Rows::Each(groups) = self else { return false };
        let (least, most) = groups.iter().fold((u32::MAX, 0), |(a, b), group| (a.min(*group), b.max(*group)));
        let width = most.saturating_sub(least) as usize + 1;
        if counted.is_some() || width * LANE_ROWS_MIN > groups.len() {
            return self.each(counted, |group, row| {
                let mut one = A::default();
                add(&mut one, row);
                total(group, one);
            });
        }
        let mut lanes = vec![[A::default(); LANES]; width];
        let (steps, rest) = groups.as_chunks::<LANES>();
        for (step, groups) in steps.iter().enumerate() {
            for (lane, group) in groups.iter().enumerate() {
                add(&mut lanes[(group - least) as usize][lane], step * LANES + lane);
            }
        }
        for (lane, group) in rest.iter().enumerate() {
            add(&mut lanes[(group - least) as usize][lane], steps.len() * LANES + lane);
        }
        for (group, lanes) in lanes.into_iter().enumerate() {
            lanes.into_iter().for_each(|lane| total(least as usize + group, lane));
        }
        true
    }

    /// The group of each row.
    pub(super) fn expand(&self) -> Vec<usize> {
        match self {
            Rows::Runs(runs) => {
                let mut rows = Vec::with_capacity(runs.last().map_or(0, |run| run.end));
                runs.iter().for_each(|run| rows.resize(run.end, run.group));
                rows
            }
            Rows::Each(groups) => groups.iter().map(|group| *group as usize).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_rows_one_by_one() {
        for (rows, width) in [(0, 1), (1, 1), (7, 3), (64, 2), (67, 8), (1_003, 100), (1_003, 300)] {
            let groups: Vec<u32> = (0..rows).map(|row| 5 + row * row % 7_919 % width).collect();
            let some = BooleanBuffer::collect_bool(rows as usize, |row| row % 3 != 1);
            for counted in [None, Some(&some)] {
                let mut expected = vec![(0, 0); 305];
                for (row, group) in groups.iter().enumerate() {
                    if counted.is_none_or(|counted| counted.value(row)) {
                        expected[*group as usize].0 += row;
                        expected[*group as usize].1 += 1;
                    }
                }
                let mut found = vec![(0, 0); 305];
                let add = |total: &mut (usize, usize), row: usize| *total = (total.0 + row, total.1 + 1);
                let one_by_one = Rows::Each(&groups).totals(counted, add, |group, (sum, count)| {
                    found[group].0 += sum;
                    found[group].1 += count;
                });
                assert!(one_by_one);
                assert_eq!(found, expected, "{rows} rows, {width} groups, {counted:?}");
            }
        }
        assert!(!Rows::Runs(&[]).totals(None, |_: &mut usize, _| {}, |_, _| {}));
    }
}
