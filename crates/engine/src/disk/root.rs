//! A directory by its handle: what is in it is reached by that, not by its path, which may come to name something else
//! when the directory is renamed, moved, or made anew.

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, linkat, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// An open directory. Paths are relative to it; the empty one is the directory itself.
#[derive(Debug)]
pub(super) struct Root(OwnedFd);

fn named(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

impl Root {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let dir =
            openat(CWD, named(path), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        Ok(Self(dir?))
    }

    /// Whether the directory itself was removed.
    pub(super) fn is_removed(&self) -> bool {
        fstat(&self.0).is_ok_and(|stat| stat.st_nlink == 0)
    }

    fn at(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        let mode = Mode::from_raw_mode(0o666);
        Ok(File::from(openat(&self.0, named(path), flags | OFlags::CLOEXEC, mode)?))
    }

    /// A file, or a folder, for reading.
    pub(super) fn read(&self, path: &Path) -> io::Result<File> {
        self.at(path, OFlags::RDONLY)
    }

    /// A file for writing.
    pub(super) fn write(&self, path: &Path) -> io::Result<File> {
        self.at(path, OFlags::WRONLY)
    }

    /// A file for locking, made where it is missing.
    pub(super) fn lock(&self, path: &Path) -> io::Result<File> {
        self.at(path, OFlags::WRONLY | OFlags::CREATE)
    }

    /// A new file for appending, and the folders above it.
    pub(super) fn create(&self, path: &Path) -> io::Result<File> {
        self.in_folder_of(path, || {
            self.at(path, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL)
        })
    }

    /// Gives a file a second name, and makes the folders above that.
    pub(super) fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.in_folder_of(to, || Ok(linkat(&self.0, from, &self.0, to, AtFlags::empty())?))
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    /// Does what needs the folder of `path`, which is made where it is missing.
    fn in_folder_of<T>(&self, path: &Path, mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        match act() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => return done,
        }
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.retain(|folder| !folder.as_os_str().is_empty());
        for folder in above.into_iter().rev() {
            match mkdirat(&self.0, folder, Mode::from_raw_mode(0o777)) {
                Err(Errno::EXIST) => {}
                made => made?,
            }
        }
        act()
    }

    /// Removes a file, or a folder with all it holds.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        let stat = statat(&self.0, path, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode).is_dir() {
            return remove_folder(&self.0, path);
        }
        Ok(unlinkat(&self.0, path, AtFlags::empty())?)
    }

    /// Names in a folder, whether each is a folder, and their sizes.
    pub(super) fn list(&self, dir: &Path) -> io::Result<Vec<(String, bool, u64)>> {
        let folder = self.at(dir, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut listed = Vec::new();
        for name in names(&folder)? {
            let stat = match statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
                // It was removed meanwhile.
                Err(Errno::NOENT) => continue,
                stat => stat?,
            };
            let is_dir = FileType::from_raw_mode(stat.st_mode).is_dir();
            let len = if is_dir { 0 } else { u64::try_from(stat.st_size).unwrap_or(0) };
            if let Ok(name) = name.into_string() {
                listed.push((name, is_dir, len));
            }
        }
        Ok(listed)
    }
}

fn names(folder: impl AsFd) -> io::Result<Vec<std::ffi::CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_owned();
        if !matches!(name.as_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

fn remove_folder(at: impl AsFd, path: impl rustix::path::Arg + Copy) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(&at, path, flags, Mode::empty())?;
    for name in names(&folder)? {
        let is_dir = statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW)
            .map(|stat| FileType::from_raw_mode(stat.st_mode).is_dir());
        let removed = match is_dir {
            Ok(true) => remove_folder(&folder, name.as_c_str()),
            Ok(false) => unlinkat(&folder, &name, AtFlags::empty()).map_err(Into::into),
            Err(error) => Err(error.into()),
        };
        match removed {
            // Somebody else was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    Ok(unlinkat(&at, path, AtFlags::REMOVEDIR)?)
}
