//! The tape manifest: which segments there must be, from the file, else its copy, else what is there.

use super::report::{Finding, Remedy, Severity};
use super::survey::Look;
use super::tables::{broken_file, note_file};
use super::tape::Walked;
use crate::paths::{BACKUP_FILE, copy_path};
use crate::tape::named::{TAPE_MANIFEST, TapeFound, TapeManifest, is_missing};
use crate::tape::segment::list_segments;
use crate::{EngineError, Result};
use std::path::{Path, PathBuf};

fn copy() -> PathBuf {
    copy_path(Path::new(TAPE_MANIFEST))
}

/// Finds out which segments there must be, and which of them are missing.
pub(crate) fn look(look: &mut Look<'_>) -> Result<()> {
    let segments = list_segments(look.disk.as_ref())?;
    let named = manifest(look, &segments)?;
    look.tape.found = TapeFound::of(named, segments);
    look.tape.missing = look.tape.found.missing().map(|named| (named.first, named.last)).collect();
    Ok(())
}

/// `None` in a database of an earlier build.
fn manifest(look: &mut Look<'_>, segments: &[u64]) -> Result<Option<TapeManifest>> {
    let path = Path::new(TAPE_MANIFEST);
    note_file(look, path);
    note_file(look, &copy());
    let from_copy = match TapeManifest::load_copy(look.disk.as_ref()) {
        Err(error @ EngineError::NewerFormat { .. }) => return Err(error),
        from_copy => from_copy,
    };
    let problem = match TapeManifest::load(look.disk.as_ref()) {
        Ok(Some(manifest)) => {
            if let Err(error) = from_copy {
                look.tape.manifest = true;
                look.add(broken_file(&copy(), error).remedy(Remedy::Copy));
            }
            return Ok(Some(manifest));
        }
        // A segment that cannot be read says nothing here.
        Ok(None) if from_copy.is_ok() && !is_missing(look.disk.as_ref(), segments).unwrap_or(false) => {
            return Ok(None);
        }
        Ok(None) => Finding::new(Severity::Damage, path, "the file is missing"),
        Err(error @ EngineError::NewerFormat { .. }) => return Err(error),
        Err(error) => broken_file(path, error),
    };
    look.tape.manifest = true;
    if let Ok(Some(manifest)) = from_copy {
        look.add(problem.remedy(Remedy::FromCopy));
        return Ok(Some(manifest));
    }
    let what = format!("{}, and so is its copy; whether segments are missing is not known", problem.what);
    look.add(Finding { what, ..problem }.loses(None, None).remedy(Remedy::Rebuild));
    Ok(Some(TapeManifest::default()))
}

/// Reports a copy that is not there; a crash may have come before it was written.
pub(crate) fn missing_copy(look: &mut Look<'_>, walked: &Walked) {
    let there = |path: &Path| look.disk.read(path).is_ok();
    if !there(Path::new(TAPE_MANIFEST)) || there(&copy()) {
        return;
    }
    let crashed = !walked.cover.closed && !there(Path::new(BACKUP_FILE));
    let what = "the file is missing: it is the copy of another";
    look.add(match crashed {
        true => Finding::new(Severity::Note, copy(), what).remedy(Remedy::NextOpening),
        false => Finding::new(Severity::Damage, copy(), what).remedy(Remedy::Copy),
    });
}
