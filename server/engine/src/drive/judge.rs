//! Judging an attempt that ended: accept, try again, or park. Each is one event, so that it happens whole or not at all.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use flowdrive_protocol::event::ResultSource;
use flowdrive_protocol::feedback::FeedbackSource;
use flowdrive_protocol::ids::{TaskId, WorkerId};
use flowdrive_protocol::outcome::EvidenceKind;
use flowdrive_protocol::run::{StepAction, StepStatus};
use flowdrive_protocol::time::Timestamp;
use flowdrive_protocol::workflow::Task;

use super::Driver;
use crate::EngineError;
use crate::accept::refusal::{RESULT_PARSE_ERROR, SANDBOX_WRITE_DENIED, UNATTESTED_USAGE};
use crate::accept::{self, Accepted, FileLookup, Files, Refusal, Requirements, attest};
use crate::decide::feedback;
use crate::decide::retry::{After, Failure, after};
use crate::model::journal::{AcceptedResult, Attestation, AttestationStatus, JournalEvent, MAX_CARRIED};
use crate::model::outcome::{Ending, HandleKind, Outcome};
use crate::store::canonical::sha256_hex;
use crate::store::{StoreError, Workspace, WorkspaceFile, faults, task_name, worker};

/// The workspace, as evidence is looked up in it.
pub(super) struct OnDisk<'a>(pub(super) &'a Workspace);

impl Files for OnDisk<'_> {
    fn read(&self, path: &str) -> FileLookup {
        match self.0.read_workspace_file(path) {
            WorkspaceFile::Text(text) => FileLookup::Text(text),
            WorkspaceFile::Binary | WorkspaceFile::TooBig | WorkspaceFile::Special => FileLookup::Binary,
            WorkspaceFile::Unreadable => FileLookup::Unreadable("not readable by this user".to_owned()),
            WorkspaceFile::Folder => FileLookup::Folder,
            WorkspaceFile::Missing => FileLookup::Missing,
            WorkspaceFile::Outside => FileLookup::Outside,
        }
    }

    fn digest(&self, path: &str) -> Option<String> {
        self.0.digest_of_file(path)
    }

    fn real(&self, path: &str) -> Option<String> {
        self.0.real_path(path)
    }
}

/// Somebody else wrote to the result, or took it away, after its agent had ended.
fn changed_since() -> Refusal {
    Refusal::new(
        "result-changed",
        "result.md is no longer what the agent left: something it started went on and wrote to it. Finish before you exit",
    )
}

impl Driver {
    /// Judges an attempt whose outcome is recorded.
    pub(super) fn judge(&mut self, task: usize, worker: &WorkerId, outcome: &Outcome) -> Result<(), EngineError> {
        let id = self.job.record.state().tasks[task].id.clone();
        faults::settling(id.as_str());
        let failure = match &outcome.ending {
            Ending::Interrupted => {
                let reason = self.stop.as_ref().map_or("the agent was ended", |_| "the drive was stopped").to_owned();
                let event = JournalEvent::TaskInterrupted { task: id, worker: worker.clone(), reason };
                return Ok(self.job.record.record(&event)?);
            }
            Ending::Failed { code, reason, transient } => Failure {
                code: code.clone(),
                reason: match outcome.handle {
                    HandleKind::SubWorkflow => reason.clone(),
                    _ => format!("agent hop failed: {reason}"),
                },
                transient: *transient,
                by_agent: true,
            },
            Ending::Completed => match self.examine(task, worker, outcome)? {
                Ok((result, text)) => return self.accept(task, worker, outcome, result, text),
                Err(refusal) => {
                    let missing = refusal.code == "worker-result-missing";
                    let prefix = match outcome.handle {
                        HandleKind::ResultCache => "result cache rejected: ",
                        HandleKind::SubWorkflow => "sub-workflow result rejected by parent gate: ",
                        _ if missing => "",
                        _ => "result.md rejected: ",
                    };
                    Failure {
                        code: refusal.code.to_string(),
                        reason: format!("{prefix}{}", refusal.message),
                        transient: None,
                        by_agent: false,
                    }
                }
            },
        };
        self.fail(task, worker, &failure)
    }

    /// Reads and judges the attempt's result, and gives its text where the journal is to carry it. The outer error is the
    /// disk's, the inner one the agent's.
    fn examine(
        &self,
        task: usize,
        worker: &WorkerId,
        outcome: &Outcome,
    ) -> Result<Result<(AcceptedResult, Option<String>), Refusal>, StoreError> {
        let state = self.job.record.state();
        let (id, spec) = (state.tasks[task].id.clone(), state.spec(task).clone());
        drop(state);
        let folder = self.job.record.paths.worker(worker);
        let text = match worker::read_result(&folder) {
            Ok(Some(text)) => text,
            Ok(None) if outcome.result_digest.is_some() => return Ok(Err(changed_since())),
            Ok(None) => return Ok(Err(Refusal::new("worker-result-missing", "agent produced no result.md"))),
            Err(StoreError::ResultRefused { reason, escapes, .. }) => {
                let code = if escapes { SANDBOX_WRITE_DENIED } else { RESULT_PARSE_ERROR };
                return Ok(Err(Refusal::new(code, reason)));
            }
            Err(fault) => return Err(fault),
        };
        let digest = sha256_hex(&text);
        if outcome.result_digest.as_ref().is_some_and(|left| *left != digest) {
            return Ok(Err(changed_since()));
        }
        let root = self.job.workspace.root();
        let worker_dir = folder.dir.strip_prefix(root).ok().map(|path| path.to_string_lossy().replace('\\', "/"));
        let accepted = match weigh(&text, &id, &spec, worker_dir.as_deref(), &self.job.workspace) {
            Ok(accepted) => accepted,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let attestation = match self.attestation(task, worker, outcome, &text) {
            Ok(attestation) => attestation,
            Err(refusal) => return Ok(Err(refusal)),
        };
        // Published before it is recorded: a crash in between leaves a file nobody names, and never a name without file.
        // A power cut can take a file away that was not flushed, so one is flushed unless the journal carries the text.
        let carried = text.len() <= MAX_CARRIED;
        let path = worker::publish_result(&self.job.record.paths, &id, &text, !carried)?;
        let relative = path.strip_prefix(&self.job.record.paths.dir).unwrap_or(&path);
        let result = AcceptedResult {
            verified: supported(&accepted),
            summary: accepted.summary,
            findings: accepted.findings,
            evidence: accepted.evidence,
            empty_capture: accepted.empty_capture,
            path: relative.to_string_lossy().into_owned(),
            digest,
            bytes: text.len() as u64,
            usage: outcome.report.usage.clone(),
            attestation,
        };
        Ok(Ok((result, carried.then_some(text))))
    }

    /// What the agent's report of its usage is worth, and whether that is enough.
    fn attestation(
        &self,
        task: usize,
        worker: &WorkerId,
        outcome: &Outcome,
        result: &str,
    ) -> Result<Option<Attestation>, Refusal> {
        if matches!(outcome.handle, HandleKind::ResultCache | HandleKind::SubWorkflow) {
            return Ok(None);
        }
        let state = self.job.record.state();
        let Some(attempt) = state.tasks[task].attempts.iter().find(|attempt| attempt.worker == *worker) else {
            return Ok(None);
        };
        // An agent that is no longer configured cannot have asked for anything.
        let agent = self.job.agents.get(&attempt.agent).ok();
        let mut attestation = attest::verify(&attest::Claim {
            report: &outcome.report,
            run: state.run_id.as_str(),
            task: state.tasks[task].id.as_str(),
            prompt_digest: &attempt.prompt_digest,
            result,
            key: agent.and_then(|agent| agent.attest_public_key.as_deref()),
        });
        if agent.is_some_and(|agent| agent.require_attested_usage) && attestation.status != AttestationStatus::Attested
        {
            if !self.job.settings.allow_unattested {
                let why = attestation.reason.as_deref().unwrap_or("it is not signed");
                return Err(Refusal::new(
                    UNATTESTED_USAGE,
                    format!("agent {} must sign what it reports to have used: {why}", attempt.agent),
                ));
            }
            attestation.overridden = true;
        }
        Ok(Some(attestation))
    }

    fn accept(
        &mut self,
        task: usize,
        worker: &WorkerId,
        outcome: &Outcome,
        result: AcceptedResult,
        text: Option<String>,
    ) -> Result<(), EngineError> {
        let id = self.job.record.state().tasks[task].id.clone();
        self.job.record.record(&JournalEvent::TaskAccepted {
            task: id,
            worker: worker.clone(),
            source: match outcome.handle {
                HandleKind::ResultCache => ResultSource::Cache,
                HandleKind::SubWorkflow => ResultSource::SubWorkflow,
                HandleKind::Process | HandleKind::Endpoint => ResultSource::Agent,
            },
            result: Box::new(result),
            text,
        })?;
        if outcome.handle != HandleKind::ResultCache {
            self.keep_result(task, worker);
        }
        let step = self.push_step(task, worker, StepAction::Accept, StepStatus::Ok);
        step.handle_kind = Some(outcome.handle.as_str().into());
        step.reported_model = Some(outcome.report.model.clone().map_or("unreported".into(), Into::into));
        Ok(())
    }

    fn fail(&mut self, task: usize, worker: &WorkerId, failure: &Failure) -> Result<(), EngineError> {
        let state = self.job.record.state();
        let current = &state.tasks[task];
        let (id, failures, transient) = (current.id.clone(), current.failures, current.transient);
        let max = state.spec(task).max_attempts.unwrap_or(self.job.settings.max_attempts);
        let (run_id, number) = (state.run_id.clone(), current.attempts.len());
        drop(state);
        let now = Timestamp::now();
        match after(failure, failures, transient, max, jitter(), now) {
            After::Retry { counted, attempts, not_before } => {
                self.job.record.record(&JournalEvent::TaskRetrying {
                    task: id,
                    worker: worker.clone(),
                    counted,
                    attempts,
                    max_attempts: max.get(),
                    code: failure.code.clone(),
                    reason: failure.reason.clone(),
                    not_before,
                })?;
                let step = self.push_step(task, worker, StepAction::Fulfill, StepStatus::Failed);
                step.attempts = Some(attempts);
                step.reason = Some(failure.reason.clone());
            }
            After::Park { attempts, reason } => {
                let name = format!("{}-{number:04}", task_name(&id));
                let fault = feedback::Fault {
                    code: &failure.code,
                    message: &feedback::in_words(&id, worker, &reason),
                    stage: None,
                    source: failure.by_agent.then_some(FeedbackSource::PipelineRunner),
                    task: Some((&id, worker)),
                };
                let record = feedback::open(&run_id, &fault, &name, now)
                    .ok_or_else(|| EngineError::internal(format!("no feedback id can be made for task {id}")))?;
                self.job.record.record(&JournalEvent::TaskParked {
                    task: id,
                    worker: worker.clone(),
                    attempts,
                    code: failure.code.clone(),
                    reason: reason.clone(),
                    feedback: Box::new(record),
                })?;
                let step = self.push_step(task, worker, StepAction::Park, StepStatus::Parked);
                step.attempts = Some(attempts);
                step.reason = Some(reason);
            }
        }
        Ok(())
    }
}

/// Judges a result's text by what its task asks, and by the workspace as it is now. `worker_dir` is the attempt's own folder,
/// relative to the workspace, where there is one yet.
pub(crate) fn weigh(
    text: &str,
    task_id: &TaskId,
    spec: &Task,
    worker_dir: Option<&str>,
    workspace: &Workspace,
) -> Result<Accepted, Refusal> {
    let requirements = Requirements {
        task_id,
        requires_evidence: spec.requires_evidence,
        reviews_repo: spec.reviews_repo,
        artifacts: &spec.artifacts,
        roots: &[workspace.root().to_string_lossy().into_owned()],
        worker_dir,
    };
    accept::judge(&requirements, &accept::parse::parse(text)?, &OnDisk(workspace))
}

/// Whether evidence that holds stands behind a result, as a whole or behind a finding.
fn supported(result: &Accepted) -> bool {
    let of_findings = result.findings.iter().flat_map(|finding| &finding.evidence);
    result.evidence.iter().chain(of_findings).any(|evidence| evidence.kind != EvidenceKind::Ungrounded)
}

/// A number from 0 to 1, for backoff. Its quality does not matter; that two servers differ does.
fn jitter() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    f64::from(u32::try_from(random >> 32).unwrap_or(0)) / f64::from(u32::MAX)
}
