//! Pieces of a series that overlap in time, or meet: within such a stretch a row of any of them may be the one that stands.

/// Pieces that overlap in time.
pub(in crate::operators) struct Overlap<P> {
    /// The first and the last time that they may hold.
    pub(in crate::operators) bounds: (i64, i64),
    /// In order of arrival.
    pub(in crate::operators) pieces: Vec<P>,
}

/// Pieces that overlap in time or meet, together, in order of time; `pieces` are in order of arrival, with bounds
/// of their times.
pub(in crate::operators) fn stretches<P>(
    mut pieces: Vec<((i64, i64), P)>,
    arrival: impl Fn(&P) -> usize,
) -> Vec<Overlap<P>> {
    pieces.sort_by_key(|(bounds, _)| *bounds);
    let mut stretches: Vec<Overlap<P>> = Vec::new();
    for (bounds, piece) in pieces {
        match stretches.last_mut() {
            Some(last) if bounds.0 <= last.bounds.1 => {
                last.bounds.1 = last.bounds.1.max(bounds.1);
                last.pieces.push(piece);
            }
            _ => stretches.push(Overlap { bounds, pieces: vec![piece] }),
        }
    }
    for stretch in &mut stretches {
        stretch.pieces.sort_by_key(&arrival);
    }
    stretches
}
