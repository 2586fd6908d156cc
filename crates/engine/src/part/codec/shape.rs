//! What a block is made of, and how the blocks of a stretch are coded together.
//!
//! A block's values become [`Piece`]s: bytes as they stand, and words that are still to be coded. Blocks of a
//! [`Segment`] share tables of bins for words of one [`Role`]; which table, and whether differences are coded, is
//! found by all of the segment's words.

use super::bins::{BinTable, Frame, Proposal};
use super::ints::IntPlan;
use super::kind;
use super::lane::Lane;
use super::value::{Plan, Value};
use super::words::{self, Coding, coded};
use crate::part::layout::pad;
use crate::part::{BLOCK_ROWS, Density};

/// Blocks that share tables.
pub(in crate::part) const SEGMENT_BLOCKS: usize = 64;

/// What words say: those of one role are alike in neighbouring blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::part) enum Role {
    /// Values, or the values of runs.
    Values,
    /// Lengths of runs, less one.
    Lengths,
    /// Numbers in a dictionary.
    Numbers,
}

const ROLES: [Role; 3] = [Role::Values, Role::Lengths, Role::Numbers];

/// A piece of a block.
#[derive(Debug, Clone)]
pub(in crate::part) enum Piece {
    Bytes(Vec<u8>),
    Narrow(Role, Vec<u32>, IntPlan),
    Wide(Role, Vec<u64>, IntPlan),
}

/// Words that never are differences of use.
pub(in crate::part) const UNRELATED: IntPlan = IntPlan { scale: 1, delta_percent: 0, related: false };

/// Up to this part of the values runs are worth it where the chunk has long ones.
const MOST_RUNS: (usize, usize) = (3, 4);
/// Runs of this length on average are surely smaller, whatever the chunk has.
const SURE_RUN: usize = 16;
/// Runs up to this length on average are marked by a bit a row: lengths would be no smaller, and slower.
const MARKED_RUN: usize = 4;
/// Below this many values a dictionary is not tried.
const MIN_DICTIONARY_VALUES: usize = 32;

/// The pieces of a block of `values` (1 to 1,024).
pub(in crate::part) fn pieces<V: Value>(values: &[V], plan: Plan) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(4);
    let runs = 1 + values.windows(2).filter(|pair| !pair[0].same(pair[1])).count();
    let worth = plan.runs && runs * MOST_RUNS.1 <= values.len() * MOST_RUNS.0;
    if runs > 1 && (worth || runs * SURE_RUN < values.len()) {
        push_runs(values, runs, plan, &mut pieces);
    } else {
        push_flat(values, plan, &mut pieces);
    }
    pieces
}

fn push_runs<V: Value>(values: &[V], runs: usize, plan: Plan, pieces: &mut Vec<Piece>) {
    let (mut heads, mut lengths) = (Vec::with_capacity(runs), Vec::with_capacity(runs));
    for run in values.chunk_by(|a, b| a.same(*b)) {
        heads.push(run[0]);
        lengths.push(run.len() as u32 - 1);
    }
    let [low, high] = u16::try_from(runs).expect("at most 1,024 runs").to_le_bytes();
    if runs * MARKED_RUN > values.len() {
        let mut marked = vec![kind::RUN_MARKS, low, high];
        let first = marked.len();
        marked.resize(first + values.len().div_ceil(8), 0);
        let mut start = 0;
        for length in lengths {
            marked[first + start / 8] |= 1 << (start % 8);
            start += length as usize + 1;
        }
        pieces.push(Piece::Bytes(marked));
    } else {
        pieces.push(Piece::Bytes(vec![kind::RUN_LENGTHS, low, high]));
        pieces.push(Piece::Narrow(Role::Lengths, lengths, UNRELATED));
    }
    push_flat(&heads, plan, pieces);
}

fn push_flat<V: Value>(values: &[V], plan: Plan, pieces: &mut Vec<Piece>) {
    if plan.dictionary && values.len() >= MIN_DICTIONARY_VALUES && push_dictionary(values, plan, pieces) {
        return;
    }
    V::push(values, plan, pieces);
}

/// Distinct values in the order of their bits, then the place of each value among them; nothing where most
/// values are distinct.
fn push_dictionary<V: Value>(values: &[V], plan: Plan, pieces: &mut Vec<Piece>) -> bool {
    let mut distinct: Vec<(u64, V)> = values.iter().map(|&value| (value.key(), value)).collect();
    distinct.sort_unstable_by_key(|(key, _)| *key);
    distinct.dedup_by_key(|(key, _)| *key);
    if V::BYTES > 8 || distinct.len() * 4 > values.len() * 3 || distinct.len() < 2 {
        return false;
    }
    let place = |value: &V| distinct.partition_point(|(key, _)| *key < value.key()) as u32;
    let numbers: Vec<u32> = values.iter().map(place).collect();
    let [low, high] = u16::try_from(distinct.len()).expect("at most 1,024 values").to_le_bytes();
    pieces.push(Piece::Bytes(vec![kind::NUMBERED, low, high]));
    pieces.push(Piece::Narrow(Role::Numbers, numbers, UNRELATED));
    let distinct: Vec<V> = distinct.into_iter().map(|(_, value)| value).collect();
    V::push(&distinct, plan, pieces);
    true
}

/// Codes the blocks of a chunk, segment by segment.
#[derive(Debug)]
pub(in crate::part) struct Coder {
    density: Density,
    /// The tables of the chunk.
    pub(in crate::part) tables: Vec<u8>,
    /// The table used last, by role.
    last: [Option<Coding>; ROLES.len()],
}

impl Coder {
    /// For a chunk of a part of this density.
    pub(in crate::part) fn new(density: Density) -> Self {
        Self { density, tables: Vec::new(), last: [None, None, None] }
    }

    /// That of the part.
    pub(in crate::part) fn density(&self) -> Density {
        self.density
    }

    /// The bodies of a segment's blocks.
    pub(in crate::part) fn encode(&mut self, blocks: &[Vec<Piece>]) -> Vec<Vec<u8>> {
        let kept = self.tables.len();
        let mut codings = [None, None, None];
        for (coding, role) in codings.iter_mut().zip(ROLES) {
            *coding = self.coding(blocks, role);
        }
        loop {
            self.tables.truncate(kept);
            let mut costs = [0; ROLES.len()];
            for (coding, cost) in codings.iter_mut().zip(&mut costs) {
                let Some((coding, is_new)) = coding else { continue };
                if *is_new {
                    coding.at = self.tables.len();
                    coding.table.write(&mut self.tables);
                    *cost = self.tables.len() - coding.at;
                }
            }
            let (bodies, saved) = encode_all(blocks, &codings);
            let mut is_sound = true;
            for ((coding, saved), cost) in codings.iter_mut().zip(saved).zip(costs) {
                if coding.is_some() && saved <= cost {
                    *coding = None;
                    is_sound = false;
                }
            }
            if is_sound {
                for (last, coding) in self.last.iter_mut().zip(codings) {
                    *last = coding.map(|(coding, _)| coding).or(last.take());
                }
                return bodies;
            }
        }
    }

    /// The coding for the words of one role, and whether its table is new.
    fn coding(&mut self, blocks: &[Vec<Piece>], role: Role) -> Option<(Coding, bool)> {
        if self.density == Density::Fast {
            return None;
        }
        let mut narrow: Vec<(&[u32], IntPlan)> = Vec::new();
        let mut wide: Vec<(&[u64], IntPlan)> = Vec::new();
        for piece in blocks.iter().flatten() {
            match piece {
                Piece::Narrow(of, words, plan) if *of == role => narrow.push((words, *plan)),
                Piece::Wide(of, words, plan) if *of == role => wide.push((words, *plan)),
                _ => {}
            }
        }
        let slot = &mut self.last[ROLES.iter().position(|of| *of == role)?];
        if narrow.is_empty() { coding_of(&wide, slot) } else { coding_of(&narrow, slot) }
    }
}

/// The words of blocks as they are coded, one after the other. Blocks of one value repeated are not coded.
fn all_coded<L: Lane>(blocks: &[(&[L], IntPlan)], delta: bool) -> Vec<u64> {
    let mut all = Vec::with_capacity(blocks.iter().map(|(words, _)| words.len()).sum());
    for (words, _) in blocks {
        if words.windows(2).any(|pair| pair[0] != pair[1]) {
            all.extend(coded(words, delta));
        }
    }
    all
}

/// A way to code words: its cost, whether differences are coded, the words coded, and the bins proposed in a frame.
type Candidate = (f64, bool, Vec<u64>, Frame, Option<Proposal>);

fn coding_of<L: Lane>(blocks: &[(&[L], IntPlan)], last: &mut Option<Coding>) -> Option<(Coding, bool)> {
    let scale = blocks.first()?.1.scale.max(1);
    let mut best: Option<Candidate> = None;
    for delta in [false, true] {
        if delta && !blocks.iter().any(|(_, plan)| plan.related) {
            break;
        }
        let words = all_coded(blocks, delta);
        let Some(frame) = Frame::of(words.iter().copied(), scale) else { continue };
        // Differences decode more slowly.
        let proposal = Proposal::of(words.iter().copied(), &frame);
        let cost = proposal.as_ref().map_or(f64::INFINITY, |proposal| proposal.cost);
        let cost = cost * if delta { 1.02 } else { 1.0 };
        if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
            best = Some((cost, delta, words, frame, proposal));
        }
    }
    let (_, delta, words, frame, proposal) = best?;
    let own = proposal.and_then(|proposal| BinTable::of(words.iter().copied(), &frame, &proposal));
    let own = own.or_else(|| {
        let frame = Frame::of(words.iter().copied(), 1)?;
        let proposal = Proposal::of(words.iter().copied(), &frame)?;
        BinTable::of(words.iter().copied(), &frame, &proposal)
    });
    let own = own.map(|table| {
        let mut bytes = Vec::new();
        table.write(&mut bytes);
        (table.bits / 8 + bytes.len(), table)
    });
    let before = last.as_ref().filter(|last| last.delta == delta);
    let reused = before.and_then(|last| last.table.bits_by_sample(words.iter().copied()));
    let reused = reused.map(|bits| (bits * words.len() as f64 / 8.0) as usize);
    match (own, reused) {
        (Some((cost, _)), Some(reused)) if reused <= cost => last.take().map(|last| (last, false)),
        (None, Some(_)) => last.take().map(|last| (last, false)),
        (Some((_, table)), _) => Some((Coding { table, delta, at: 0 }, true)),
        (None, None) => None,
    }
}

type Codings = [Option<(Coding, bool)>; ROLES.len()];

/// The bodies of all blocks, and how many bytes the tables saved, by role.
fn encode_all(blocks: &[Vec<Piece>], codings: &Codings) -> (Vec<Vec<u8>>, [usize; ROLES.len()]) {
    let mut saved = [0; ROLES.len()];
    let coding = |role: Role| {
        let place = ROLES.iter().position(|of| *of == role).unwrap_or(0);
        (place, codings[place].as_ref().map(|(coding, _)| coding))
    };
    let mut body_of = |pieces: &Vec<Piece>| {
        let mut out = Vec::with_capacity(BLOCK_ROWS);
        for piece in pieces {
            match piece {
                Piece::Bytes(bytes) => out.extend_from_slice(bytes),
                Piece::Narrow(role, words, plan) => {
                    let (place, coding) = coding(*role);
                    saved[place] += words::encode(words, *plan, coding, &mut out);
                }
                Piece::Wide(role, words, plan) => {
                    let (place, coding) = coding(*role);
                    saved[place] += words::encode(words, *plan, coding, &mut out);
                }
            }
        }
        out
    };
    let bodies = blocks.iter().map(&mut body_of).collect();
    (bodies, saved)
}

/// Chooses between runs and dictionaries by what they make of a sample of a chunk of `rows` rows.
pub(super) fn choose<V: Value>(stretches: &[Vec<V>], rows: usize, plan: Plan, density: Density) -> Plan {
    let sampled: usize = stretches.iter().map(Vec::len).sum();
    let size = |plan: Plan| {
        let blocks: Vec<Vec<Piece>> =
            stretches.iter().filter(|s| !s.is_empty()).map(|stretch| pieces(stretch, plan)).collect();
        let mut coder = Coder::new(density);
        let bodies: usize = coder.encode(&blocks).iter().map(Vec::len).sum();
        let shared = rows.clamp(1, SEGMENT_BLOCKS * BLOCK_ROWS);
        bodies + coder.tables.len() * sampled.min(shared) / shared
    };
    let (mut best, mut least) = (plan, size(plan));
    for (runs, dictionary) in [(true, false), (false, true), (true, true)] {
        // Numbers of a dictionary are one more look-up a value.
        if dictionary && !plan.recurs {
            continue;
        }
        let tried = Plan { runs, dictionary, ..plan };
        let bytes = size(tried);
        // Runs and dictionaries decode more slowly than packed words: in fast parts they must save a quarter.
        let share = if density == Density::Fast { 24 } else { 31 };
        if bytes < least * share / 32 {
            (best, least) = (tried, bytes);
        }
    }
    Plan { sample_bytes: least, ..best }
}

/// Appends the raw body of `values`.
pub(super) fn raw<V: Value>(values: &[V]) -> Vec<u8> {
    let mut out = vec![kind::RAW, 0, 0, 0, 0, 0, 0, 0];
    for value in values {
        value.write_raw(&mut out);
    }
    pad(&mut out);
    out
}
