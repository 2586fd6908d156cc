//! Integers of format 2: as `ints`, with headers of as many bytes as they need, or coded by bins.
//!
//! A body is a form, its parameters and its payload, and is read from the front of its bytes: what follows it
//! begins where it ends.

use super::bins::BinTable;
use super::ints::{self, Accumulate, Body, IntPlan, PLACE_BITS, Packing, best_plan, differences};
use super::lane::{Finish, Lane, Same, packed_bytes};
use super::slots::{Slot, fill, first, scratch};
use super::varint::{put_signed, put_varint, take_byte, take_bytes, take_signed, take_u16, take_varint};
use super::{Damage, Decoded, prefix, simd};
use crate::part::BLOCK_ROWS;

const CONSTANT: u8 = 0;
const REFERENCE: u8 = 1;
const DELTA: u8 = 2;
const CODED: u8 = 3;
const CODED_DELTA: u8 = 4;
const FORM: u8 = 0x0f;
/// Percent of the packed size that codes must save.
const MUST_SAVE_PERCENT: usize = 2;
/// Flag: a scale stands after the base.
const SCALED: u8 = 0x10;
/// Flag: the places of exceptions are one bit a word.
const MARKED: u8 = 0x20;
/// Flag: there are exceptions.
const PATCHED: u8 = 0x40;

/// A table that words may be coded by.
#[derive(Debug)]
pub(in crate::part) struct Coding {
    pub(super) table: BinTable,
    /// Whether differences of neighbours are coded, not the words.
    pub(super) delta: bool,
    /// Where the table begins in the chunk's tables.
    pub(super) at: usize,
}

/// The words that a coding codes: all of them, or the differences from the second one on.
pub(super) fn coded<L: Lane>(words: &[L], delta: bool) -> impl ExactSizeIterator<Item = u64> + Clone {
    let skipped = usize::from(delta && !words.is_empty());
    let before = words;
    words[skipped..].iter().enumerate().map(move |(index, word)| {
        let word = if delta { word.minus(before[index]) } else { *word };
        word.to_i64().cast_unsigned()
    })
}

/// Appends `words` (1 to 1,024) in the form that takes least; returns the bytes that the coding saves.
pub(in crate::part) fn encode<L: Lane>(
    words: &[L],
    hint: IntPlan,
    coding: Option<&Coding>,
    out: &mut Vec<u8>,
) -> usize {
    let first = words.first().copied().unwrap_or_default();
    if words.iter().all(|&word| word == first) {
        out.push(CONSTANT);
        put_signed(first.to_i64(), out);
        return 0;
    }
    let scale = L::from_u64(hint.scale.max(1));
    let reference = best_plan(words, scale);
    let tried = hint.delta_percent > 0;
    let deltas = if tried { differences(words) } else { Vec::new() };
    let delta = tried.then(|| best_plan(&deltas[1..], scale));
    let delta = delta.filter(|delta| delta.bytes + 8 < reference.bytes * hint.delta_percent / 100);
    let packed = delta.as_ref().map_or(reference.bytes, |delta| delta.bytes + 4);
    if let Some(coding) = coding {
        let mut places = Vec::with_capacity(words.len());
        let bits = coding.table.place_all(coded(words, coding.delta), &mut places);
        let bytes = bits.map_or(usize::MAX, |bits| bits / 8 + 8);
        // Codes decode more slowly than packed words, too.
        if bytes < packed - packed * MUST_SAVE_PERCENT / 100 {
            out.push(if coding.delta { CODED_DELTA } else { CODED });
            put_varint(coding.at as u64, out);
            if coding.delta {
                put_signed(first.to_i64(), out);
            }
            prefix::encode(&coding.table, &places, out);
            return packed - bytes;
        }
    }
    match delta {
        Some(delta) => write(DELTA, Some(first), &deltas, &delta, out),
        None => write(REFERENCE, None, words, &reference, out),
    }
    0
}

fn write<L: Lane>(form: u8, first: Option<L>, words: &[L], packing: &Packing<L>, out: &mut Vec<u8>) {
    let start = out.len();
    out.push(form);
    out.push(packing.width as u8);
    put_signed(packing.base.to_i64(), out);
    let scaled = packing.scale.to_u64() > 1;
    if scaled {
        put_varint(packing.scale.to_u64(), out);
    }
    if let Some(first) = first {
        put_signed(first.to_i64(), out);
    }
    let mut payload = Vec::new();
    let (exceptions, marked) = ints::write_payload(first.is_some(), words, packing, &mut payload);
    if exceptions > 0 {
        let [low, high] = u16::try_from(exceptions).expect("a block has at most 1,024 values").to_le_bytes();
        out.extend_from_slice(&[low, high, packing.wide as u8]);
    }
    out.extend_from_slice(&payload);
    let flag = |flag: u8, set: bool| if set { flag } else { 0 };
    out[start] |= flag(SCALED, scaled) | flag(MARKED, marked) | flag(PATCHED, exceptions > 0);
}

/// Words, or differences of them, that are packed above a base.
pub(super) struct Packed<'a> {
    pub(super) base: i64,
    pub(super) scale: u64,
    pub(super) width: usize,
    pub(super) words: &'a [u8],
    /// How many exceptions there are, their width and what is packed of them: distances from the base.
    pub(super) exceptions: (usize, usize, &'a [u8]),
    /// Where they are: one bit a word, or numbers.
    pub(super) places: &'a [u8],
    pub(super) marked: bool,
}

/// The words of `rows` rows at the front of `bytes`; `None` where they are in another form.
pub(super) fn packed<L: Lane>(bytes: &[u8], rows: usize) -> Decoded<Option<Packed<'_>>> {
    let mut rest = bytes;
    let head = take_byte(&mut rest)?;
    if head == CONSTANT {
        let base = L::from_u64(take_signed(&mut rest)?.cast_unsigned()).to_i64();
        let exceptions = (0, 0, &[][..]);
        let (words, places, marked) = (&[][..], &[][..], false);
        return Ok(Some(Packed { base, scale: 1, width: 0, words, exceptions, places, marked }));
    }
    if head & FORM != REFERENCE {
        return Ok(None);
    }
    parameters::<L>(head, rest, rows).map(|(_, found)| Some(found))
}

/// The first word of `rows` rows at the front of `bytes`, and the differences; `None` where they are in another form.
pub(super) fn steps<L: Lane>(bytes: &[u8], rows: usize) -> Decoded<Option<(i64, Packed<'_>)>> {
    let mut rest = bytes;
    let head = take_byte(&mut rest)?;
    if head & FORM != DELTA {
        return Ok(None);
    }
    parameters::<L>(head, rest, rows).map(Some)
}

/// What follows the head of a reference or of differences: the first word of those, and what is packed.
fn parameters<L: Lane>(head: u8, mut bytes: &[u8], rows: usize) -> Decoded<(i64, Packed<'_>)> {
    let word = |bytes: &mut &[u8]| Ok(L::from_u64(take_signed(bytes)?.cast_unsigned()).to_i64());
    let width = usize::from(take_byte(&mut bytes)?);
    let base = word(&mut bytes)?;
    let scale = if head & SCALED != 0 { take_varint(&mut bytes)? } else { 1 };
    let start = if head & FORM == DELTA { word(&mut bytes)? } else { 0 };
    let patched = head & PATCHED != 0;
    let count = if patched { take_u16(&mut bytes)? } else { 0 };
    let wide = if patched { usize::from(take_byte(&mut bytes)?) } else { 0 };
    if width > L::WIDTH || wide > L::WIDTH || count > rows {
        return Err(Damage("an unknown integer encoding"));
    }
    let words = take_bytes(&mut bytes, packed_bytes(width, rows))?;
    let marked = head & MARKED != 0;
    let place_bytes = if marked { packed_bytes(1, rows) } else { packed_bytes(PLACE_BITS, count) };
    let places = if patched { take_bytes(&mut bytes, place_bytes)? } else { &[] };
    let far = take_bytes(&mut bytes, packed_bytes(wide, count))?;
    let exceptions = (count, wide, far);
    Ok((start, Packed { base, scale, width, words, exceptions, places, marked }))
}

/// Decodes exactly `slots.len()` words from the front of `bytes`; `tables` are those of the chunk.
pub(in crate::part) fn decode<'s, L: Lane, F: Finish<L>>(
    bytes: &mut &[u8],
    tables: &[u8],
    finish: F,
    slots: &'s mut [Slot<F::Value>],
) -> Decoded<&'s mut [F::Value]> {
    let head = take_byte(bytes)?;
    let word = |bytes: &mut &[u8]| Ok(L::from_u64(take_signed(bytes)?.cast_unsigned()));
    if slots.is_empty() || slots.len() > BLOCK_ROWS {
        return Err(Damage("a block of too many values"));
    }
    let delta = matches!(head & FORM, DELTA | CODED_DELTA);
    match head & FORM {
        CONSTANT => Ok(fill(slots, finish.finish(word(bytes)?))),
        CODED => prefix::decode((tables, take_varint(bytes)? as usize), bytes, finish, slots),
        CODED_DELTA => {
            let at = take_varint(bytes)? as usize;
            let start = word(bytes)?;
            let mut steps = scratch::<L, BLOCK_ROWS>();
            let steps = first(&mut steps, slots.len())?;
            steps[0].write(start);
            prefix::decode::<L, _>((tables, at), bytes, Same, &mut steps[1..])?;
            // SAFETY: the first was written above, the others by `decode`, which gives them back written.
            let steps = unsafe { steps.assume_init_mut() };
            simd::run(Accumulate { start, steps, finish, slots })
        }
        REFERENCE | DELTA => {
            let width = usize::from(take_byte(bytes)?);
            let base = word(bytes)?;
            let scale = if head & SCALED != 0 { L::from_u64(take_varint(bytes)?) } else { L::from_u64(1) };
            let start = if delta { word(bytes)? } else { L::default() };
            let patched = head & PATCHED != 0;
            let exceptions = if patched { take_u16(bytes)? } else { 0 };
            let wide = if patched { usize::from(take_byte(bytes)?) } else { 0 };
            let marked = head & MARKED != 0;
            if exceptions > slots.len() || width > L::WIDTH {
                return Err(Damage("an unknown integer encoding"));
            }
            let payload = ints::payload_bytes(slots.len(), width, exceptions, wide, marked);
            let rest = take_bytes(bytes, payload)?;
            let body = Body { base, scale, width, exceptions, wide, marked, rest };
            if !delta {
                return body.decode(finish, slots);
            }
            let mut steps = scratch::<L, BLOCK_ROWS>();
            let steps = body.decode(Same, first(&mut steps, slots.len())?)?;
            simd::run(Accumulate { start, steps, finish, slots })
        }
        _ => Err(Damage("an unknown integer encoding")),
    }
}
