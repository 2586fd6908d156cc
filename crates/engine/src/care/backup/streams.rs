//! Streams of a backup: files of their logs are only added to, so that what is there is kept.

use crate::disk::Disk;
use crate::disk::checked::sealed;
use crate::paths::{STREAMS_DIR, copy_path, stream_dir};
use crate::streams::described::Described;
use crate::streams::list;
use crate::streams::segment::{list_segments, segment_path, survey};
use crate::{EngineError, Result};
use std::collections::BTreeSet;
use std::path::Path;

/// Brings the streams of `to` to the state of those of `from`, to which documents may be added meanwhile; bytes that
/// were written. A file is whole under its name.
///
/// # Errors
/// [`EngineError::Io`], [`EngineError::Damaged`] where a file is not what was written: damage is never backed up.
pub(super) fn copy(from: &dyn Disk, to: &dyn Disk, step: &mut dyn FnMut(&Path, u64)) -> Result<u64> {
    let mut copied = 0;
    let ids = list(from)?;
    for id in &ids {
        let there = list_segments(from, *id)?;
        let mut described = match Described::load(from, *id) {
            // What a crash leaves of one that was being made.
            Err(EngineError::Io { .. } | EngineError::Damaged { .. }) if there.is_empty() => continue,
            other => other?,
        };
        let mut named = BTreeSet::new();
        for (first, _) in there {
            let path = segment_path(*id, first);
            let bytes = match from.read_from(&path, 0) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                other => other.map_err(EngineError::io("read", &path))?,
            };
            named.insert(first);
            let found = survey(from, &described, first, &bytes)?;
            let shortfall =
                described.shortfall(first, bytes.len() as u64).map(|what| (bytes.len() as u64, what));
            let broken = found.broken.first().map(|(extent, what)| (extent.start, (*what).to_string()));
            if let Some((at, what)) = broken.or(shortfall) {
                return Err(EngineError::damaged(path, at, what));
            }
            let good = bytes.get(..usize::try_from(found.good).unwrap_or(usize::MAX)).unwrap_or(&bytes);
            if !to.read_from(&path, 0).is_ok_and(|there| *there == *good) {
                replace(to, &path, good)?;
                copied += good.len() as u64;
            }
            step(&path, good.len() as u64);
        }
        let there: Vec<_> = named.iter().map(|first| (*first, 0)).collect();
        if described.missing(&there).next().is_some() {
            // Old ones go meanwhile, and their names before.
            let newest = Described::load(from, *id)?;
            if let Some(missing) = described.missing(&there).find(|named| newest.log(named.first).is_some()) {
                let what = format!("the file is missing: {}", missing.held());
                return Err(EngineError::damaged(missing.path(*id), 0, what));
            }
            described.keep(|first| named.contains(&first));
        }
        let own = Described::path(*id);
        let bytes = sealed(described.encode());
        for path in [copy_path(&own), own] {
            replace(to, &path, &bytes)?;
        }
        for (first, _) in list_segments(to, *id)?.into_iter().filter(|(first, _)| !named.contains(first)) {
            let path = segment_path(*id, first);
            for path in [path.with_extension("index"), path] {
                to.remove(&path).map_err(EngineError::io("remove", &path))?;
            }
        }
    }
    for id in list(to)?.into_iter().filter(|id| !ids.contains(id)) {
        let dir = stream_dir(id);
        to.remove(&dir).map_err(EngineError::io("remove", &dir))?;
    }
    if ids.is_empty() { Ok(copied) } else { sync(to, Path::new(STREAMS_DIR)).map(|()| copied) }
}

fn replace(to: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<()> {
    let unfinished = path.with_extension("tmp");
    to.remove(&unfinished).map_err(EngineError::io("remove", &unfinished))?;
    let mut file = to.create(&unfinished).map_err(EngineError::io("create", &unfinished))?;
    file.append(bytes).map_err(EngineError::io("write", &unfinished))?;
    file.sync().map_err(EngineError::io("sync", &unfinished))?;
    to.rename(&unfinished, path).map_err(EngineError::io("rename to", path))?;
    sync(to, path.parent().unwrap_or(Path::new("")))
}

fn sync(to: &dyn Disk, dir: &Path) -> Result<()> {
    to.sync_dir(dir).map_err(EngineError::io("sync", dir))
}
