//! Shares of users: threads of their own; memory, temporary files and rows that are counted for all their sessions.
//!
//! Each user's statements run on threads of that user, as many as there are for queries. The system divides the processors
//! between threads that want them, so that who runs one short statement does not wait behind the tasks of somebody who
//! scans everything. A user of a lower weight has threads of a lower priority, and one who scans leaves a processor free
//! while others ask ([`threads`]).

mod threads;

pub use threads::Threads;

use crate::error::Result;
use datafusion::execution::disk_manager::{DEFAULT_MAX_TEMP_DIRECTORY_SIZE, DiskManager};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most users that have threads of their own at once; more run on those of the database.
const USERS_MAX: usize = 64;
/// How long threads wait for another statement of their user.
const IDLE: Duration = Duration::from_secs(60);
/// How long somebody who scans leaves a processor free after another user asked something.
const ROOM: Duration = Duration::from_secs(5);
/// Bytes of the stack of a thread that runs queries.
pub(crate) const STACK_BYTES: usize = 8 << 20;
/// The longest time that rows of a user are counted ahead: more than that is as good as for ever.
const DEBT_MAX: Duration = Duration::from_secs(1 << 26);

/// One of a user's connections, until it is dropped.
#[derive(Debug)]
pub(crate) struct Seat(Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The threads of one user: their weight, and when a statement was begun last.
#[derive(Debug)]
struct Held {
    threads: Arc<Threads>,
    weight: u64,
    used: Instant,
}

/// What is kept for each user, by number.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    threads: Mutex<HashMap<u32, Held>>,
    memory: Mutex<HashMap<u32, Arc<AtomicUsize>>>,
    disks: Mutex<HashMap<u32, Arc<DiskManager>>>,
    connections: Mutex<HashMap<u32, Arc<AtomicUsize>>>,
    /// Held by who makes or drops a stream: it and what is granted on it are two changes.
    streams: Mutex<()>,
    /// When the time is over that the rows take which a user added so far, and at how many a second that is.
    paid: Mutex<HashMap<u32, (Instant, u64)>>,
    /// Whether no rows wait any more.
    hurries: AtomicBool,
}

impl Shares {
    /// The threads of a user; `None` where they have to make do with those of the database.
    ///
    /// # Errors
    /// Where the system has no threads.
    pub(crate) fn threads(&self, user: u32, count: usize, weight: u64) -> Result<Option<Arc<Threads>>> {
        let mut all = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        make_room(&all, user, now);
        if let Some(held) = all.get_mut(&user).filter(|held| held.weight == weight) {
            held.used = now;
            return Ok(Some(Arc::clone(&held.threads)));
        }
        all.retain(|_, held| Arc::strong_count(&held.threads) > 1 || now.duration_since(held.used) < IDLE);
        if all.len() >= USERS_MAX && !all.contains_key(&user) {
            return Ok(None);
        }
        let threads = Arc::new(Threads::start(count, weight)?);
        all.insert(user, Held { threads: Arc::clone(&threads), weight, used: now });
        Ok(Some(threads))
    }

    /// Has users who scan leave a processor free for a user who is about to add rows.
    pub(crate) fn make_room(&self, user: u32) {
        make_room(&self.threads.lock().unwrap_or_else(PoisonError::into_inner), user, Instant::now());
    }

    /// What counts the bytes that a user's statements have reserved.
    pub(crate) fn memory(&self, user: u32) -> Arc<AtomicUsize> {
        let mut all = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(user).or_default())
    }

    /// What makes and counts the temporary files of a user's statements.
    ///
    /// # Errors
    /// Never: the system's directory of temporary files is looked for when one is made.
    pub(crate) fn disk(&self, user: u32) -> Result<Arc<DiskManager>> {
        let mut all = self.disks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(disk) = all.get(&user) {
            return Ok(Arc::clone(disk));
        }
        let disk = Arc::new(DiskManager::builder().build()?);
        all.insert(user, Arc::clone(&disk));
        Ok(disk)
    }

    /// Bounds the temporary files of a user's statements; those of a user without a limit as those of the database are.
    pub(crate) fn limit_disk(&self, user: u32, most: Option<u64>) {
        let all = self.disks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(disk) = all.get(&user) {
            // It fails for a manager that makes no files alone.
            let _ = disk.set_max_temp_directory_size(most.unwrap_or(DEFAULT_MAX_TEMP_DIRECTORY_SIZE));
        }
    }

    /// The right to make or drop streams.
    pub(crate) fn making_streams(&self) -> MutexGuard<'_, ()> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more connection of a user; `None` where there are `most` already.
    pub(crate) fn seat(&self, user: u32, most: Option<u64>) -> Option<Seat> {
        let mut all = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(user).or_default();
        if most.is_some_and(|most| count.load(Ordering::Relaxed) as u64 >= most) {
            return None;
        }
        count.fetch_add(1, Ordering::Relaxed);
        Some(Seat(Arc::clone(count)))
    }

    /// Counts rows that a user added, at so many a second.
    pub(crate) fn charge(&self, user: u32, rows: u64, rate: u64) {
        let debt = self.debt(user, rate).as_secs_f64() + rows as f64 / rate.max(1) as f64;
        let paid = Instant::now() + Duration::from_secs_f64(debt.min(DEBT_MAX.as_secs_f64()));
        self.paid.lock().unwrap_or_else(PoisonError::into_inner).insert(user, (paid, rate));
    }

    /// How long a user's next rows are to wait for those before.
    pub(crate) fn debt(&self, user: u32, rate: u64) -> Duration {
        if self.hurries.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let all = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((paid, at)) = all.get(&user) else { return Duration::ZERO };
        let left = paid.saturating_duration_since(Instant::now());
        // Another limit holds for the rows that wait already.
        left.mul_f64((*at).max(1) as f64 / rate.max(1) as f64).min(DEBT_MAX)
    }

    /// Has no rows wait from now on, or has them wait again.
    pub(crate) fn hurry(&self, hurries: bool) {
        self.hurries.store(hurries, Ordering::Relaxed);
    }
}

/// Has users who scan leave a processor free for a user who asks something, unless that one scans as well.
fn make_room(all: &HashMap<u32, Held>, user: u32, now: Instant) {
    if all.get(&user).is_none_or(|held| !held.threads.are_busy()) {
        let others = all.iter().filter(|(other, _)| **other != user);
        others.for_each(|(_, held)| held.threads.make_room(now + ROOM));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_those_of_their_user() {
        let shares = Shares::default();
        let of = |user, weight| shares.threads(user, 1, weight).expect("threads").expect("few users");
        let first = of(1, 100);
        assert!(Arc::ptr_eq(&first, &of(1, 100)) && !Arc::ptr_eq(&first, &of(2, 100)));
        let lower = of(1, 10);
        assert!(!Arc::ptr_eq(&first, &lower));
        // What runs on the threads of before goes on.
        let task = first.handle().spawn(async { 7 });
        assert_eq!(lower.handle().block_on(task).expect("it runs"), 7);
        for user in 3..100 {
            let _ = shares.threads(user, 1, 100).expect("threads");
        }
        assert!(shares.threads.lock().expect("alone").len() <= USERS_MAX);
    }

    #[test]
    fn seats_are_given_back() {
        let shares = Shares::default();
        let (first, second) = (shares.seat(1, None), shares.seat(1, Some(2)));
        assert!(first.is_some() && second.is_some() && shares.seat(1, Some(2)).is_none());
        assert!(shares.seat(2, Some(1)).is_some());
        drop(first);
        assert!(shares.seat(1, Some(2)).is_some());
    }

    #[test]
    fn rows_wait_for_those_before_them() {
        let shares = Shares::default();
        assert_eq!(shares.debt(1, 1_000), Duration::ZERO);
        shares.charge(1, 100, 1_000);
        assert!(shares.debt(1, 1_000) <= Duration::from_millis(100));
        shares.charge(1, 100_000, 1_000);
        assert!(shares.debt(1, 10_000) <= Duration::from_millis(10_100));
        let debt = shares.debt(1, 1_000);
        assert!(debt > Duration::from_secs(99) && debt <= Duration::from_millis(100_100), "{debt:?}");
        assert_eq!(shares.debt(2, 1_000), Duration::ZERO);
        shares.charge(1, u64::MAX, 0);
        assert!(shares.debt(1, 0) <= DEBT_MAX);
        shares.hurry(true);
        assert_eq!(shares.debt(1, 1_000), Duration::ZERO);
        shares.hurry(false);
        assert!(shares.debt(1, 1_000) > Duration::ZERO);
    }
}
