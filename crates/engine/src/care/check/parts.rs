//! Every part that a table has: there, the one that is meant, and whole to the last value.

use super::report::{Finding, Remedy, Severity};
use super::survey::{Look, PartTrouble};
use super::tables::broken_file;
use super::tape::Walked;
use crate::part::{Inspection, Part};
use crate::store::dictionary::Dictionary;
use crate::store::snapshot::{PartFile, TableSnapshot};
use crate::{EngineError, Result};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Looks at all parts.
pub(crate) fn look(look: &mut Look<'_>, walked: &Walked) -> Result<()> {
    for table in walked.snapshot.tables() {
        for part in table.passing_parts() {
            one_part(look, walked, table, &part)?;
        }
    }
    Ok(())
}

fn one_part(look: &mut Look<'_>, walked: &Walked, table: &TableSnapshot, file: &PartFile) -> Result<()> {
    look.report.parts += 1;
    look.begin_file(&file.path, 0);
    let entry = &file.entry;
    let before = look.report.bytes;
    let opened = file.open_anew().and_then(|part| agrees(part, file, table));
    let part = match opened {
        Ok(part) => part,
        Err(error @ EngineError::NewerFormat { .. }) => return Err(error),
        Err(error) => {
            let missing = matches!(&error, EngineError::Io { source, .. }
                if source.kind() == std::io::ErrorKind::NotFound);
            let finding = broken_file(&file.path, error).of_table(table.schema.name());
            let finding = finding.loses(Some(entry.rows), entry.times);
            let in_tape = in_tape(walked, table, file);
            look.add(match (in_tape, missing) {
                (true, _) => finding.loses(Some(0), None).remedy(Remedy::FromTape),
                (false, true) => finding.remedy(Remedy::Forget),
                (false, false) => finding.remedy(Remedy::PutAside),
            });
            let trouble = if in_tape { PartTrouble::InTape } else { PartTrouble::Lost };
            note(look, table, &file.path, trouble);
            return Ok(());
        }
    };
    if look.rebuilt.contains(&table.id) {
        fill_symbols(table, &part);
    }
    let found = inspect(look, table, &file.path, &part);
    look.report.rows += found.good_rows() as u64;
    let rest = (before + part.summary().file_bytes).saturating_sub(look.report.bytes);
    look.step(&file.path, rest);
    if !found.flaws.is_empty() {
        let in_tape = in_tape(walked, table, file);
        report(look, table, &part, &file.path, &found, in_tape);
        let trouble = if in_tape { PartTrouble::InTape } else { PartTrouble::Partly(found.good) };
        note(look, table, &file.path, trouble);
    }
    Ok(())
}

/// Whether the rows of a part are in the tape as well, so that it can be done without.
fn in_tape(walked: &Walked, table: &TableSnapshot, file: &PartFile) -> bool {
    let positions = file.entry.positions;
    walked.cover.has_rows(table.id, positions.first, positions.last)
}

fn note(look: &mut Look<'_>, table: &TableSnapshot, path: &Path, trouble: PartTrouble) {
    let of_table = look.trouble(table.id);
    of_table.rewrite = true;
    of_table.parts.insert(path.to_path_buf(), trouble);
}

/// What the manifest says of the part beyond what opening compares.
fn agrees(part: Part, file: &PartFile, table: &TableSnapshot) -> Result<Part> {
    let (said, found) = (file.entry.positions, part.positions());
    // A load's part was written before its position was known.
    let of_load = (found.first, found.last) == (0, 0);
    if said != found && !of_load {
        return Err(EngineError::damaged(&file.path, 0, "its positions are not those the manifest says"));
    }
    let partition = table.schema.partition_by().partition_of(file.entry.partition);
    let inside =
        |(least, most): (i64, i64)| partition.from <= least && (most < partition.to || most == i64::MAX);
    if !part.summary().times.is_none_or(inside) {
        return Err(EngineError::damaged(&file.path, 0, "its rows are not of the partition it stands in"));
    }
    Ok(part)
}

/// The dictionary of a column of a part, which has the table's columns of when it was written. `None` where
/// that column was dropped: nobody reads its ids.
fn dictionary_of<'a>(table: &'a TableSnapshot, part: &Part, column: usize) -> Option<&'a Arc<Dictionary>> {
    let id = part.schema().column_id(column);
    table.schema.column_of_id(id).and_then(|column| table.dictionary(column))
}

/// Gives placeholders to the ids that a part has and no symbol is left for.
pub(crate) fn fill_symbols(table: &TableSnapshot, part: &Part) {
    for column in part.schema().symbol_columns() {
        if let Some(dictionary) = dictionary_of(table, part, column) {
            dictionary.fill_to(part.symbols_used(column));
        }
    }
}

pub(crate) fn inspect(look: &mut Look<'_>, table: &TableSnapshot, path: &Path, part: &Part) -> Inspection {
    let symbols = |column: usize| dictionary_of(table, part, column).map(|dictionary| dictionary.len());
    if look.options.values {
        return part.inspect(&symbols, &mut |bytes| look.step(path, bytes));
    }
    match part.check() {
        Ok(()) => Inspection::whole(part),
        // Where the damage ends is known only by reading on.
        Err(_) => part.inspect(&symbols, &mut |bytes| look.step(path, bytes)),
    }
}

fn report(
    look: &mut Look<'_>,
    table: &TableSnapshot,
    part: &Part,
    path: &Path,
    found: &Inspection,
    in_tape: bool,
) {
    // Two columns may be damaged in the same rows: they are lost once.
    let mut lost: Vec<Range<usize>> = Vec::new();
    for flaw in &found.flaws {
        let slice = part.slices().iter().find(|slice| slice.rows.contains(&flaw.rows.start));
        let times = slice.filter(|_| !flaw.rows.is_empty()).and_then(|slice| slice.times);
        let finding = Finding::new(Severity::Damage, path, flaw.what.clone());
        let finding = finding.at(flaw.offset, flaw.bytes).of_table(table.schema.name());
        look.add(if in_tape {
            finding.remedy(Remedy::FromTape)
        } else {
            finding.loses(Some(fresh(&mut lost, &flaw.rows) as u64), times).remedy(Remedy::KeepRows)
        });
    }
}

/// How many of `rows` are in none of `lost`, to which they are added.
fn fresh(lost: &mut Vec<Range<usize>>, rows: &Range<usize>) -> usize {
    let mut left = vec![rows.clone()];
    for known in lost.iter() {
        left = left
            .into_iter()
            .flat_map(|rest| [rest.start..rest.end.min(known.start), rest.start.max(known.end)..rest.end])
            .filter(|rest| rest.start < rest.end)
            .collect();
    }
    lost.push(rows.clone());
    left.iter().map(ExactSizeIterator::len).sum()
}
