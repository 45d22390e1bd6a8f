//! An outcome in the making: what every delegation starts from, whichever way it is carried out.
//!
//! Must not: hold anything that has not been redacted.

use std::sync::Arc;

use flowdrive_protocol::time::Timestamp;

use super::redact::Redactor;
use crate::model::outcome::{AgentReport, Ending, HandleKind, Outcome, Transient};

/// What is known before the end.
#[derive(Debug)]
pub(super) struct Draft {
    outcome: Outcome,
    redactor: Arc<Redactor>,
}

impl Draft {
    /// A delegation that begins now. `invocation` has been redacted.
    #[must_use]
    pub(super) fn new(
        handle: HandleKind,
        invocation: String,
        forwarded_env: Vec<String>,
        redactor: &Arc<Redactor>,
    ) -> Self {
        let now = Timestamp::now();
        let outcome = Outcome {
            ending: Ending::Interrupted,
            handle,
            invocation,
            exit_code: None,
            report: AgentReport::default(),
            stdout_digest: None,
            result_digest: None,
            stderr_tail: String::new(),
            forwarded_env,
            leaked: false,
            started_at: now,
            ended_at: now,
        };
        Self { outcome, redactor: Arc::clone(redactor) }
    }

    /// The outcome, to be filled in.
    pub(super) fn edit(&mut self) -> &mut Outcome {
        &mut self.outcome
    }

    /// It ended well.
    #[must_use]
    pub(super) fn completed(self) -> Outcome {
        self.end(Ending::Completed)
    }

    /// It was told to stop.
    #[must_use]
    pub(super) fn interrupted(self) -> Outcome {
        self.end(Ending::Interrupted)
    }

    /// It failed.
    #[must_use]
    pub(super) fn failed(self, code: &str, reason: &str, transient: Option<Transient>) -> Outcome {
        let reason = self.redactor.redact_text(reason).into_owned();
        self.end(Ending::Failed { code: code.to_owned(), reason, transient })
    }

    fn end(mut self, ending: Ending) -> Outcome {
        self.outcome.ending = ending;
        self.outcome.ended_at = Timestamp::now();
        self.outcome
    }
}
