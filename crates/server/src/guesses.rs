//! Who guesses passwords waits: longer with each guess from an address and with each for a user, while others do not
//! notice.
//!
//! Only a wrong answer waits, so nobody can lock a user out by guessing for them. Guesses at once wait one after another.
//! A right answer ends the delay of its user, not of its address: whoever has a user of their own guesses no faster.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the first wrong answer waits; each one after it twice as long.
const FIRST: Duration = Duration::from_millis(50);
/// The longest that one adds.
const LONGEST: Duration = Duration::from_secs(5);
/// The longest that one waits for itself and those before it.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// After so long without a guess the delays begin anew.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// Most addresses and users that are remembered; the oldest guesses go first.
const KEYS_MAX: usize = 10_000;

/// Bytes of a name that it is told by: a longer one is nobody's, and is not to fill memory.
const NAME_BYTES_MAX: usize = 128;

/// What delays are kept for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Address(IpAddr),
    User(String),
}

impl Key {
    fn of_user(user: &str) -> Self {
        Self::User(tickstone_model::folded_name(&user[..user.floor_char_boundary(NAME_BYTES_MAX)]))
    }
}

#[derive(Debug)]
struct Guessed {
    count: u32,
    at: Instant,
    /// When the guesses so far have waited.
    free: Instant,
}

/// The guesses of all addresses and for all users.
#[derive(Debug, Default)]
pub(crate) struct Guesses(Mutex<HashMap<Key, Guessed>>);

impl Guesses {
    /// Notes a wrong answer for a name, which is empty for a token; how long it is to wait.
    pub(crate) fn wrong(&self, user: &str, from: Option<IpAddr>) -> Duration {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let user = Some(user).filter(|user| !user.is_empty());
        let keys = [from.map(Key::Address), user.map(Key::of_user)];
        let now = Instant::now();
        keys.into_iter().flatten().map(|key| wait(&mut all, key, now)).max().unwrap_or(FIRST)
    }

    /// Notes a right answer: the delays of the user begin anew.
    pub(crate) fn right(&self, user: &str) {
        let key = Key::of_user(user);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }
}

/// How long a wrong answer waits for a key.
fn wait(all: &mut HashMap<Key, Guessed>, key: Key, now: Instant) -> Duration {
    if all.len() >= KEYS_MAX && !all.contains_key(&key) {
        all.retain(|_, guessed| now.duration_since(guessed.at) < FORGOTTEN);
        let oldest = all.iter().min_by_key(|(_, guessed)| guessed.at).map(|(key, _)| key.clone());
        if let Some(oldest) = oldest.filter(|_| all.len() >= KEYS_MAX) {
            all.remove(&oldest);
        }
    }
    let guessed = all.entry(key).or_insert(Guessed { count: 0, at: now, free: now });
    if now.duration_since(guessed.at) >= FORGOTTEN {
        guessed.count = 0;
    }
    (guessed.count, guessed.at) = (guessed.count.saturating_add(1), now);
    let delay = FIRST.saturating_mul(1 << (guessed.count - 1).min(10)).min(LONGEST);
    guessed.free = (guessed.free.max(now) + delay).min(now + WAIT_MAX);
    guessed.free.duration_since(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_wait_longer_each_time() {
        let (guesses, one) = (Guesses::default(), Some(IpAddr::from([127, 0, 0, 1])));
        let other = Some(IpAddr::from([127, 0, 0, 2]));
        // Those at once wait for one another.
        let waits: Vec<_> = (0..30).map(|_| guesses.wrong("", one)).collect();
        let about = |wait: Duration, wanted: Duration| wait <= wanted && wanted - wait < FIRST;
        assert!(
            about(waits[0], FIRST) && about(waits[1], FIRST * 3) && about(waits[2], FIRST * 7),
            "{waits:?}"
        );
        assert!(waits[29] == WAIT_MAX && waits.is_sorted(), "{waits:?}");
        assert!(about(guesses.wrong("", other), FIRST));
        // For a user from everywhere.
        assert!(about(guesses.wrong("Ann", other), FIRST * 3));
        let third = Some(IpAddr::from([127, 0, 0, 3]));
        assert!(about(guesses.wrong("ann", third), FIRST * 3));
        guesses.right("ANN");
        assert!(about(guesses.wrong("ann", None), FIRST));
        assert_eq!(guesses.wrong("ann", one), WAIT_MAX);
    }

    #[test]
    fn keys_are_bounded() {
        let guesses = Guesses::default();
        for number in 0..KEYS_MAX as u32 + 50 {
            guesses.wrong("", Some(IpAddr::from(number.to_be_bytes())));
        }
        assert_eq!(guesses.0.lock().expect("alone").len(), KEYS_MAX);
    }
}
