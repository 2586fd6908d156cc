//! Files of the server that a statement names: inside the one directory that the server was told to allow, or none.

use crate::settings::Settings;
use std::path::{Component, Path, PathBuf};
use tickstone_query::dialect::Statement;
use tickstone_query::{QueryError, SqlState};

/// Has the file that a statement names, where it names one, lie in the directory of the setting `files`.
///
/// # Errors
/// Where it does not, and where no directory is allowed.
pub(crate) fn permit(settings: &Settings, statement: &mut Statement) -> Result<(), QueryError> {
    let Some(path) = statement.file() else { return Ok(()) };
    let directory = settings.text("files");
    if directory.is_empty() {
        let error =
            QueryError::request("a statement that names a file of the server is not run for a client");
        return Err(error
            .state(SqlState::NotSupported)
            .hint("send rows over the wire (COPY … FROM STDIN, /imp), or allow a directory: files = '/srv/exchange'"));
    }
    match inside(Path::new(directory), Path::new(path.as_str())) {
        Some(found) => {
            *path = found.to_string_lossy().into_owned();
            Ok(())
        }
        None => {
            let what = format!("'{path}' is not in '{directory}', the directory that files may be in");
            Err(QueryError::request(what).hint("name it from there, without '..' and without patterns"))
        }
    }
}

/// A path in a directory; `None` where it leads out of it, also through a link, or names several files.
fn inside(directory: &Path, path: &Path) -> Option<PathBuf> {
    let plain = |part: Component<'_>| !matches!(part, Component::ParentDir);
    let pattern = path.to_string_lossy().contains(['*', '?', '[']);
    if pattern || path.as_os_str().is_empty() || !path.components().all(plain) {
        return None;
    }
    let directory = directory.canonicalize().ok()?;
    let path = directory.join(path);
    // What is there already says where it really is; the rest of the path is new.
    let there = path.ancestors().find(|part| part.symlink_metadata().is_ok())?;
    let new = path.strip_prefix(there).ok()?;
    let real = there.canonicalize().ok()?;
    let found = if new.as_os_str().is_empty() { real.clone() } else { real.join(new) };
    (real.starts_with(&directory) && found != directory).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_in_the_directory() {
        let temp = tempfile::tempdir().unwrap();
        let allowed = temp.path().join("allowed");
        std::fs::create_dir_all(allowed.join("sub")).unwrap();
        std::fs::write(temp.path().join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(temp.path(), allowed.join("out")).unwrap();
        std::os::unix::fs::symlink(temp.path().join("nowhere"), allowed.join("dangling")).unwrap();
        let real = allowed.canonicalize().unwrap();
        for (path, wanted) in [("a.csv", "a.csv"), ("sub/b.csv", "sub/b.csv"), ("new/c.csv", "new/c.csv")] {
            assert_eq!(inside(&allowed, Path::new(path)), Some(real.join(wanted)), "{path}");
            let absolute = allowed.join(path);
            assert_eq!(inside(&allowed, &absolute), Some(real.join(wanted)), "{}", absolute.display());
        }
        for path in
            ["", ".", "..", "../secret", "sub/../../secret", "/etc/passwd", "out/secret", "out", "out/new"]
        {
            assert_eq!(inside(&allowed, Path::new(path)), None, "{path}");
        }
        for path in ["*.csv", "sub/?.csv", "dangling"] {
            assert_eq!(inside(&allowed, Path::new(path)), None, "{path}");
        }
    }
}
