//! Threads of one user: how much they have to do, and which processors they may take.
//!
//! A short statement goes through several threads: those of connections, those of its user, and the client's. Where all
//! processors are taken by somebody who scans, each of them may wait until the system's turn of the scan is over: several
//! milliseconds of a statement that takes a fraction of one. So threads that are busy most of the time leave one processor
//! free while other users ask something (Linux; with two processors or more).

use super::STACK_BYTES;
use crate::error::{ErrorKind, QueryError, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};

/// How often threads are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How many processors threads take that are busy.
const BUSY: f64 = 0.5;
/// How long threads are taken for busy that were: what they do is counted when a piece of it has ended.
const STILL_BUSY: Duration = Duration::from_secs(1);

/// Threads that run a user's statements, until nobody refers to them.
#[derive(Debug)]
pub struct Threads {
    runtime: Option<Runtime>,
    pool: Arc<Pool>,
}

impl Threads {
    pub(super) fn start(count: usize, weight: u64) -> Result<Self> {
        let priority = priority_of(weight);
        let pool = Arc::new(Pool::default());
        let (begin, end) = (Arc::clone(&pool), Arc::clone(&pool));
        let runtime = Builder::new_multi_thread()
            .worker_threads(count)
            .thread_name("tickstone-user")
            .thread_stack_size(STACK_BYTES)
            .on_thread_start(move || {
                system::lower(priority);
                begin.add(system::thread());
            })
            .on_thread_stop(move || end.remove(system::thread()))
            .enable_all()
            .build();
        let failed = |error| QueryError::new(ErrorKind::Report, format!("cannot start threads: {error}"));
        let runtime = runtime.map_err(failed)?;
        runtime.spawn(look_at(Arc::downgrade(&pool)));
        Ok(Self { runtime: Some(runtime), pool })
    }

    /// Where tasks are spawned.
    pub fn handle(&self) -> &Handle {
        self.runtime.as_ref().expect("taken only when it is dropped").handle()
    }

    /// Whether they are at work most of the time.
    pub(super) fn are_busy(&self) -> bool {
        self.pool.is_busy.load(Ordering::Relaxed)
    }

    /// Has them leave a processor free until then, where they are busy.
    pub(super) fn make_room(&self, until: Instant) {
        if self.are_busy() {
            let mut state = self.pool.state();
            if state.leaves_room.replace(until).is_none() {
                state.threads.iter().for_each(|thread| system::confine(*thread, true));
            }
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // It may go inside an async task, where a runtime must not wait for its threads.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// What is known of the threads.
#[derive(Debug, Default)]
struct Pool {
    is_busy: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The system's numbers.
    threads: Vec<i32>,
    /// When they were last seen to be busy.
    busy: Option<Instant>,
    /// Until when they leave a processor free.
    leaves_room: Option<Instant>,
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, thread: i32) {
        let mut state = self.state();
        state.threads.push(thread);
        if state.leaves_room.is_some() {
            system::confine(thread, true);
        }
    }

    fn remove(&self, thread: i32) {
        self.state().threads.retain(|other| *other != thread);
    }

    /// Notes how many processors they took of late.
    fn note(&self, load: f64, now: Instant) {
        let mut state = self.state();
        if load >= BUSY {
            state.busy = Some(now);
        }
        let is_busy = state.busy.is_some_and(|at| now.saturating_duration_since(at) < STILL_BUSY);
        self.is_busy.store(is_busy, Ordering::Relaxed);
        if state.leaves_room.is_some_and(|until| !is_busy || now >= until) {
            state.leaves_room = None;
            state.threads.iter().for_each(|thread| system::confine(*thread, false));
        }
    }
}

/// Looks at the threads that it runs on, as long as they are there.
async fn look_at(pool: Weak<Pool>) {
    let metrics = Handle::current().metrics();
    let busy = || (0..metrics.num_workers()).map(|worker| metrics.worker_total_busy_duration(worker)).sum();
    let (mut at, mut before): (Instant, Duration) = (Instant::now(), busy());
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(pool) = pool.upgrade() else { return };
        let (now, after) = (Instant::now(), busy());
        pool.note(after.saturating_sub(before).as_secs_f64() / (now - at).as_secs_f64(), now);
        (at, before) = (now, after);
    }
}

/// The priority that gives a thread its share: each step takes a fifth of it (sched(7), "the nice value").
fn priority_of(weight: u64) -> i32 {
    let steps = (100.0 / weight.max(1) as f64).ln() / 1.25_f64.ln();
    (steps.round() as i32).clamp(0, 19)
}

/// What the system does with threads. On Linux priorities and processors are a thread's; elsewhere they are left alone.
#[cfg(target_os = "linux")]
mod system {
    use std::mem::{size_of, zeroed};
    use std::sync::OnceLock;

    /// Lowers the priority of this thread.
    pub(super) fn lower(priority: i32) {
        if priority > 0 {
            // SAFETY: it takes numbers and touches no memory. 0 is the calling thread; where it fails, the priority stays.
            unsafe {
                libc::setpriority(libc::PRIO_PROCESS, 0, priority);
            }
        }
    }

    /// The number of this thread.
    pub(super) fn thread() -> i32 {
        // SAFETY: it takes nothing, and cannot fail.
        unsafe { libc::gettid() }
    }

    /// Has a thread leave the first of the process's processors free, or gives it all of them again.
    pub(super) fn confine(thread: i32, leaves_one: bool) {
        /// All processors that the process began with, and all but the first; `None` where there is one alone.
        static PROCESSORS: OnceLock<Option<[libc::cpu_set_t; 2]>> = OnceLock::new();
        let Some(sets) = PROCESSORS.get_or_init(processors) else { return };
        let set = &sets[usize::from(leaves_one)];
        // SAFETY: the set is as long as is said. A thread that has ended, or of which this is not allowed, stays as it is.
        unsafe {
            libc::sched_setaffinity(thread, size_of::<libc::cpu_set_t>(), set);
        }
    }

    /// See [`confine`]. The first thread of a process has the process's number.
    fn processors() -> Option<[libc::cpu_set_t; 2]> {
        // SAFETY: bits that are all 0 are a set, which is as long as is said; places within it are asked for alone.
        unsafe {
            let mut all: libc::cpu_set_t = zeroed();
            if libc::sched_getaffinity(libc::getpid(), size_of::<libc::cpu_set_t>(), &mut all) != 0 {
                return None;
            }
            let mut places = (0..libc::CPU_SETSIZE as usize).filter(|place| libc::CPU_ISSET(*place, &all));
            let (first, _) = (places.next()?, places.next()?);
            let mut rest = all;
            libc::CPU_CLR(first, &mut rest);
            Some([all, rest])
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub(super) fn lower(_priority: i32) {}

    pub(super) fn thread() -> i32 {
        0
    }

    pub(super) fn confine(_thread: i32, _leaves_one: bool) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_shares() {
        let shares = [(100, 0), (80, 1), (50, 3), (10, 10), (1, 19), (0, 19)];
        assert_eq!(shares.map(|(weight, _)| priority_of(weight)), shares.map(|(_, priority)| priority));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn who_scans_leaves_a_processor_free_while_others_ask() {
        let allowed = |threads: &Threads| -> Vec<usize> {
            let of = |thread: &i32| {
                let status =
                    std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).expect("a thread");
                let line = status.lines().find(|line| line.starts_with("Cpus_allowed:")).expect("processors");
                line.chars()
                    .filter_map(|digit| digit.to_digit(16))
                    .map(|digit| digit.count_ones() as usize)
                    .sum()
            };
            threads.pool.state().threads.iter().map(of).collect()
        };
        let until = |what: &str, so: &dyn Fn() -> bool| {
            let begun = Instant::now();
            while !so() {
                assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        let threads = Threads::start(2, 100).expect("threads");
        until("two threads", &|| threads.pool.state().threads.len() == 2);
        let all = allowed(&threads)[0];
        // Who has nothing to do is in nobody's way.
        threads.make_room(Instant::now() + Duration::from_secs(3_600));
        assert_eq!(allowed(&threads), [all; 2]);
        let scans = Arc::new(AtomicBool::new(true));
        for _ in 0..2 {
            let scans = Arc::clone(&scans);
            threads.handle().spawn(async move {
                while scans.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    while begun.elapsed() < Duration::from_millis(1) {}
                    tokio::task::yield_now().await;
                }
            });
        }
        until("a scan is seen", &|| threads.are_busy());
        let less = all.saturating_sub(1).max(1);
        threads.make_room(Instant::now() + Duration::from_millis(500));
        assert_eq!(allowed(&threads), [less; 2]);
        until("nobody asks any more", &|| allowed(&threads) == [all; 2]);
        until("a scan is seen", &|| threads.are_busy());
        threads.make_room(Instant::now() + Duration::from_secs(3_600));
        assert_eq!(allowed(&threads), [less; 2]);
        scans.store(false, Ordering::Relaxed);
        until("nobody scans any more", &|| allowed(&threads) == [all; 2] && !threads.are_busy());
    }
}
