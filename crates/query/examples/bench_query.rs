//! Benchmark: one query, end to end in the process; prints one JSON object.
//!
//! usage: bench_query DIR SQL [RUNS [SETTING]]
//!
//! Opens the database, runs SETTING (`SET block_statistics = false`), the query a few times to warm it, then RUNS
//! times (default 51) on one session. `total` is from the SQL text to the last row; `planning` and `execution` are its
//! parts. `{run}` in the SQL becomes the number of the run, so that an alias `a{run}` makes each a new statement.

use std::error::Error;
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use tickstone_query::{Database, DatabaseOptions, Outcome, Session};

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What one run took.
struct Run {
    planning: Duration,
    total: Duration,
    rows: usize,
}

/// Runs before the measured ones: as many, or those of so long.
const WARM_RUNS: usize = 10;
const WARM_TIME: Duration = Duration::from_secs(2);

async fn run(session: &mut Session, sql: &str) -> Result<Run, Box<dyn Error>> {
    let began = Instant::now();
    let (mut rows, mut planned) = (0, Duration::ZERO);
    for statement in session.parse(sql)? {
        if let Outcome::Rows { stream, planning, .. } = session.run(statement).await? {
            planned += planning;
            let batches: Vec<_> = stream.try_collect().await?;
            rows += batches.iter().map(arrow_array::RecordBatch::num_rows).sum::<usize>();
        }
    }
    Ok(Run { planning: planned, total: began.elapsed(), rows })
}

/// Median, least and greatest in ms, as JSON.
fn spread(mut values: Vec<Duration>) -> String {
    values.sort_unstable();
    let ms = |at: usize| values[at].as_secs_f64() * 1e3;
    let last = values.len() - 1;
    format!("{{\"median_ms\": {:.3}, \"min_ms\": {:.3}, \"max_ms\": {:.3}}}", ms(last / 2), ms(0), ms(last))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: bench_query DIR SQL [RUNS [SETTING]]";
    let (dir, sql) = (arguments.next().ok_or(usage)?, arguments.next().ok_or(usage)?);
    let runs: usize = arguments.next().map_or(Ok(51), |text| text.parse())?;
    let setting = arguments.next().filter(|setting| !setting.is_empty());
    let opened = Instant::now();
    let database = Database::open(&dir, DatabaseOptions::default())?;
    let opening = opened.elapsed();
    let mut session = database.session();
    let measured = database.runtime().block_on(async {
        if let Some(setting) = &setting {
            run(&mut session, setting).await?;
        }
        let warming = Instant::now();
        let nth = |at: usize| sql.replace("{run}", &at.to_string());
        for at in 0..WARM_RUNS {
            run(&mut session, &nth(at)).await?;
            if warming.elapsed() > WARM_TIME {
                break;
            }
        }
        let mut measured = Vec::with_capacity(runs);
        for at in WARM_RUNS..WARM_RUNS + runs.max(1) {
            measured.push(run(&mut session, &nth(at)).await?);
        }
        Ok::<_, Box<dyn Error>>(measured)
    })?;
    let planning = measured.iter().map(|run| run.planning).collect();
    let execution = measured.iter().map(|run| run.total - run.planning).collect();
    let total = measured.iter().map(|run| run.total).collect();
    println!(
        "{{\"runs\": {}, \"rows\": {}, \"open_ms\": {:.3}, \"planning\": {}, \"execution\": {}, \"total\": {}}}",
        measured.len(),
        measured[0].rows,
        opening.as_secs_f64() * 1e3,
        spread(planning),
        spread(execution),
        spread(total),
    );
    Ok(())
}
