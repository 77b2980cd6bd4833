//! Reads, writes and waits that are futures.

use std::future::poll_fn;
use std::num::NonZeroU32;
use std::task::Poll;

use handoff_sync::event_word;

use super::descriptor::Synchronized;
use super::error::QueueError;
use super::event_flag::{EventFlag, NOT_EMPTY, NOT_FULL};
use super::item::Item;
use super::reader::Reader;
use super::watcher;
use super::writer::Writer;

impl EventFlag {
    /// [`EventFlag::wait`] without a thread of its own: one thread of the process watches up to 127 flags.
    ///
    /// Events are taken when the future is ready: one that is dropped before takes none.
    ///
    /// # Errors
    /// [`QueueError::NoBits`].
    pub async fn wait_async(&self, bits: u32) -> Result<u32, QueueError> {
        let bits = NonZeroU32::new(bits).ok_or(QueueError::NoBits)?;
        // Taken back when the future goes, whoever drops it.
        let mut watch = None;
        poll_fn(|context| {
            let (taken, rest) = event_word::take(self.word(), bits);
            if taken != 0 {
                watch = None;
                return Poll::Ready(Ok(taken));
            }
            // Raised since: the watcher sees at once that the word has another value.
            watch = Some(watcher::watch(self, rest, context.waker()));
            Poll::Pending
        })
        .await
    }
}

/// Runs `attempt` until it does not say that it has to wait any longer.
async fn run(
    flag: Option<&EventFlag>,
    wait_for: u32,
    notify: u32,
    mut attempt: impl FnMut() -> Result<(), QueueError>,
) -> Result<(), QueueError> {
    let flag = flag.ok_or(QueueError::NoEventFlag)?;
    loop {
        match attempt() {
            Err(QueueError::Full(_) | QueueError::Empty(_)) => flag.wait_async(wait_for).await?,
            other => break other?,
        };
    }
    flag.wake(notify)
}

impl<T: Item> Reader<T, Synchronized> {
    /// [`Reader::read_blocking`] as a future. Dropped before it is ready, it has read nothing.
    ///
    /// # Errors
    /// [`QueueError::NoEventFlag`]; else as [`Reader::read`].
    pub async fn read_async(&mut self, items: &mut [T]) -> Result<(), QueueError> {
        let flag = self.flag.clone();
        run(flag.as_ref(), NOT_EMPTY, NOT_FULL, || self.read(items)).await
    }
}

impl<T: Item> Writer<T, Synchronized> {
    /// [`Writer::write_blocking`] as a future. Dropped before it is ready, it has written nothing.
    ///
    /// # Errors
    /// [`QueueError::NoEventFlag`]; else as [`Writer::write`].
    pub async fn write_async(&mut self, items: &[T]) -> Result<(), QueueError> {
        let flag = self.flag.clone();
        run(flag.as_ref(), NOT_FULL, NOT_EMPTY, || self.write(items)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::MessageQueue;
    use std::sync::Arc;
    use std::time::Duration;

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
    }

    #[test]
    fn every_waiting_task_gets_its_event_on_one_thread() {
        block_on(async {
            // More than one watcher may watch.
            let flags: Vec<_> = (0..300).map(|_| Arc::new(EventFlag::new().unwrap())).collect();
            let tasks: Vec<_> = flags
                .iter()
                .map(|flag| {
                    let flag = Arc::clone(flag);
                    tokio::spawn(async move { flag.wait_async(0b10).await })
                })
                .collect();
            tokio::time::sleep(Duration::from_millis(20)).await;
            for flag in &flags {
                flag.wake(0b01).unwrap();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(!tasks.iter().any(|task| task.is_finished()), "another event than theirs");
            for flag in &flags {
                flag.wake(0b10).unwrap();
            }
            for task in tasks {
                let got = tokio::time::timeout(Duration::from_secs(60), task).await.unwrap();
                assert_eq!(got.unwrap().unwrap(), 0b10);
            }
            assert_eq!(flags[0].take(0b11).unwrap(), 0b01, "what nobody waited for is still there");
        });
    }

    #[test]
    fn a_wait_that_is_dropped_takes_no_event() {
        block_on(async {
            let flag = EventFlag::new().unwrap();
            let early = tokio::time::timeout(Duration::from_millis(20), flag.wait_async(1)).await;
            assert!(early.is_err());
            flag.wake(1).unwrap();
            assert_eq!(flag.wait_async(1).await.unwrap(), 1);
            assert!(matches!(flag.wait_async(0).await, Err(QueueError::NoBits)));
        });
    }

    #[test]
    fn a_queue_is_written_and_read_by_two_tasks_of_one_thread() {
        block_on(async {
            let queue = MessageQueue::<u64, Synchronized>::with_event_flag(4).unwrap();
            let (mut writer, mut reader) = (queue.writer().unwrap(), queue.reader().unwrap());
            let writing = tokio::spawn(async move {
                for n in 0..10_000u64 {
                    writer.write_async(&[n]).await.unwrap();
                }
            });
            for n in 0..10_000u64 {
                let mut got = [0];
                reader.read_async(&mut got).await.unwrap();
                assert_eq!(got, [n]);
            }
            writing.await.unwrap();
        });
    }

    #[test]
    fn a_thread_that_writes_wakes_a_task_that_reads() {
        let queue = MessageQueue::<u64, Synchronized>::with_event_flag(16).unwrap();
        let (mut writer, mut reader) = (queue.writer().unwrap(), queue.reader().unwrap());
        let writing = std::thread::spawn(move || {
            for n in 0..5_000u64 {
                writer.write_blocking(&[n], None).unwrap();
            }
        });
        block_on(async {
            for n in 0..5_000u64 {
                let mut got = [0];
                reader.read_async(&mut got).await.unwrap();
                assert_eq!(got, [n]);
            }
        });
        writing.join().unwrap();
    }
}
