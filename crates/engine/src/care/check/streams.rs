//! Streams: each file of their logs, frame by frame, and the file that describes each.

use super::report::{Finding, Remedy, Severity};
use super::survey::Look;
use super::tables::{broken_file, note_file};
use crate::disk::Disk;
use crate::paths::{STREAMS_DIR, copy_path, stream_dir};
use crate::streams::described::{Described, recovered};
use crate::streams::list;
use crate::streams::segment::{list_segments, segment_path, survey};
use crate::{EngineError, Result};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

/// Looks at all streams. Where the database was not `closed`, a crash may have come before a copy was written.
pub(crate) fn look(look: &mut Look<'_>, closed: bool) -> Result<()> {
    let disk = Arc::clone(&look.disk);
    for id in list(disk.as_ref())? {
        if is_dropped(disk.as_ref(), id) {
            let what = "the stream was dropped, and a part of it is still there";
            look.add(Finding::new(Severity::Note, stream_dir(id), what).remedy(Remedy::NextOpening));
            continue;
        }
        let there = list_segments(disk.as_ref(), id)?;
        let Some(described) = describes(look, id, closed, !there.is_empty())? else { continue };
        for (first, _) in &there {
            segment(look, &described, *first)?;
        }
        missing(look, &described, &there);
    }
    for entry in disk.list(Path::new(STREAMS_DIR)).map_err(EngineError::io("list", STREAMS_DIR))? {
        if !entry.is_dir || entry.name.parse::<u32>().is_err() {
            let what = "this is no part of a stream";
            look.add(Finding::new(Severity::Note, Path::new(STREAMS_DIR).join(&entry.name), what));
        }
    }
    Ok(())
}

/// Whether a stream's own file, or what is left of it, says that it was dropped.
fn is_dropped(disk: &dyn Disk, id: u32) -> bool {
    Described::load(disk, id).is_ok_and(|described| described.dropped)
}

/// The file that describes a stream, and its copy; `None` where nothing does and no document is there.
fn describes(look: &mut Look<'_>, id: u32, closed: bool, has_documents: bool) -> Result<Option<Described>> {
    let disk = Arc::clone(&look.disk);
    let path = Described::path(id);
    let copy = copy_path(&path);
    note_file(look, &path);
    note_file(look, &copy);
    let own = Described::load_from(disk.as_ref(), &path);
    let (described, file, finding) = match (own, Described::load_from(disk.as_ref(), &copy)) {
        (Ok(own), Ok(_)) => return Ok(Some(own)),
        (Err(error @ EngineError::NewerFormat { .. }), _) => return Err(error),
        (Ok(own), Err(EngineError::Io { source, .. })) if source.kind() == ErrorKind::NotFound => {
            let severity = if closed { Severity::Damage } else { Severity::Note };
            let remedy = if closed { Remedy::Copy } else { Remedy::NextOpening };
            let what = "the file is missing: it is the copy of another";
            let finding = Finding::new(severity, &copy, what).remedy(remedy);
            (own, copy, finding)
        }
        (Ok(own), Err(error)) => {
            let finding = broken_file(&copy, error).remedy(Remedy::Copy);
            (own, copy, finding)
        }
        (Err(error), Ok(copied)) => {
            let finding = broken_file(&path, error).remedy(Remedy::FromCopy);
            (copied, path, finding)
        }
        // What a crash leaves of one that was being made goes at the next opening.
        (Err(_), Err(_)) if !has_documents => return Ok(None),
        (Err(error), Err(_)) => {
            let finding = broken_file(&path, error);
            let what = format!("{}, and so is its copy: the stream is called recovered_{id}", finding.what);
            (recovered(id), path, Finding { what, ..finding }.remedy(Remedy::Rebuild))
        }
    };
    if finding.severity == Severity::Damage {
        look.stream_trouble(&described).files.push(file);
    }
    look.add(finding);
    Ok(Some(described))
}

fn segment(look: &mut Look<'_>, described: &Described, first: u64) -> Result<()> {
    let path = segment_path(described.id, first);
    let bytes = match look.disk.read_from(&path, 0) {
        Ok(bytes) => bytes,
        // Old ones go while a process writes.
        Err(error) if error.kind() == ErrorKind::NotFound && look.disk.is_shared() => return Ok(()),
        Err(error) => {
            look.add(broken_file(&path, EngineError::io("read", &path)(error)).loses(None, None));
            return Ok(());
        }
    };
    let len = bytes.len() as u64;
    look.begin_file(&path, len);
    let found = survey(look.disk.as_ref(), described, first, &bytes)?;
    let damage = |what: String| Finding::new(Severity::Damage, &path, what).loses(None, None);
    let broken = found
        .broken
        .into_iter()
        .map(|(extent, reason)| damage(reason.to_string()).at(extent.start, Some(extent.end - extent.start)));
    let shortfall = described.shortfall(first, len).map(|what| damage(what).at(len, None));
    let findings: Vec<Finding> = broken.chain(shortfall).collect();
    if !findings.is_empty() {
        look.stream_trouble(described).damaged.insert(first);
    }
    findings.into_iter().for_each(|finding| look.add(finding.remedy(Remedy::KeepFrames)));
    if found.good < len {
        let what = "the last write was cut short: nothing of it was read by anyone";
        let finding = Finding::new(Severity::Note, &path, what);
        look.add(finding.at(found.good, Some(len - found.good)).remedy(Remedy::NextOpening));
    }
    Ok(())
}

/// Files of a log that must be there and are not.
fn missing(look: &mut Look<'_>, described: &Described, there: &[(u64, u64)]) {
    for named in described.missing(there) {
        let newest = Described::load(look.disk.as_ref(), described.id);
        // Old ones go while a process writes, and their names before.
        if look.disk.is_shared() && newest.is_ok_and(|newest| newest.log(named.first).is_none()) {
            continue;
        }
        let what = format!("the file is missing: {}", named.held());
        let finding = Finding::new(Severity::Damage, named.path(described.id), what);
        look.stream_trouble(described);
        look.add(finding.loses(None, None).remedy(Remedy::Forget));
    }
}
