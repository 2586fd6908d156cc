//! The simulator for hours: `cargo run --release -p tickstone-sim -- --seeds 1.. --minutes 60`.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tickstone_sim::{Report, RunOptions, STEPS, run, shrink};

const HELP: &str = "\
Runs the engine of Tickstone on a simulated disk that fails, one seed after the other.

Usage: tickstone-sim [--seeds FROM..TO] [--minutes N] [--steps N] [--threads N] [--verbose]

  --seeds FROM..TO  seeds to run, TO left out or open (1.. goes on for ever); one number is one seed;
                    default 1..1001
  --minutes N       stop after so many minutes
  --steps N         steps of each seed, default 80
  --threads N       seeds at a time, default the machine's
  --verbose         a line for each seed, with the hash of its disk calls

Prints the seed, the last steps and a shorter run of what fails; the exit code is 1 then.";

#[derive(Debug, Clone)]
struct Arguments {
    first: u64,
    end: u64,
    minutes: Option<f64>,
    options: RunOptions,
    threads: usize,
    verbose: bool,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut arguments = Arguments {
        first: 1,
        end: 1_001,
        minutes: None,
        options: RunOptions::default(),
        threads,
        verbose: false,
    };
    arguments.options.steps = STEPS;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("'{text}' is no number"));
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--seeds" => {
                let text = value()?;
                (arguments.first, arguments.end) = match text.split_once("..") {
                    None => (number(&text)?, number(&text)?.saturating_add(1)),
                    Some((first, "")) => (number(first)?, u64::MAX),
                    Some((first, end)) => (number(first)?, number(end)?),
                };
            }
            "--minutes" => {
                let text = value()?;
                arguments.minutes = Some(text.parse().map_err(|_| format!("'{text}' is no number"))?);
            }
            "--steps" => arguments.options.steps = number(&value()?)? as usize,
            "--threads" => arguments.threads = (number(&value()?)? as usize).max(1),
            "--verbose" => arguments.verbose = true,
            other => return Err(format!("'{other}' is no option")),
        }
    }
    Ok(Some(arguments))
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(what) => {
            eprintln!("{what}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    // Panics of the engine are reported with their seed.
    std::panic::set_hook(Box::new(|_| {}));
    let started = Instant::now();
    let (next, seeds) = (AtomicU64::new(arguments.first), AtomicU64::new(0));
    let (failed, total) = (AtomicBool::new(false), Mutex::new(Report::default()));
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(|| {
                let time_left = || {
                    arguments
                        .minutes
                        .is_none_or(|minutes| started.elapsed() < Duration::from_secs_f64(minutes * 60.0))
                };
                while !failed.load(Ordering::Relaxed) && time_left() {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= arguments.end {
                        break;
                    }
                    let report = run(seed, arguments.options);
                    seeds.fetch_add(1, Ordering::Relaxed);
                    if arguments.verbose {
                        println!(
                            "seed {seed}: {} steps, {} calls, hash {:016x}",
                            report.steps, report.calls, report.hash
                        );
                    }
                    if let Some(failure) = &report.failure {
                        failed.store(true, Ordering::Relaxed);
                        println!("seed {seed} failed: {failure}");
                        if let Some((steps, failure)) = shrink(seed, arguments.options, 300) {
                            println!("\nseed {seed} with {steps} steps: {failure}");
                        }
                    }
                    if let Ok(mut total) = total.lock() {
                        total.add(&report);
                    }
                }
            });
        }
    });
    let total = total.into_inner().unwrap_or_default();
    print_totals(&total, seeds.into_inner(), started.elapsed());
    ExitCode::from(u8::from(failed.into_inner()))
}

fn print_totals(total: &Report, seeds: u64, elapsed: Duration) {
    let faults = &total.faults;
    println!(
        "{seeds} seeds in {:.1} s ({:.1} seeds/s): {} steps, {} rows acknowledged, {} disk calls, {} bytes written",
        elapsed.as_secs_f64(),
        seeds as f64 / elapsed.as_secs_f64().max(1e-9),
        total.steps,
        total.rows,
        total.calls,
        total.bytes,
    );
    println!(
        "crashes: {} power cuts, {} kills; faults: {} syncs, {} folder syncs, {} appends, {} names, {} reads, \
         {} short reads, {} disk full, {} slow calls",
        faults.power_cuts,
        faults.kills,
        faults.sync,
        faults.sync_dir,
        faults.append,
        faults.names,
        faults.read,
        faults.short_read,
        faults.full,
        faults.slow,
    );
}
