//! Files of streams' logs written anew with every frame that is whole; files that are missing are forgotten.

use super::Job;
use crate::care::check::survey::StreamTrouble;
use crate::store::switch::Switch;
use crate::streams::described::{Described, NamedLog};
use crate::streams::segment::{KeptFrames, index_path, keep_frames, list_segments, segment_path};
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
        for missing in described.missing(&there) {
            let last = missing.is_closed().then_some(missing.last);
            self.done.documents_lost.push((name.clone(), missing.first, last));
        }
        let mut logs: Vec<NamedLog> = Vec::new();
        for (first, _) in &there {
            match trouble.damaged.contains(first) {
                true => logs.extend(self.mend_log(&described, *first, switch)?),
                false => logs.extend(described.log(*first)),
            }
        }
        described.logs = Some(logs);
        self.stage_with_copy(&Described::path(id), described.encode(), switch)?;
        self.done.streams_rewritten.push(name);
        Ok(())
    }

    /// Stages a file of a log without what is damaged; `None` where nothing is left of it.
    fn mend_log(
        &mut self,
        described: &Described,
        first: u64,
        switch: &mut Switch,
    ) -> Result<Option<NamedLog>> {
        let path = segment_path(described.id, first);
        let bytes = self.disk.read(&path).map_err(EngineError::io("read", &path))?;
        let last = described.log(first).filter(|named| named.is_closed()).map(|named| named.last);
        let KeptFrames { file, lost } = keep_frames(first, &bytes, last);
        let lost = lost.into_iter().map(|(first, last)| (described.name.clone(), first, Some(last)));
        self.done.documents_lost.extend(lost);
        switch.remove(index_path(described.id, first));
        match file {
            Some((bytes, named)) => switch.stage(self.disk, &path, &bytes).map(|()| Some(named)),
            None => {
                switch.remove(path);
                Ok(None)
            }
        }
    }
}
