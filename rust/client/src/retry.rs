//! Retry policy: a pure function, without a clock.

use crate::{Failure, Retries, Stage};
use std::time::Duration;

/// Delay before attempt `attempt` (the first retry is 1); `None` if there is none.
///
/// An inference is repeated only if the server has not computed it: it could not be reached, or it reported overload
/// with a `Retry-After`. Requests that only read (`idempotent`) are also repeated after a lost connection, and when the
/// server is unavailable.
pub(crate) fn wait(retries: &Retries, attempt: u32, failure: &Failure, idempotent: bool) -> Option<Duration> {
    use penstock_core::Kind;
    if attempt > retries.attempts {
        return None;
    }
    let kind = failure.error.kind();
    let again = match failure.stage {
        Stage::NotSent => kind == Kind::Unavailable,
        Stage::Responded => {
            matches!(kind, Kind::Overloaded | Kind::Unavailable) && (idempotent || failure.error.retry_hint().is_some())
        }
        Stage::Unknown => idempotent && kind == Kind::Unavailable,
    };
    again.then(|| {
        let doubled = retries.backoff.saturating_mul(1 << (attempt - 1).min(20));
        doubled.max(failure.error.retry_hint().unwrap_or_default()).min(retries.max_backoff)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_core::{Error, Kind};

    const RETRIES: Retries =
        Retries { attempts: 3, backoff: Duration::from_millis(100), max_backoff: Duration::from_secs(1) };

    fn failure(kind: Kind, stage: Stage, after: Option<u64>) -> Failure {
        let error = Error::new(kind, "no");
        let error = after.map_or(error.clone(), |seconds| error.retry_after(Duration::from_secs(seconds)));
        Failure { error, status: None, stage }
    }

    #[test]
    fn inference_is_retried_only_if_not_computed() {
        for (failure, inference, reading) in [
            (failure(Kind::Unavailable, Stage::NotSent, None), true, true),
            (failure(Kind::Timeout, Stage::NotSent, None), false, false),
            (failure(Kind::InvalidInput, Stage::NotSent, None), false, false),
            (failure(Kind::Overloaded, Stage::Responded, Some(0)), true, true),
            (failure(Kind::Overloaded, Stage::Responded, None), false, true),
            (failure(Kind::Unavailable, Stage::Responded, None), false, true),
            (failure(Kind::Unavailable, Stage::Responded, Some(1)), true, true),
            (failure(Kind::Handler, Stage::Responded, Some(1)), false, false),
            (failure(Kind::Unavailable, Stage::Unknown, None), false, true),
            (failure(Kind::Unavailable, Stage::Unknown, Some(1)), false, true),
            (failure(Kind::Timeout, Stage::Unknown, None), false, false),
            (failure(Kind::Internal, Stage::Unknown, None), false, false),
        ] {
            assert_eq!(wait(&RETRIES, 1, &failure, false).is_some(), inference, "{failure:?}");
            assert_eq!(wait(&RETRIES, 1, &failure, true).is_some(), reading, "{failure:?}");
            assert_eq!(wait(&RETRIES, 4, &failure, true), None);
            assert_eq!(wait(&Retries { attempts: 0, ..RETRIES }, 1, &failure, true), None);
        }
    }

    #[test]
    fn backoff_doubles_and_follows_retry_after_up_to_its_maximum() {
        let waits = |after| {
            let failure = failure(Kind::Overloaded, Stage::Responded, Some(after));
            [1, 2, 3].map(|attempt| wait(&RETRIES, attempt, &failure, false).unwrap().as_millis())
        };
        assert_eq!(waits(0), [100, 200, 400]);
        assert_eq!(waits(60), [1000, 1000, 1000]);
    }
}
