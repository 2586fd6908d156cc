//! The index of a chunk in format 2: where its blocks begin and what is known of them, packed field by field.
//!
//! Each field of all blocks is packed at the bits it needs above a base that the chunk shares, so that any record
//! is read by arithmetic. Ranges are stored by their distance from the first value, doubles that are decimals by
//! their integers. See docs/formats/part.md; `page` reads it, `block` writes it.

use super::codec::alp::{self, AlpPlan};
use super::codec::varint::{put_signed, put_varint, take_byte, take_signed, take_varint};
use super::layout::{TOTAL_BYTES, array_at, block_count, group_count, pad, u32_at};
use super::stats::{BlockStats, FIRST_NULL, HAS_RANGE, LAST_NULL, NO_RANGE, StatKind};
use std::ops::Range;

/// Offset, NULLs, flags, first, below first, above first, sum, last.
const FIELDS: usize = 8;
const OFFSET: usize = 0;
const NULLS: usize = 1;
const FLAGS: usize = 2;
const FIRST: usize = 3;
const BELOW: usize = 4;
const ABOVE: usize = 5;
const SUM: usize = 6;
const LAST: usize = 7;

/// How 64 bits of a value are stored.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Domain {
    /// As they are.
    Bits,
    /// As the integer of a decimal.
    Decimals(AlpPlan),
}

impl Domain {
    fn store(self, bits: u64) -> Option<u64> {
        match self {
            Domain::Bits => Some(bits),
            Domain::Decimals(plan) => plan.exact(f64::from_bits(bits)).map(i64::cast_unsigned),
        }
    }

    #[inline]
    fn restore(self, stored: u64) -> u64 {
        match self {
            Domain::Bits => stored,
            Domain::Decimals(plan) => plan.decimal(stored.cast_signed() as f64).to_bits(),
        }
    }

    /// The fields of a block's values; `None` where one of them is no decimal.
    fn fields(self, stats: &BlockStats) -> Option<[u64; FIELDS]> {
        let ranged = stats.has(HAS_RANGE);
        let (first_known, last_known) = (!stats.has(FIRST_NULL | NO_RANGE), !stats.has(LAST_NULL | NO_RANGE));
        let known = |known: bool, bits: u64, other: u64| if known { self.store(bits) } else { Some(other) };
        let stand_in = known(ranged, stats.min, 0)?;
        let first = known(first_known, stats.first, stand_in)?;
        let mut fields = [0; FIELDS];
        (fields[NULLS], fields[FLAGS], fields[SUM]) =
            (u64::from(stats.nulls), u64::from(stats.flags), stats.sum);
        fields[FIRST] = first;
        fields[BELOW] = first.wrapping_sub(known(ranged, stats.min, first)?);
        fields[ABOVE] = known(ranged, stats.max, first)?.wrapping_sub(first);
        fields[LAST] = known(last_known, stats.last, first)?.wrapping_sub(first);
        Some(fields)
    }
}

/// Appends the index of a chunk of `data_bytes` bytes; group checksums follow it.
pub(super) fn write(
    kind: StatKind,
    blocks: &[(usize, BlockStats)],
    data_bytes: usize,
    tables: &[u8],
    out: &mut Vec<u8>,
) {
    let all =
        |domain: Domain| blocks.iter().map(|(_, stats)| domain.fields(stats)).collect::<Option<Vec<_>>>();
    let decimals =
        Some(kind).filter(|kind| *kind == StatKind::Float).and_then(|_| alp::suit_all(&values_of(blocks)));
    let suiting = decimals.map(Domain::Decimals).and_then(|domain| Some((domain, all(domain)?)));
    let (domain, fields) = suiting
        .unwrap_or_else(|| (Domain::Bits, all(Domain::Bits).expect("any bits are stored as they are")));
    let stride = data_bytes / blocks.len().max(1);
    let size = u32::try_from(tables.len()).expect("tables are smaller than what they save");
    out.extend_from_slice(&size.to_le_bytes());
    let (e, f) = match domain {
        Domain::Bits => (u8::MAX, u8::MAX),
        Domain::Decimals(plan) => plan.powers(),
    };
    out.extend_from_slice(&[e, f, 0, 0]);
    let start = out.len();
    put_varint(stride as u64, out);
    let mut packed = Vec::new();
    // Field by field, not block by block: each is packed by itself.
    for field in [OFFSET, NULLS, FLAGS, FIRST, BELOW, ABOVE, SUM, LAST] {
        let value = |block: usize| match field {
            OFFSET => (blocks[block].0 as u64).wrapping_sub((block * stride) as u64),
            _ => fields[block][field],
        };
        let values = (0..blocks.len()).map(value);
        let base = values.clone().map(u64::cast_signed).min().unwrap_or(0).cast_unsigned();
        let above = values.map(|value| value.wrapping_sub(base));
        let width = above.clone().map(|value| 64 - value.leading_zeros()).max().unwrap_or(0);
        out.push(width as u8);
        put_signed(base.cast_signed(), out);
        pack(width, above, &mut packed);
    }
    out.resize(start + (out.len() - start).next_multiple_of(8), 0);
    out.extend_from_slice(&packed);
    out.extend_from_slice(tables);
    pad(out);
}

/// The doubles that statistics speak of.
fn values_of(blocks: &[(usize, BlockStats)]) -> Vec<f64> {
    let mut values = Vec::with_capacity(blocks.len() * 4);
    for (_, stats) in blocks {
        let mut keep = |known: bool, bits: [u64; 2]| {
            values.extend(bits.map(f64::from_bits).into_iter().filter(|_| known));
        };
        keep(stats.has(HAS_RANGE), [stats.min, stats.max]);
        keep(!stats.has(FIRST_NULL | NO_RANGE), [stats.first; 2]);
        keep(!stats.has(LAST_NULL | NO_RANGE), [stats.last; 2]);
    }
    values
}

/// Packs values one after the other, least significant bit first, in whole 64-bit words.
fn pack(width: u32, values: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
    let (mut pending, mut used) = (0_u128, 0);
    for value in values {
        pending |= u128::from(value) << used;
        used += width;
        if used >= 64 {
            out.extend_from_slice(&(pending as u64).to_le_bytes());
            pending >>= 64;
            used -= 64;
        }
    }
    if used > 0 {
        out.extend_from_slice(&(pending as u64).to_le_bytes());
    }
}

/// A field of all blocks.
#[derive(Debug, Clone, Copy, Default)]
struct Field {
    width: usize,
    base: u64,
    /// Where its words begin in the page.
    at: usize,
}

impl Field {
    #[inline]
    fn value(&self, page: &[u8], block: usize) -> u64 {
        let bit = block * self.width;
        let (at, shift) = (self.at + bit / 64 * 8, bit % 64);
        if self.width == 0 {
            return self.base;
        }
        let word = |at: usize| array_at(page, at).map_or(0, u64::from_le_bytes);
        let mut found = word(at) >> shift;
        if shift + self.width > 64 {
            found |= word(at + 8) << (64 - shift);
        }
        self.base.wrapping_add(found & (u64::MAX >> (64 - self.width)))
    }
}

/// The index of a chunk, in place.
#[derive(Debug, Clone)]
pub(super) struct PackedIndex {
    domain: Domain,
    stride: u64,
    fields: [Field; FIELDS],
    tables: Range<usize>,
}

impl PackedIndex {
    /// Reads what the page of a chunk of `rows` rows says of itself; `None` where its parts do not fill it.
    pub(super) fn read(page: &[u8], rows: usize) -> Option<Self> {
        let blocks = block_count(rows);
        let tables_bytes = u32_at(page, TOTAL_BYTES) as usize;
        let head = page.get(TOTAL_BYTES + 4..TOTAL_BYTES + 8)?;
        let domain = match (head[0], head[1]) {
            (u8::MAX, u8::MAX) => Domain::Bits,
            (e, f) => Domain::Decimals(AlpPlan::of_powers(e, f)?),
        };
        let mut rest = page.get(TOTAL_BYTES + 8..)?;
        let whole = rest.len();
        let stride = take_varint(&mut rest).ok()?;
        let mut fields = [Field::default(); FIELDS];
        for field in &mut fields {
            field.width = usize::from(take_byte(&mut rest).ok()?);
            field.base = take_signed(&mut rest).ok()?.cast_unsigned();
            if field.width > 64 {
                return None;
            }
        }
        let mut at = TOTAL_BYTES + 8 + (whole - rest.len()).next_multiple_of(8);
        for field in &mut fields {
            field.at = at;
            at = at.checked_add((field.width * blocks).div_ceil(64) * 8)?;
        }
        let tables = at..at.checked_add(tables_bytes)?;
        let end = tables.end.checked_next_multiple_of(8)?;
        let checksums = (group_count(rows) * 4).next_multiple_of(8);
        (end.checked_add(checksums)? == page.len()).then_some(Self { domain, stride, fields, tables })
    }

    /// Where the tables are in the page.
    pub(super) fn tables(&self) -> Range<usize> {
        self.tables.clone()
    }

    /// Where in the chunk a block begins.
    #[inline]
    pub(super) fn offset(&self, page: &[u8], block: usize) -> usize {
        let predicted = self.stride.wrapping_mul(block as u64);
        self.fields[OFFSET].value(page, block).wrapping_add(predicted) as usize
    }

    /// How many NULLs a block has.
    #[inline]
    pub(super) fn nulls(&self, page: &[u8], block: usize) -> u16 {
        self.fields[NULLS].value(page, block) as u16
    }

    /// The first value of a block.
    #[inline]
    pub(super) fn first(&self, page: &[u8], block: usize) -> u64 {
        self.domain.restore(self.fields[FIRST].value(page, block))
    }

    /// The last value of a block.
    #[inline]
    pub(super) fn last(&self, page: &[u8], block: usize) -> u64 {
        let first = self.fields[FIRST].value(page, block);
        self.domain.restore(first.wrapping_add(self.fields[LAST].value(page, block)))
    }

    /// What is known of a block.
    pub(super) fn stats(&self, page: &[u8], block: usize) -> BlockStats {
        let field = |field: usize| self.fields[field].value(page, block);
        let flags = field(FLAGS) as u16;
        let mut stats =
            BlockStats { nulls: self.nulls(page, block), flags, sum: field(SUM), ..BlockStats::default() };
        let first = field(FIRST);
        if stats.has(HAS_RANGE) {
            stats.min = self.domain.restore(first.wrapping_sub(field(BELOW)));
            stats.max = self.domain.restore(first.wrapping_add(field(ABOVE)));
        }
        if !stats.has(FIRST_NULL | NO_RANGE) {
            stats.first = self.domain.restore(first);
        }
        if !stats.has(LAST_NULL | NO_RANGE) {
            stats.last = self.domain.restore(first.wrapping_add(field(LAST)));
        }
        stats
    }
}
