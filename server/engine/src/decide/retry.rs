//! What a failed attempt leads to.

use std::num::NonZeroU32;
use std::time::Duration;

use flowdrive_protocol::time::Timestamp;

use crate::model::outcome::Transient;

/// Passing faults in a row that do not count as attempts. The next one does.
pub const MAX_TRANSIENT: u32 = 8;

/// The same where nobody listens at all: whoever forgot to start an endpoint is to hear of it soon.
pub const MAX_REFUSED: u32 = 4;

/// The longest pause between two attempts, whatever the other side asks for.
pub const MAX_PAUSE: Duration = Duration::from_secs(15 * 60);

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The fault's code.
    pub code: String,
    /// In a sentence.
    pub reason: String,
    /// Set when the fault may pass by itself.
    pub transient: Option<Transient>,
    /// Whether the agent itself failed, rather than its result being refused.
    pub by_agent: bool,
}

/// What a failed attempt leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum After {
    /// The task is tried again.
    Retry {
        /// Whether the attempt counts.
        counted: bool,
        /// Attempts that counted, this one included if it does.
        attempts: u32,
        /// When the next one may start.
        not_before: Option<Timestamp>,
    },
    /// The task parks.
    Park {
        /// Attempts that counted.
        attempts: u32,
        /// The reason with the count: `<reason> (attempt <n>/<max>)`.
        reason: String,
    },
}

/// Decides. `failures` and `transient` are the task's counts before this attempt; `jitter` is a number from 0 to 1.
#[must_use]
pub fn after(
    failure: &Failure,
    failures: u32,
    transient: u32,
    max_attempts: NonZeroU32,
    jitter: f64,
    now: Timestamp,
) -> After {
    if let Some(passing) = failure.transient.filter(|passing| transient < most_in_a_row(*passing)) {
        let pause = pause(passing, transient, jitter);
        let millis = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
        let not_before = Timestamp::from_millis(now.as_millis().saturating_add(millis));
        return After::Retry { counted: false, attempts: failures, not_before: Some(not_before) };
    }
    let attempts = failures + 1;
    let max = max_attempts.get();
    if attempts >= max {
        After::Park { attempts, reason: format!("{} (attempt {attempts}/{max})", failure.reason) }
    } else {
        After::Retry { counted: true, attempts, not_before: None }
    }
}

const fn most_in_a_row(passing: Transient) -> u32 {
    if passing.refused { MAX_REFUSED } else { MAX_TRANSIENT }
}

/// Exponential backoff with full jitter, never shorter than the other side asked for.
fn pause(passing: Transient, transient: u32, jitter: f64) -> Duration {
    let ceiling = FIRST_PAUSE.saturating_mul(1 << transient.min(20)).min(LONGEST_BACKOFF);
    let backoff = ceiling.mul_f64(jitter.clamp(0.0, 1.0));
    let asked = Duration::from_millis(passing.retry_after_ms.unwrap_or(0));
    backoff.max(asked).min(MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(transient: Option<Transient>) -> Failure {
        Failure { code: "c".into(), reason: "it broke".into(), transient, by_agent: true }
    }

    const THREE: NonZeroU32 = NonZeroU32::new(3).unwrap();

    #[test]
    fn the_third_failure_of_three_parks_with_the_count_in_the_reason() {
        let now = Timestamp::from_millis(0);
        let retry = |attempts| After::Retry { counted: true, attempts, not_before: None };
        assert_eq!(after(&failure(None), 0, 0, THREE, 0.5, now), retry(1));
        assert_eq!(after(&failure(None), 1, 0, THREE, 0.5, now), retry(2));
        let park = After::Park { attempts: 3, reason: "it broke (attempt 3/3)".into() };
        assert_eq!(after(&failure(None), 2, 0, THREE, 0.5, now), park);
    }

    #[test]
    fn passing_faults_wait_and_do_not_count_until_there_are_too_many() {
        let now = Timestamp::from_millis(1_000);
        let asked = Some(Transient { retry_after_ms: Some(7_000), refused: false });
        match after(&failure(asked), 2, 0, THREE, 1.0, now) {
            After::Retry { counted: false, attempts: 2, not_before: Some(time) } => assert_eq!(time.as_millis(), 8_000),
            other => panic!("{other:?}"),
        }
        assert!(matches!(after(&failure(asked), 2, MAX_TRANSIENT, THREE, 1.0, now), After::Park { attempts: 3, .. }));
        let huge = Some(Transient { retry_after_ms: Some(u64::MAX), refused: false });
        match after(&failure(huge), 0, 0, THREE, 1.0, now) {
            After::Retry { not_before: Some(time), .. } => {
                assert_eq!(time.as_millis(), 1_000 + i64::try_from(MAX_PAUSE.as_millis()).unwrap());
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn where_nobody_listens_the_first_attempt_counts_within_seconds() {
        let refused = failure(Some(Transient { refused: true, ..Transient::default() }));
        let mut now = Timestamp::from_millis(0);
        for transient in 0..MAX_REFUSED {
            match after(&refused, 0, transient, THREE, 1.0, now) {
                After::Retry { counted: false, attempts: 0, not_before: Some(time) } => now = time,
                other => panic!("{other:?}"),
            }
        }
        assert!(now.as_millis() < 10_000, "{now}");
        assert!(matches!(after(&refused, 0, MAX_REFUSED, THREE, 1.0, now), After::Retry { counted: true, .. }));
    }

    #[test]
    fn backoff_grows_with_each_fault_and_has_a_ceiling() {
        let free = Transient::default();
        let pauses: Vec<Duration> = (0..12).map(|n| pause(free, n, 1.0)).collect();
        assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(pauses[0], FIRST_PAUSE);
        assert_eq!(pauses[11], LONGEST_BACKOFF);
        assert_eq!(pause(free, 3, 0.0), Duration::ZERO);
    }
}
