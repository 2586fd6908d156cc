//! Manifests and symbol files, written anew for every table that has trouble, and for materialized views, which are
//! worked out anew.

use super::Job;
use crate::Result;
use crate::care::check::survey::{PartTrouble, TableTrouble};
use crate::disk::checked::sealed;
use crate::paths::{copy_path, symbols_path};
use crate::store::manifest::{Manifest, SupersededRows, pack};
use crate::store::snapshot::{PartFile, TableSnapshot, leave_out};
use crate::store::switch::Switch;
use crate::tape::change::PartEntry;
use std::ops::Range;
use std::path::{Path, PathBuf};
use tickstone_model::TimeRange;

impl Job<'_> {
    /// Stages the files of every table with trouble; tables that nothing describes are strays.
    pub(super) fn mend_tables(&mut self, switch: &mut Switch) -> Result<()> {
        let survey = self.survey;
        for (id, trouble) in &survey.tables {
            if let Some(table) = survey.snapshot.table_by_id(*id) {
                self.mend_table(table, trouble, switch)?;
            }
        }
        // What they store may be of rows that are lost.
        let is_done = |id: u32| survey.tables.contains_key(&id) || self.left.contains(&id);
        let others: Vec<_> = survey.snapshot.materialized_views().filter(|view| !is_done(view.id)).collect();
        for view in others {
            self.mend_table(view, &TableTrouble::default(), switch)?;
        }
        Ok(())
    }

    fn mend_table(
        &mut self,
        table: &TableSnapshot,
        trouble: &TableTrouble,
        switch: &mut Switch,
    ) -> Result<()> {
        let mut manifest = table.to_manifest(self.survey.snapshot.position());
        if table.schema.materialized().is_some() {
            manifest.staleness.mark(TimeRange::ALL, manifest.saved_at);
        }
        // Positions of which no row is left stay claimed: the tape may still have rows of them.
        let mut parts: Vec<PartEntry> = Vec::new();
        for part in table.passing_parts() {
            let Some(found) = trouble.parts.get(&part.path) else {
                parts.push(part.entry.clone());
                continue;
            };
            self.done.rows_lost += part.entry.rows - found.kept(part.entry.rows);
            match found {
                PartTrouble::InTape => {}
                PartTrouble::Lost => manifest.emptied.push(part.entry.emptied()),
                PartTrouble::Partly(good) => {
                    match self.keep_rows(table, &part, &seen(&manifest, &part, good))? {
                        Some(kept) => parts.push(kept),
                        None => manifest.emptied.push(part.entry.emptied()),
                    }
                }
            }
            switch.remove(part.path.clone());
        }
        parts.extend(trouble.adopted.iter().cloned());
        // A part that was written anew is without its replaced rows.
        manifest
            .superseded
            .retain(|of| parts.iter().any(|part| part.partition == of.partition && part.file == of.file));
        manifest.parts = pack(parts);
        let columns = table.schema.symbol_columns();
        for (column, count) in columns.zip(&manifest.symbol_counts) {
            if let (Some(dictionary), 1..) = (table.dictionary(column), *count) {
                let bytes = dictionary.encode(*count as usize);
                self.stage_with_copy(&symbols_path(table.id, table.schema.column_id(column)), bytes, switch)?;
            }
        }
        self.stage_with_copy(&Manifest::path(table.id), manifest.encode(), switch)?;
        self.done.tables_rewritten.push(table.schema.name().to_string());
        Ok(())
    }

    pub(super) fn stage_with_copy(&self, path: &Path, bytes: Vec<u8>, switch: &mut Switch) -> Result<()> {
        let bytes = sealed(bytes);
        let copy: PathBuf = copy_path(path);
        switch.stage(self.disk, path, &bytes)?;
        switch.stage(self.disk, &copy, &bytes)
    }
}

/// What of the `good` rows of a part later ones have not replaced.
fn seen(manifest: &Manifest, part: &PartFile, good: &[Range<usize>]) -> Vec<Range<usize>> {
    let entry = &part.entry;
    let of_part = |of: &&SupersededRows| of.partition == entry.partition && of.file == entry.file;
    let superseded = manifest.superseded.iter().find(of_part).map_or(&[][..], |of| &of.rows);
    let mut kept = Vec::new();
    good.iter().for_each(|rows| leave_out(rows.clone(), superseded, &mut kept));
    kept
}
