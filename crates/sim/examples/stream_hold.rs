//! How long an append to a stream holds its caller while the disk is slow: 100,000 documents of 1,158 bytes a second, and
//! a disk of a tenth of their rate for five seconds. `cargo run --release -p tickstone-sim --example stream_hold`

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tickstone_engine::disk::{AppendFile, DirEntry, Disk, FileBytes, FileDisk};
use tickstone_engine::streams::StreamSettings;
use tickstone_engine::{Engine, EngineOptions, SystemClock};

const DOCUMENTS_A_S: u64 = 100_000;
const BYTES: usize = 1_158;
const SLOW: Duration = Duration::from_secs(5);

/// A disk that takes so many bytes a second; 0 for as many as it can.
#[derive(Debug)]
struct SlowDisk {
    disk: FileDisk,
    bytes_a_s: Arc<AtomicU64>,
}

#[derive(Debug)]
struct SlowFile(Box<dyn AppendFile>, Arc<AtomicU64>);

impl AppendFile for SlowFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        // In pieces, so that it is fast again at once when it is.
        for piece in bytes.chunks(64 << 10) {
            let rate = self.1.load(Ordering::Relaxed);
            if rate > 0 {
                std::thread::sleep(Duration::from_secs_f64(piece.len() as f64 / rate as f64));
            }
            self.0.append(piece)?;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync()
    }
}

impl Disk for SlowDisk {
    fn read(&self, path: &Path) -> io::Result<FileBytes> {
        self.disk.read(path)
    }
    fn read_from(&self, path: &Path, start: u64) -> io::Result<FileBytes> {
        self.disk.read_from(path, start)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        Ok(Box::new(SlowFile(self.disk.create(path)?, Arc::clone(&self.bytes_a_s))))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.disk.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        self.disk.truncate(path, len)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("stream-hold-{}", std::process::id()));
    let slow = Arc::new(AtomicU64::new(0));
    let disk = SlowDisk { disk: FileDisk::open(&dir)?, bytes_a_s: Arc::clone(&slow) };
    let engine = Engine::open_on(Arc::new(disk), Arc::new(SystemClock), EngineOptions::default())?;
    let stream = engine.streams().create("raw", StreamSettings::default())?;
    let document = vec![7; BYTES];
    let burst = vec![document.as_slice(); (DOCUMENTS_A_S / 1_000) as usize];
    let mut held = Vec::new();
    let began = Instant::now();
    let mut most = 0;
    for tick in 0..7_000 {
        // One second at full speed, five slow ones, one at full speed again.
        let is_slow = (1_000..1_000 + SLOW.as_millis() as u64).contains(&tick);
        slow.store(if is_slow { DOCUMENTS_A_S * BYTES as u64 / 10 } else { 0 }, Ordering::Relaxed);
        let due = Duration::from_millis(tick);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        let begun = Instant::now();
        stream.append(burst.iter().copied())?;
        held.push(begun.elapsed());
        most = most.max(engine.streams().buffered_bytes());
    }
    let appended = began.elapsed();
    stream.flush()?;
    let stats = stream.stats()?;
    held.sort_unstable();
    let at = |share: f64| held[((held.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "{} documents in {:.2} s, all on stable storage after {:.2} s",
        stats.documents,
        appended.as_secs_f64(),
        began.elapsed().as_secs_f64()
    );
    println!(
        "an append of {} held its caller {:.2} ms (median), {:.2} ms (p99.9), {:.2} ms (longest)",
        burst.len(),
        at(0.5),
        at(0.999),
        at(1.0)
    );
    println!("most in memory: {} MB", most / 1_000_000);
    drop(stream);
    drop(engine);
    std::fs::remove_dir_all(dir)?;
    Ok(())
}
