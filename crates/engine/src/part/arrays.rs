//! Arrays in blocks: the lengths of up to 1,024 rows, then their elements in blocks of their own type.
//!
//! Invariants:
//! - the elements of a block of rows stand in that block alone: it decodes without any other;
//! - a NULL has no elements.

use super::block::{EncodedBlock, Rows, blocks, unranged_stats};
use super::codec::lane::Same;
use super::codec::shape::{Coder, SEGMENT_BLOCKS, UNRELATED};
use super::codec::slots::{first, scratch};
use super::codec::varint::{put_varint, take_byte, take_bytes, take_varint};
use super::codec::{Damage, Decoded, kind, words};
use super::gather::{Gathered, Lists};
use super::page::Block;
use super::read::{Blocks, Validity, Wanted, count};
use super::{BLOCK_ROWS, Part};
use crate::{EngineError, Result};
use arrow_array::{ArrayRef, ListArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::ArrowError;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use tickstone_model::ElementType;

/// Elements that are encoded together, at least.
const SEGMENT_ELEMENTS: usize = SEGMENT_BLOCKS * BLOCK_ROWS;

/// Arrays to be encoded.
pub(super) struct Elements<'r, 'a, T: Clone> {
    pub(super) lists: &'r Lists,
    /// Rows in the part's order, `None` where they came in it.
    pub(super) permutation: Option<&'r [u32]>,
    /// By arrival.
    pub(super) values: &'r Gathered<'a, T>,
}

impl<'a, T: Copy> Elements<'_, 'a, T> {
    /// Encodes the blocks of a slice, some at a time; `encode` makes blocks of elements.
    pub(super) fn encode(
        &self,
        rows: &[Range<usize>],
        coder: &mut Coder,
        encode: impl for<'r> Fn(&Rows<'r, 'a, T>, &[Range<usize>], &mut Coder) -> Vec<EncodedBlock>,
        mut add: impl FnMut(Vec<EncodedBlock>),
    ) {
        let mut rest = rows;
        while !rest.is_empty() {
            let mut bunch = Bunch::default();
            while let Some((block, after)) = rest.split_first()
                && bunch.values.len() < SEGMENT_ELEMENTS
            {
                self.copy(block.clone(), &mut bunch);
                rest = after;
            }
            let valid = self.values.valid.is_some().then_some(bunch.valid);
            let column = Gathered { values: Cow::Owned(bunch.values), valid };
            let elements = encode(&Rows { column: &column, permutation: None }, &bunch.blocks, coder);
            let mut elements = elements.iter();
            let blocks = bunch.rows.into_iter();
            add(blocks.map(|(lists, count)| encoded(lists, elements.by_ref().take(count))).collect());
        }
    }

    /// Adds the arrays of a block of rows.
    fn copy(&self, block: Range<usize>, bunch: &mut Bunch<T>) {
        let before = bunch.values.len();
        let mut lists = Lists { starts: Vec::new(), lengths: Vec::with_capacity(block.len()), valid: None };
        let mut valid = Vec::with_capacity(block.len());
        for row in block {
            let row = self.permutation.map_or(row, |order| order[row] as usize);
            let start = self.lists.starts[row];
            let elements = start..start + self.lists.lengths[row] as usize;
            lists.lengths.push(self.lists.lengths[row]);
            valid.push(self.lists.valid.as_ref().is_none_or(|valid| valid[row]));
            bunch.values.extend_from_slice(&self.values.values[elements.clone()]);
            if let Some(valid) = &self.values.valid {
                bunch.valid.extend_from_slice(&valid[elements]);
            }
        }
        lists.valid = valid.contains(&false).then_some(valid);
        let blocks_before = bunch.blocks.len();
        bunch.blocks.extend(blocks(&(before..bunch.values.len())));
        bunch.rows.push((lists, bunch.blocks.len() - blocks_before));
    }
}

/// Blocks of rows whose elements are encoded together.
struct Bunch<T> {
    values: Vec<T>,
    /// Of the elements; nothing where all are there.
    valid: Vec<bool>,
    /// Blocks of elements.
    blocks: Vec<Range<usize>>,
    /// Of each block of rows its arrays, and how many blocks their elements make.
    rows: Vec<(Lists, usize)>,
}

impl<T> Default for Bunch<T> {
    fn default() -> Self {
        Self { values: Vec::new(), valid: Vec::new(), blocks: Vec::new(), rows: Vec::new() }
    }
}

/// A block of arrays, whose elements are in these blocks.
fn encoded<'e>(lists: Lists, elements: impl Iterator<Item = &'e EncodedBlock>) -> EncodedBlock {
    let rows = lists.lengths.len();
    let mut body = vec![kind::ARRAYS];
    words::encode::<u32>(&lists.lengths, UNRELATED, None, &mut body);
    let mut bytes = Vec::new();
    for block in elements {
        bytes.clear();
        block.write(&mut bytes);
        put_varint(u64::from(block.stats.nulls), &mut body);
        put_varint(bytes.len() as u64, &mut body);
        body.extend_from_slice(&bytes);
    }
    let stats = unranged_stats(rows, lists.valid.as_deref());
    EncodedBlock { rows, stats, valid: lists.valid, body }
}

impl Part {
    /// The arrays of blocks of rows.
    pub(super) fn read_arrays<'a>(
        &'a self,
        element: ElementType,
        blocks: &impl Blocks<'a>,
    ) -> Result<ArrayRef> {
        let mut validity = Validity::new(blocks.rows());
        let mut lengths = Vec::with_capacity(blocks.rows());
        let mut elements = ElementBlocks::default();
        blocks.each(|block, wanted| {
            match validity.body(self, block, wanted)? {
                None => lengths.resize(lengths.len() + count(wanted), 0),
                Some(body) => elements
                    .add(body, block, wanted, &mut lengths)
                    .map_err(|damage| self.damaged(block.offset, damage.0))?,
            }
            Ok(())
        })?;
        if i32::try_from(elements.rows).is_err() {
            return Err(EngineError::Arrow(ArrowError::OffsetOverflowError(elements.rows)));
        }
        let values = self.read_blocks(element.into(), &elements)?;
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok(Arc::new(ListArray::try_new(element.field(), offsets, values, validity.finish())?))
    }
}

/// The blocks of elements that rows wanted have elements in.
#[derive(Default)]
struct ElementBlocks<'a> {
    /// Each with its stretch of `wanted`.
    blocks: Vec<(Block<'a>, Range<usize>)>,
    /// Stretches of elements, counted from the first one of their block.
    wanted: Vec<Range<usize>>,
    /// Elements in all of them.
    rows: usize,
}

impl<'a> ElementBlocks<'a> {
    /// Adds those of a block of rows, and the lengths of its arrays that are wanted.
    fn add(
        &mut self,
        mut body: &'a [u8],
        block: &Block<'a>,
        wanted: &[Range<usize>],
        lengths: &mut Vec<usize>,
    ) -> Decoded<()> {
        if take_byte(&mut body)? != kind::ARRAYS {
            return Err(Damage("an encoding this type does not have"));
        }
        let mut slots = scratch::<u32, BLOCK_ROWS>();
        let found: &[u32] = words::decode::<u32, _>(&mut body, &[], Same, first(&mut slots, block.rows)?)?;
        let mut ends = Vec::with_capacity(found.len() + 1);
        ends.push(0);
        ends.extend(found.iter().scan(0, |end, length| {
            *end += *length as usize;
            Some(*end)
        }));
        let ranges: Vec<Range<usize>> = wanted.iter().map(|rows| ends[rows.start]..ends[rows.end]).collect();
        for rows in wanted {
            lengths.extend(found[rows.clone()].iter().map(|&length| length as usize));
        }
        self.rows += count(&ranges);
        let all = ends[found.len()];
        let mut wanted = Wanted::new(&ranges);
        for elements in blocks(&(0..all)) {
            if wanted.next_row().is_none() {
                break;
            }
            let nulls = take_varint(&mut body)?;
            let nulls = u16::try_from(nulls).ok().filter(|nulls| usize::from(*nulls) <= elements.len());
            let nulls = nulls.ok_or(Damage("more NULLs than elements"))?;
            let bytes = usize::try_from(take_varint(&mut body)?).unwrap_or(usize::MAX);
            let bytes = take_bytes(&mut body, bytes)?;
            let rows = elements.len();
            let inside = wanted.take(elements);
            if !inside.is_empty() {
                let before = self.wanted.len();
                self.wanted.extend_from_slice(inside);
                let Block { tables, offset, place, .. } = *block;
                let block = Block { bytes, tables, offset, rows, nulls, place };
                self.blocks.push((block, before..self.wanted.len()));
            }
        }
        Ok(())
    }
}

impl<'a> Blocks<'a> for ElementBlocks<'a> {
    const BESIDE_TIMES: bool = false;

    fn rows(&self) -> usize {
        self.rows
    }

    fn each(&self, mut visit: impl FnMut(&Block<'a>, &[Range<usize>]) -> Result<()>) -> Result<()> {
        self.blocks.iter().try_for_each(|(block, wanted)| visit(block, &self.wanted[wanted.clone()]))
    }
}
