//! Files of streams' logs written anew with every frame that is whole; files that are missing are forgotten.
//!
//! No number of a lost document is given again: who has read up to it, such as a table that is parsed from the stream,
//! would pass over the next documents. Where the newest are lost, an empty file of a higher number says so.

use super::Job;
use crate::care::check::survey::StreamTrouble;
use crate::store::switch::Switch;
use crate::streams::described::{Described, NamedLog};
use crate::streams::entry::ENTRY_HEADER_BYTES;
use crate::streams::segment::{
    KeptFrames, index_path, keep_frames, last_of, list_segments, segment_header, segment_path,
};
use crate::{EngineError, Result};

impl Job<'_> {
    /// Stages the files of every stream with trouble.
    pub(super) fn mend_streams(&mut self, switch: &mut Switch) -> Result<()> {
        let survey = self.survey;
        survey.streams.values().try_for_each(|trouble| self.mend_stream(trouble, switch))
    }

    fn mend_stream(&mut self, trouble: &StreamTrouble, switch: &mut Switch) -> Result<()> {
        let mut described = trouble.described.clone();
        let (id, name) = (described.id, described.name.clone());
        let there = list_segments(self.disk, id)?;
        let settings = described.settings;
        let (mut given, mut kept) = (0, 0);
        for missing in described.missing(&there) {
            let last = missing.is_closed().then_some(missing.last);
            given = given.max(missing.last_given(&settings));
            self.done.documents_lost.push((name.clone(), missing.first, last));
        }
        let mut logs: Vec<NamedLog> = Vec::new();
        for (first, _) in &there {
            match trouble.damaged.contains(first) {
                true => {
                    let (log, last) = self.mend_log(&described, *first, switch)?;
                    given = given.max(last);
                    logs.extend(log);
                }
                false => logs.extend(described.log(*first)),
            }
        }
        let is_open = |first: u64| !described.log(first).is_some_and(NamedLog::is_closed);
        for (first, _) in
            there.iter().filter(|(first, _)| !trouble.damaged.contains(first) && is_open(*first))
        {
            let path = segment_path(id, *first);
            kept = kept.max(last_of(*first, &self.disk.read(&path).map_err(EngineError::io("read", &path))?));
        }
        kept = logs.iter().map(|log| log.last).fold(kept, u64::max);
        if kept < given {
            let first = given + 1;
            switch.stage(self.disk, &segment_path(id, first), &segment_header(first))?;
            logs.push(NamedLog::begins(first));
        }
        described.logs = Some(logs);
        self.stage_with_copy(&Described::path(id), described.encode(), switch)?;
        self.done.streams_rewritten.push(name);
        Ok(())
    }

    /// Stages a file of a log without what is damaged, `None` where nothing is left of it; and the last number that may
    /// have been given in it.
    fn mend_log(
        &mut self,
        described: &Described,
        first: u64,
        switch: &mut Switch,
    ) -> Result<(Option<NamedLog>, u64)> {
        let path = segment_path(described.id, first);
        let bytes = self.disk.read(&path).map_err(EngineError::io("read", &path))?;
        let last = described.log(first).filter(|named| named.is_closed()).map(|named| named.last);
        let KeptFrames { file, lost, next } = keep_frames(first, &bytes, last);
        // How many documents were in what cannot be read nobody knows.
        let given = last.unwrap_or_else(|| next + bytes.len() as u64 / ENTRY_HEADER_BYTES as u64);
        let lost = lost.into_iter().map(|(first, last)| (described.name.clone(), first, Some(last)));
        self.done.documents_lost.extend(lost);
        switch.remove(index_path(described.id, first));
        match file {
            Some((bytes, named)) => switch.stage(self.disk, &path, &bytes).map(|()| (Some(named), given)),
            None => {
                switch.remove(path);
                Ok((None, given))
            }
        }
    }
}
