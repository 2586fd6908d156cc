//! Streams of a backup: files of their logs are only added to, so that what is there is kept.

use crate::disk::Disk;
use crate::paths::{STREAMS_DIR, copy_path, stream_dir};
use crate::streams::segment::{list_segments, segment_path, survey};
use crate::streams::{STREAM_FILE, list};
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
        let mut named = BTreeSet::new();
        for (first, _) in list_segments(from, *id)? {
            let path = segment_path(*id, first);
            named.insert(first);
            let bytes = match from.read_from(&path, 0) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                other => other.map_err(EngineError::io("read", &path))?,
            };
            let found = survey(from, *id, first, &bytes)?;
            if let Some((extent, what)) = found.broken.first() {
                return Err(EngineError::damaged(path, extent.start, *what));
            }
            let good = bytes.get(..usize::try_from(found.good).unwrap_or(usize::MAX)).unwrap_or(&bytes);
            if !to.read_from(&path, 0).is_ok_and(|there| *there == *good) {
                replace(to, &path, good)?;
                copied += good.len() as u64;
            }
            step(&path, good.len() as u64);
        }
        let own = stream_dir(*id).join(STREAM_FILE);
        for path in [copy_path(&own), own] {
            if let Ok(bytes) = from.read(&path) {
                replace(to, &path, &bytes)?;
            }
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
