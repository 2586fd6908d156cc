//! What a frame of the tape still has to bring about, beside manifests and parts that hold what they hold.
//!
//! Pure: a table as it is and a change give a [`Decision`]; whoever replays says what becomes of it ([`super::replay`]).

use super::ids_used;
use crate::recent::split_by_partition;
use crate::store::history::fit_rows;
use crate::store::snapshot::dedup::{Keys, batch_without};
use crate::store::snapshot::{DroppedCell, Effect, LoadEffect, RowsEffect, TableSnapshot};
use crate::tape::change::{Change, NewSymbols, PartEntry, RewrittenPart, TableRows};
use std::sync::Arc;
use tickstone_model::{RowBatch, TimeRange};

/// What becomes of a change of one table; an `Err` beside it says why it can be none of it.
pub(super) enum Decision<E> {
    /// It is to be applied.
    Apply(E),
    /// The same, but which rows it replaces could not be read, and why: the effect replaces none there.
    Unread(E, String),
    /// Manifests and parts hold it.
    Known,
    /// What it relies on may have gone with the table's manifest, and what that is.
    Incomplete(String),
    /// Of a DELETE or UPDATE: what is left of it, and the parts it replaces that are not there.
    Undone(E, Vec<RewrittenPart>),
}

/// What of a commit's rows in one table neither parts nor a later change have done away with.
pub(super) fn rows(
    table: &TableSnapshot,
    position: u64,
    rows: TableRows,
) -> Result<Decision<RowsEffect>, String> {
    let mut pieces: Vec<(TimeRange, RowBatch)> = Vec::new();
    if let Some(schema) = table.history.at(position).filter(|_| table.truncated_at < position) {
        let batch = RowBatch::new(Arc::clone(schema), rows.columns).map_err(|error| error.to_string())?;
        let batch = fit_rows(&batch, &table.schema);
        if ids_used(table, batch.columns()).any(|(_, dictionary, ids)| ids > dictionary.len()) {
            return Err("rows have a symbol that no frame before them brought".to_string());
        }
        pieces = split_by_partition(batch).map_err(|error| error.to_string())?;
        pieces.retain(|(partition, _)| {
            !table.is_sealed(partition, position) && !table.history.is_retired(partition, position)
        });
    }
    let (mut superseded, mut unread) = (Vec::new(), None);
    if !table.schema.dedup().is_empty() {
        for (partition, batch) in &mut pieces {
            let keys = Keys::of(batch).map_err(|error| error.to_string())?;
            let (found, stale) = match table.supersede(*partition, &keys, position) {
                Ok(found) => found,
                Err(error) => {
                    unread.get_or_insert_with(|| error.to_string());
                    continue;
                }
            };
            superseded.push(found);
            if !stale.is_empty() {
                *batch = batch_without(batch, &stale).map_err(|error| error.to_string())?;
            }
        }
        pieces.retain(|(_, batch)| batch.rows() > 0);
    }
    let new_symbols = !rows.symbols.is_empty();
    let effect = RowsEffect { table: table.id, pieces, new_symbols, superseded };
    Ok(match unread {
        None => Decision::Apply(effect),
        Some(what) => Decision::Unread(effect, what),
    })
}

/// What is left to do of a change that concerns a table which is there, and is no commit of rows.
pub(super) fn change(
    table: &TableSnapshot,
    position: u64,
    change: Change,
) -> Result<Decision<Effect>, String> {
    let id = table.id;
    let held = table.holds(position);
    Ok(match change {
        Change::Truncate { .. } if table.truncated_at < position => {
            Decision::Apply(Effect::Truncate { table: id })
        }
        Change::Load { .. } | Change::Rewrite { .. } if held || table.truncated_at > position => {
            Decision::Known
        }
        Change::Load { mut parts, files, .. } => {
            // Of a table whose manifest was told from its parts: what was merged since is in another part.
            let range = |part: &PartEntry| table.schema.partition_by().partition_of(part.partition);
            parts.retain(|part| !table.is_sealed(&range(part), position));
            if table.schema.dedup().is_empty() {
                let load = LoadEffect::plain(parts, files);
                return Ok(Decision::Apply(Effect::Load { table: id, load }));
            }
            match LoadEffect::superseding(table, parts.clone(), files.clone()) {
                Ok(load) => Decision::Apply(Effect::Load { table: id, load }),
                Err(error) => {
                    let load = LoadEffect::plain(parts, files);
                    Decision::Unread(Effect::Load { table: id, load }, error.to_string())
                }
            }
        }
        Change::Rewrite { parts, touched, .. } => {
            let is_there = |part: &RewrittenPart| table.has_part(part.partition, &part.gone);
            let (parts, missing): (Vec<_>, Vec<_>) = parts.into_iter().partition(is_there);
            let effect = Effect::Rewrite { table: id, parts, touched };
            if missing.is_empty() { Decision::Apply(effect) } else { Decision::Undone(effect, missing) }
        }
        Change::Alter { schema, .. } if !held => {
            Decision::Apply(Effect::Alter { table: id, schema: Arc::new(schema) })
        }
        Change::DropPartitions { range, .. } if !held => {
            Decision::Apply(Effect::DropPartitions { table: id, range, dropped: DroppedCell::default() })
        }
        Change::Refresh { as_of, current, stale, .. } if !held => {
            Decision::Apply(Effect::Refresh { table: id, as_of, current, stale })
        }
        _ => Decision::Known,
    })
}

/// What is missing before the symbols of the frame at `position`, if anything is.
pub(super) fn missing_symbols(
    table: &TableSnapshot,
    position: u64,
    symbols: &[NewSymbols],
) -> Option<String> {
    let known = |new: &NewSymbols| {
        let schema =
            table.history.at(position).filter(|schema| schema.columns().len() > new.column as usize)?;
        let column = table.schema.column_of_id(schema.column_id(new.column as usize))?;
        table.dictionary(column).map(|dictionary| dictionary.len())
    };
    let gap = symbols.iter().find(|new| known(new).is_some_and(|known| (new.first_id as usize) > known))?;
    Some(format!("the symbols before {} are missing", gap.first_id))
}
