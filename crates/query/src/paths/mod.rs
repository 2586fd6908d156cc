//! Which files a text names: one file, a pattern (`*`, `?`, `[…]`, `**`), a folder; and which of them may be read.
//!
//! A folder stands for all files below it whose names end as those of a known format, but for hidden ones. Files come
//! sorted by path, each once for each text that names it. What a path says of the rows in its file
//! (`…/symbol=AAPL/date=2024-11-04/x.parquet`, as Hive lays folders out) is its [`DataFile::keys`].
//!
//! Enter at [`Allowed::found`] to read, [`Allowed::place`] to write.

mod format;
mod keys;

pub(crate) use format::endings;
pub use format::{Compression, FileFormat};
pub(crate) use keys::{KeyColumn, NULL_KEY, key_columns};

use crate::error::{QueryError, SqlState};
use percent_encoding::percent_decode_str;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

type Result<T> = std::result::Result<T, QueryError>;

/// Most files that one text may name.
const FILES_MAX: usize = 1_000_000;

/// Which files a session's statements may name.
#[derive(Debug, Clone, Default)]
pub enum Allowed {
    /// Any; relative paths are of the process.
    #[default]
    All,
    /// Those of this directory; relative paths are of it. Links that lead out of it are not followed.
    Below(PathBuf),
    /// None.
    Nothing,
}

/// Where a file lies that a plan reads, for messages.
#[derive(Debug, Clone)]
pub(crate) struct ReadFrom(pub(crate) PathBuf);

/// A file to read, and what its path says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DataFile {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// The `key=value` folders it is in, from the outermost, decoded; `None` is NULL. Of one key the innermost counts.
    pub(crate) keys: Vec<(String, Option<String>)>,
}

impl DataFile {
    fn at(path: PathBuf) -> Self {
        let mut keys: Vec<(String, Option<String>)> = Vec::new();
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let folders = path.parent().into_iter().flat_map(Path::components);
        let folders = folders.filter_map(|part| match part {
            Component::Normal(name) => name.to_str()?.split_once('='),
            _ => None,
        });
        for (key, value) in folders.filter(|(key, _)| !key.is_empty()) {
            let key = decoded(key);
            keys.retain(|(known, _)| !known.eq_ignore_ascii_case(&key));
            // The text of that name is written with an escape.
            keys.push((key, (value != NULL_KEY).then(|| decoded(value))));
        }
        Self { path, keys }
    }
}

impl Allowed {
    /// Where a file that is named to be written, or to be read whatever it is called, may be.
    ///
    /// # Errors
    /// Where it may not be named.
    pub fn place(&self, path: &str) -> Result<PathBuf> {
        refuse_address(path)?;
        let directory = match self {
            Allowed::All if path.is_empty() => return Err(no_name()),
            Allowed::All => return Ok(PathBuf::from(path)),
            Allowed::Below(directory) => directory,
            Allowed::Nothing => {
                let error = QueryError::request(
                    "a statement that names a file of the server is not run for a client",
                );
                return Err(error.state(SqlState::NotSupported).hint(
                    "send rows over the wire (COPY … FROM STDIN, /imp), or allow a directory, files = '/srv/exchange', in which \
                     admins name files where there are users",
                ));
            }
        };
        match inside(directory, Path::new(path)) {
            Some(found) if !is_plain(&found) => {
                let what = format!("'{path}' is a pipe, a socket or a device, not a file");
                Err(QueryError::request(what).hint("name a regular file"))
            }
            Some(found) => Ok(found),
            None => {
                let directory = directory.display();
                let what = format!("'{path}' is not in '{directory}', the directory that files may be in");
                Err(QueryError::request(what).hint("name it from there, without '..'"))
            }
        }
    }

    /// As [`Self::place`], of a file or folder that is to be written: not the directory itself.
    ///
    /// # Errors
    /// As there.
    pub fn target(&self, path: &str) -> Result<PathBuf> {
        let place = self.place(path)?;
        match self {
            Allowed::Below(directory)
                if directory.canonicalize().is_ok_and(|directory| directory == place) =>
            {
                Err(QueryError::request(format!("'{path}' is the directory that files may be in"))
                    .hint("name a file in it"))
            }
            _ => Ok(place),
        }
    }

    /// Whether a path stands for several files: a folder, or a pattern that is no file's name.
    ///
    /// # Errors
    /// Those of [`Self::place`].
    pub(crate) fn is_several(&self, path: &Path) -> Result<bool> {
        let text = path.to_string_lossy();
        let place = self.place(&text)?;
        Ok(place.is_dir() || is_pattern(&text) && !place.exists())
    }

    /// The files that some texts name, at least one.
    ///
    /// # Errors
    /// Where a text names none, where a folder cannot be read, and those of [`Self::place`].
    pub(crate) fn found<P: AsRef<Path>>(&self, patterns: &[P]) -> Result<Vec<DataFile>> {
        let mut files = Vec::new();
        for pattern in patterns {
            for path in self.paths_of(&pattern.as_ref().to_string_lossy())? {
                files.push(DataFile::at(path));
                if files.len() > FILES_MAX {
                    return Err(QueryError::request(format!("more than {FILES_MAX} files are named")));
                }
            }
        }
        match files.is_empty() {
            true => Err(QueryError::request("no file is named")),
            false => Ok(files),
        }
    }

    /// The files that one text names, sorted.
    fn paths_of(&self, pattern: &str) -> Result<Vec<PathBuf>> {
        let place = self.place(pattern)?;
        // What is there by this very name is meant, whatever characters are in it.
        if place.is_dir() {
            let within = glob::Pattern::escape(&place.to_string_lossy());
            let mut files = self.matching(&format!("{within}/**/*"), pattern)?;
            files.retain(|path| FileFormat::of_name(path).0.is_some());
            return match files.is_empty() {
                true => Err(QueryError::request(format!("folder '{pattern}' has no file of rows in it"))
                    .hint("their names end in .csv, .parquet, .arrow, .ndjson, .json, …, maybe with .gz or .zst")),
                false => Ok(files),
            };
        }
        if !is_pattern(pattern) || place.exists() {
            if pattern.ends_with('/') {
                return Err(QueryError::request(format!("there is no folder '{pattern}'")));
            }
            return Ok(vec![place]);
        }
        let mut place = place.to_string_lossy().into_owned();
        if place.ends_with("**") {
            // By itself it would be folders alone.
            place.push_str("/*");
        }
        let files = self.matching(&place, pattern)?;
        match files.is_empty() {
            true => Err(QueryError::request(format!("no file matches '{pattern}'"))
                .hint("* is any part of a name, ** any folders, ? one character, [ab] one of some")),
            false => Ok(files),
        }
    }

    fn matching(&self, pattern: &str, told: &str) -> Result<Vec<PathBuf>> {
        let options = glob::MatchOptions {
            case_sensitive: true,
            require_literal_separator: true,
            require_literal_leading_dot: true,
        };
        let found = glob::glob_with(pattern, options)
            .map_err(|error| QueryError::request(format!("'{told}' is no pattern: {}", error.msg)))?;
        let mut files = Vec::new();
        for path in found {
            let path = path.map_err(|error| {
                QueryError::request(format!("cannot read {}: {}", error.path().display(), error.error()))
            })?;
            if !path.is_file() {
                continue;
            }
            if let Allowed::Below(_) = self {
                // A link that a pattern meets may lead out of the directory.
                self.place(&path.to_string_lossy())?;
            }
            files.push(path);
        }
        files.sort();
        // Links lead to one file by several names.
        let mut seen = BTreeSet::new();
        files.retain(|path| path.canonicalize().map_or(true, |real| seen.insert(real)));
        Ok(files)
    }
}

/// Whether a text is a pattern, not the name of one file.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

fn no_name() -> QueryError {
    QueryError::request("the name of a file is empty")
}

fn refuse_address(path: &str) -> Result<()> {
    let scheme = path.split_once("://").map(|(scheme, _)| scheme);
    match scheme.filter(|scheme| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())) {
        Some(scheme) => {
            Err(QueryError::request(format!("'{path}' is an address, and files are read from disk"))
                .hint(format!("copy what is behind {scheme}:// to a disk, or mount it")))
        }
        None => Ok(()),
    }
}

/// A path in a directory; `None` where it leads out of it, also through a link.
fn inside(directory: &Path, path: &Path) -> Option<PathBuf> {
    let plain = |part: Component<'_>| !matches!(part, Component::ParentDir);
    if path.as_os_str().is_empty() || !path.components().all(plain) {
        return None;
    }
    let directory = directory.canonicalize().ok()?;
    let path = directory.join(path);
    // What is there already says where it really is; the rest of the path is new.
    let there = path.ancestors().find(|part| part.symlink_metadata().is_ok())?;
    let new = path.strip_prefix(there).ok()?;
    let real = there.canonicalize().ok()?;
    let found = if new.as_os_str().is_empty() { real.clone() } else { real.join(new) };
    real.starts_with(&directory).then_some(found)
}

/// Whether what is at a path can be read without waiting for whoever writes it, or is not there yet. What a directory is
/// good for, the statement knows.
fn is_plain(path: &Path) -> bool {
    path.metadata().map_or(true, |found| found.is_file() || found.is_dir())
}

#[cfg(test)]
mod tests;
