//! Streams: each file of their logs, frame by frame, and the file that describes each.

use super::report::{Finding, Remedy, Severity};
use super::survey::Look;
use super::tables::{broken_file, note_file};
use crate::paths::{STREAMS_DIR, copy_path, stream_dir};
use crate::streams::segment::{list_segments, segment_path, survey};
use crate::streams::{STREAM_FILE, check_described, list};
use crate::{EngineError, Result};
use std::path::Path;
use std::sync::Arc;

/// Looks at all streams.
pub(crate) fn look(look: &mut Look<'_>) -> Result<()> {
    let disk = Arc::clone(&look.disk);
    for id in list(disk.as_ref())? {
        describes(look, id)?;
        for (first, _) in list_segments(disk.as_ref(), id)? {
            segment(look, id, first)?;
        }
    }
    for entry in disk.list(Path::new(STREAMS_DIR)).map_err(EngineError::io("list", STREAMS_DIR))? {
        if !entry.is_dir || entry.name.parse::<u32>().is_err() {
            let what = "this is no part of a stream";
            look.add(Finding::new(Severity::Note, Path::new(STREAMS_DIR).join(&entry.name), what));
        }
    }
    Ok(())
}

/// The file of a stream's name and settings, and its copy.
fn describes(look: &mut Look<'_>, id: u32) -> Result<()> {
    let disk = Arc::clone(&look.disk);
    let path = stream_dir(id).join(STREAM_FILE);
    let copy = copy_path(&path);
    note_file(look, &path);
    note_file(look, &copy);
    let (own, copied) = (check_described(disk.as_ref(), &path), check_described(disk.as_ref(), &copy));
    let has_documents = !list_segments(disk.as_ref(), id)?.is_empty();
    match (own, copied) {
        (Ok(_), _) => {}
        (Err(error @ EngineError::NewerFormat { .. }), _) => return Err(error),
        // What a crash leaves of one that was being made goes at the next opening.
        (Err(_), Err(_)) if !has_documents => {}
        (Err(error), Ok(_)) => look.add(broken_file(&path, error).remedy(Remedy::NextOpening)),
        (Err(error), Err(_)) => {
            let finding = broken_file(&path, error);
            let what = format!("{}, and so is its copy: the stream is called recovered_{id}", finding.what);
            look.add(Finding { what, ..finding }.remedy(Remedy::NextOpening));
        }
    }
    Ok(())
}

fn segment(look: &mut Look<'_>, id: u32, first: u64) -> Result<()> {
    let path = segment_path(id, first);
    let bytes = match look.disk.read_from(&path, 0) {
        Ok(bytes) => bytes,
        // Old ones go while a process writes.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && look.disk.is_shared() => return Ok(()),
        Err(error) => {
            look.add(broken_file(&path, EngineError::io("read", &path)(error)).loses(None, None));
            return Ok(());
        }
    };
    look.begin_file(&path, bytes.len() as u64);
    let found = survey(look.disk.as_ref(), id, first, &bytes)?;
    for (extent, reason) in found.broken {
        let finding = Finding::new(Severity::Damage, &path, reason).loses(None, None);
        look.add(finding.at(extent.start, Some(extent.end - extent.start)).remedy(Remedy::PassedOver));
    }
    if found.good < bytes.len() as u64 {
        let what = "the last write was cut short: nothing of it was read by anyone";
        let finding = Finding::new(Severity::Note, &path, what);
        let cut = bytes.len() as u64 - found.good;
        look.add(finding.at(found.good, Some(cut)).remedy(Remedy::NextOpening));
    }
    Ok(())
}
