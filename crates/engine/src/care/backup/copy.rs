//! Bringing a directory to the state of a source.

use super::BackupSummary;
use super::source::Source;
use super::streams;
use crate::care::check::Progress;
use crate::disk::Disk;
use crate::disk::checked::sealed;
use crate::paths::{
    ACCOUNTS_FILE, BACKUP_TEXT, RESTORE_FILE, TABLES_DIR, copy_path, symbols_path, table_dir,
};
use crate::store::manifest::Manifest;
use crate::store::snapshot::{PartFile, TableSnapshot};
use crate::store::switch::Switch;
use crate::tape::named::{TAPE_MANIFEST, TapeManifest};
use crate::tape::segment::{list_segments, segment_path};
use crate::write::accounts;
use crate::{EngineError, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How much of a file is copied at once.
const CHUNK_BYTES: usize = 1 << 20;
/// A part's last bytes: its length, and a checksum that covers all other checksums of the file.
const TRAILER_BYTES: usize = 48;

pub(super) struct Copying<'a> {
    source: &'a Source,
    to: &'a dyn Disk,
    /// The folder of the source's disk that the target is, where parts get a second name in it.
    link_to: Option<&'static str>,
    progress: &'a mut dyn FnMut(Progress<'_>),
    summary: BackupSummary,
    bytes_done: u64,
    bytes_total: u64,
}

impl<'a> Copying<'a> {
    pub(super) fn new(
        source: &'a Source,
        to: &'a dyn Disk,
        progress: &'a mut dyn FnMut(Progress<'_>),
    ) -> Self {
        let parts = source.snapshot.tables().map(|table| table.partitions().disk_bytes()).sum::<u64>();
        let tape = source.tape.iter().map(|piece| piece.bytes().len() as u64).sum::<u64>();
        let (link_to, summary) = (None, BackupSummary::default());
        Self { source, to, link_to, progress, summary, bytes_done: 0, bytes_total: parts + tape }
    }

    /// Gives parts a second name instead of copying them, where the disk can: the target, which is empty, is this
    /// folder of the source's disk.
    pub(super) fn linking_parts(mut self, folder: &'static str) -> Self {
        self.link_to = Some(folder);
        self
    }

    /// Copies what is missing and switches to it; `marker` stands in the directory from then on.
    pub(super) fn run(mut self, marker: Option<&str>) -> Result<BackupSummary> {
        let source = self.source;
        self.summary.position = source.snapshot.position();
        let mut folders = BTreeSet::new();
        let mut named = BTreeSet::new();
        for part in source.snapshot.tables().flat_map(|table| table.passing_parts()) {
            self.summary.parts += 1;
            if !self.link_part(&part)? {
                self.copy_part(&part)?;
            }
            // Also of a part that was there: it may be what a try that failed has left.
            folders.extend(part.path.parent().map(Path::to_path_buf));
            named.insert(part.path.clone());
        }
        for folder in &folders {
            self.to.sync_dir(folder).map_err(EngineError::io("sync", folder))?;
        }
        // A hold has them under its folder.
        let to = self.to;
        let bytes = streams::copy(source.disk.as_ref(), to, &mut |path, bytes| self.step(path, bytes))?;
        self.summary.bytes_copied += bytes;
        let mut switch = Switch::begin(self.to)?;
        for table in source.snapshot.tables() {
            self.summary.tables += u64::from(table.schema().view().is_none());
            self.summary.rows += table.rows();
            self.stage_table(table, &mut switch)?;
        }
        self.stage_tape(&mut switch)?;
        self.drop_tables(&mut switch)?;
        match marker {
            Some(marker) => self.stage(Path::new(marker), BACKUP_TEXT, &mut switch)?,
            None => switch.remove(PathBuf::from(RESTORE_FILE)),
        }
        switch.commit(self.to)?;
        self.remove_needless()?;
        Ok(self.summary)
    }

    fn step(&mut self, path: &Path, bytes: u64) {
        self.bytes_done += bytes;
        let bytes_total = self.bytes_total.max(self.bytes_done);
        (self.progress)(Progress { path, bytes: self.bytes_done, bytes_total });
    }

    /// Gives a part a second name; `false` where it has to be copied.
    fn link_part(&mut self, part: &PartFile) -> Result<bool> {
        let Some(folder) = self.link_to else { return Ok(false) };
        let path = Path::new(folder).join(&part.path);
        match self.source.disk.link(&part.path, &path) {
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => return Ok(false),
            linked => linked.map_err(EngineError::io("link", &path))?,
        }
        self.step(&part.path, part.entry.file_bytes);
        Ok(true)
    }

    /// Copies a part where the target has not the same one.
    fn copy_part(&mut self, part: &PartFile) -> Result<()> {
        let path = &part.path;
        let bytes = part.read()?;
        if self.to.read(path).is_ok_and(|there| is_same_part(&there, &bytes)) {
            self.step(path, part.entry.file_bytes);
            return Ok(());
        }
        // The very bytes that are copied: another reading might give others.
        part.open_bytes(bytes.clone())?.check()?;
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".tmp");
        let unfinished = PathBuf::from(unfinished);
        self.to.remove(&unfinished).map_err(EngineError::io("remove", &unfinished))?;
        let mut file = self.to.create(&unfinished).map_err(EngineError::io("create", &unfinished))?;
        for chunk in bytes.chunks(CHUNK_BYTES) {
            file.append(chunk).map_err(EngineError::io("write", &unfinished))?;
            self.step(path, chunk.len() as u64);
        }
        file.sync().map_err(EngineError::io("sync", &unfinished))?;
        self.to.rename(&unfinished, path).map_err(EngineError::io("rename to", path))?;
        self.summary.parts_copied += 1;
        self.summary.bytes_copied += bytes.len() as u64;
        Ok(())
    }

    /// Stages a file unless the target has it already.
    fn stage(&mut self, path: &Path, bytes: &[u8], switch: &mut Switch) -> Result<()> {
        if self.to.read(path).is_ok_and(|there| *there == *bytes) {
            return Ok(());
        }
        self.summary.bytes_copied += bytes.len() as u64;
        switch.stage(self.to, path, bytes)
    }

    fn stage_table(&mut self, table: &TableSnapshot, switch: &mut Switch) -> Result<()> {
        let manifest = table.to_manifest(self.source.snapshot.position());
        for (column, count) in table.schema.symbol_columns().zip(&manifest.symbol_counts) {
            if let (Some(dictionary), 1..) = (table.dictionary(column), *count) {
                let bytes = sealed(dictionary.encode(*count as usize));
                let path = symbols_path(table.id, table.schema.column_id(column));
                self.stage(&path, &bytes, switch)?;
                self.stage(&copy_path(&path), &bytes, switch)?;
            }
        }
        let (path, bytes) = (Manifest::path(table.id), sealed(manifest.encode()));
        self.stage(&path, &bytes, switch)?;
        self.stage(&copy_path(&path), &bytes, switch)
    }

    fn stage_tape(&mut self, switch: &mut Switch) -> Result<()> {
        let source = self.source;
        for piece in &source.tape {
            let path = segment_path(piece.first);
            self.stage(&path, piece.bytes(), switch)?;
            self.step(&path, piece.bytes().len() as u64);
        }
        let begins = source.tape.first().map_or(0, |piece| piece.first);
        let segments = source.tape.iter().map(|piece| piece.named).collect();
        if let Some(text) = accounts::known(&source.snapshot) {
            self.stage(Path::new(ACCOUNTS_FILE), &sealed(accounts::encode(&text)), switch)?;
        }
        // A reader may have seen a close that was cut off meanwhile.
        let names = TapeManifest { begins, settled: source.snapshot.position(), segments };
        let (path, bytes) = (Path::new(TAPE_MANIFEST), sealed(names.encode()));
        self.stage(path, &bytes, switch)?;
        self.stage(&copy_path(path), &bytes, switch)?;
        let known: BTreeSet<u64> = source.tape.iter().map(|piece| piece.first).collect();
        let gone = list_segments(self.to)?.into_iter().filter(|first| !known.contains(first));
        gone.for_each(|first| switch.remove(segment_path(first)));
        Ok(())
    }

    /// Tables that the source has not go with their folders.
    fn drop_tables(&mut self, switch: &mut Switch) -> Result<()> {
        let entries = self.to.list(Path::new(TABLES_DIR)).map_err(EngineError::io("list", TABLES_DIR))?;
        for entry in entries {
            let id = entry.name.parse().ok();
            if id.and_then(|id| self.source.snapshot.table_by_id(id)).is_none() {
                switch.remove(Path::new(TABLES_DIR).join(&entry.name));
            }
        }
        Ok(())
    }

    /// Removes what the new state does not name. A try that is cut short is finished by the next backup.
    fn remove_needless(&mut self) -> Result<()> {
        for table in self.source.snapshot.tables() {
            let named = table.part_paths();
            let dir = table_dir(table.id);
            let folders = self.to.list(&dir).map_err(EngineError::io("list", &dir))?;
            for folder in folders.into_iter().filter(|entry| entry.is_dir) {
                let folder = dir.join(&folder.name);
                for file in self.to.list(&folder).map_err(EngineError::io("list", &folder))? {
                    let path = folder.join(&file.name);
                    if !named.contains(&path) {
                        self.to.remove(&path).map_err(EngineError::io("remove", &path))?;
                        self.summary.parts_removed += 1;
                    }
                }
            }
        }
        Ok(())
    }
}

fn is_same_part(there: &[u8], bytes: &[u8]) -> bool {
    let trailer = |bytes: &[u8]| bytes.len().checked_sub(TRAILER_BYTES).map(|at| bytes[at..].to_vec());
    there.len() == bytes.len() && trailer(there).is_some_and(|there| Some(there) == trailer(bytes))
}
