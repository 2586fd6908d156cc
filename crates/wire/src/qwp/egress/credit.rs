//! How many bytes of results a client is ready for.

/// The bytes of batches that a query may still send. It may send a batch while there are any, and that batch may be larger
/// than they are: so that it always gets on, and is never further ahead than one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credit {
    /// `None` for no bound.
    left: Option<i128>,
}

impl Credit {
    /// What a query begins with; 0 for no bound.
    pub fn new(initial: u64) -> Self {
        Self { left: (initial > 0).then_some(i128::from(initial)) }
    }

    /// Whether a batch may be sent now.
    pub fn allows_batch(self) -> bool {
        self.left.is_none_or(|left| left > 0)
    }

    /// Notes that a batch of so many bytes, header and all, was sent.
    pub fn sent(&mut self, bytes: usize) {
        self.left = self.left.map(|left| left.saturating_sub(bytes as i128));
    }

    /// Notes that the client is ready for more.
    pub fn grant(&mut self, bytes: u64) {
        self.left = self.left.map(|left| left.saturating_add(i128::from(bytes)));
    }
}
