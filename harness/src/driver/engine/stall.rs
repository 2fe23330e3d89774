//! Notices that a run waits for something that nobody will ever give.
//!
//! Everything that an engine asks for is in memory and on its thread, so whatever it waits for wakes
//! it before its own poll returns. Where nothing did, it waits for ever. This is no deadline: no time
//! passes, and the same run always ends at the same place.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Polls without any wake that a run is given: a runtime may hold a wake back until it was yielded to.
const SILENT_POLLS_MAX: usize = 16;

/// Whether it was woken since it was last asked.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a future to its end; `None` where it waits for ever.
pub(super) async fn run<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut silent = 0;
    poll_fn(|outer| {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Poll::Ready(Some(value));
        }
        silent = if woken.0.swap(false, Ordering::Relaxed) {
            0
        } else {
            silent + 1
        };
        if silent > SILENT_POLLS_MAX {
            return Poll::Ready(None);
        }
        outer.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn what_is_woken_goes_on_and_what_is_not_ends() {
        assert_eq!(run(std::future::pending::<()>()).await, None);
        let yields = async {
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
            7
        };
        assert_eq!(run(yields).await, Some(7));
    }
}
