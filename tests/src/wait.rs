//! Waiting for something to become true. The limit is a guard against hanging, not a claim about speed.

use std::future::Future;
use std::time::Duration;

/// How long a test waits for anything before it fails.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `ready` gives a value. For things that nothing announces, such as another program's files.
///
/// # Panics
/// When that takes longer than [`PATIENCE`].
pub async fn until<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    within(what, async {
        loop {
            if let Some(value) = ready() {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

/// Waits for a future.
///
/// # Panics
/// When that takes longer than [`PATIENCE`].
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited {PATIENCE:?} for {what}"),
    }
}

/// Milliseconds since the Unix epoch: the clock that agents, endpoints and tests on one machine share.
#[must_use]
pub fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("the clock is past 1970");
    u64::try_from(since.as_millis()).expect("milliseconds fit for some 500 million years")
}
