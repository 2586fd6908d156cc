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
        Some(found) if !is_plain(&found) => {
            let what = format!("'{path}' is a pipe, a socket or a device, not a file");
            Err(QueryError::request(what).hint("name a regular file"))
        }
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

/// Whether what is at a path can be read without waiting for whoever writes it, or is not there yet. What a directory is
/// good for, the statement knows.
fn is_plain(path: &Path) -> bool {
    path.metadata().map_or(true, |found| found.is_file() || found.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_files() {
        let temp = tempfile::tempdir().unwrap();
        let at = |name: &str| temp.path().join(name);
        std::fs::write(at("a.csv"), "x").unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(at("fifo.csv")).status().unwrap();
        assert!(made.success());
        for name in ["a.csv", "new.csv", "."] {
            assert!(is_plain(&at(name)), "{name}");
        }
        for name in ["fifo.csv", "socket"] {
            assert!(!is_plain(&at(name)), "{name}");
        }
        assert!(!is_plain(Path::new("/dev/zero")));
        let mut settings = Settings::default();
        let directory = temp.path().to_str().unwrap();
        settings.set("files", directory, crate::settings::Origin::Flag).unwrap();
        for sql in ["COPY t FROM 'fifo.csv'", "COPY t TO 'fifo.csv'", "PREPARE p AS COPY t FROM 'fifo.csv'"] {
            let Ok(parsed) = tickstone_query::dialect::parse_with_texts(sql) else { continue };
            let (_, mut statement) = parsed.into_iter().next().unwrap();
            let error = permit(&settings, &mut statement).expect_err(sql).to_string();
            assert!(error.contains("'fifo.csv' is a pipe"), "{sql}: {error}");
        }
    }

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
