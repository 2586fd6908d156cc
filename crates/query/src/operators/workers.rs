//! Workers of an operator: parts of its work that go on at the same time.
//!
//! The first part is done by the task that waits for it, each other in a task of its own: work that is one part wakes
//! no other thread, which costs more than a question about one instrument takes.

use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use futures::FutureExt;
use futures::future::BoxFuture;

/// Starts all parts, each of which is to be waited for. Those that are dropped end.
pub(super) fn started<T: Send + 'static, F>(
    parts: impl IntoIterator<Item = F>,
) -> Vec<BoxFuture<'static, Result<T>>>
where
    F: Future<Output = Result<T>> + Send + 'static,
{
    let start = |(at, part): (usize, F)| if at == 0 { part.boxed() } else { aside(part) };
    parts.into_iter().enumerate().map(start).collect()
}

/// What the parts give, in their order.
pub(super) async fn all<T: Send + 'static, F>(parts: impl IntoIterator<Item = F>) -> Result<Vec<T>>
where
    F: Future<Output = Result<T>> + Send + 'static,
{
    let parts = started(parts);
    let mut done = Vec::with_capacity(parts.len());
    for part in parts {
        done.push(part.await?);
    }
    Ok(done)
}

/// A part in a task of its own, which has begun. A panic in it goes on in who waits.
pub(super) fn aside<T: Send + 'static>(
    part: impl Future<Output = Result<T>> + Send + 'static,
) -> BoxFuture<'static, Result<T>> {
    let task = SpawnedTask::spawn(part);
    let joined =
        async { task.join_unwind().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))? };
    joined.boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_first_part_is_done_here_and_the_others_elsewhere() {
        let here = thread::current().id();
        let parts = (0..3).map(|part| async move { Ok((part, thread::current().id())) });
        let done = tokio::task::unconstrained(all(parts)).await.unwrap();
        assert_eq!(done.iter().map(|(part, _)| *part).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(done[0].1, here);
    }

    #[tokio::test]
    async fn an_error_of_any_part_is_the_error_of_all() {
        for bad in 0..3 {
            let parts = (0..3).map(move |part| async move {
                if part == bad { datafusion::common::exec_err!("part {part}") } else { Ok(part) }
            });
            assert!(all(parts).await.unwrap_err().to_string().contains(&format!("part {bad}")));
        }
    }
}
