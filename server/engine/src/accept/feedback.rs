//! What kind of fault a feedback record is about, from the fault's code and where it arose.
//!
//! Must not: look at messages. Codes are stable, words are not.

use flowdrive_protocol::feedback::{FeedbackClass, FeedbackSeverity, FeedbackSource};

use super::refusal::{EVIDENCE_UNRESOLVABLE, FINDING_WITHOUT_EVIDENCE};

/// A fault, as far as its class depends on it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fault<'a> {
    /// Its code, such as `missing-required-evidence`, in any case.
    pub code: &'a str,
    /// The stage it arose in, such as `verify`.
    pub stage: Option<&'a str>,
    /// Who found it, where that is known.
    pub source: Option<FeedbackSource>,
    /// Whether a stage's contract was checked and broken.
    pub contract: bool,
    /// Whether doing the same again could help.
    pub retryable: bool,
}

/// The class, the severity and the source of a fault's feedback record. The first rule that matches wins.
#[must_use]
pub fn classify(fault: &Fault<'_>) -> (FeedbackClass, FeedbackSeverity, FeedbackSource) {
    let class = class(fault);
    (class, severity(class, fault.retryable), fault.source.unwrap_or(default_source(class)))
}

fn class(fault: &Fault<'_>) -> FeedbackClass {
    let code = fault.code.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| code.contains(part));
    if has(&["missing-artifact", "artifact-path"]) {
        FeedbackClass::MissingArtifact
    } else if has(&["missing-required-evidence", "missing-evidence"]) {
        FeedbackClass::MissingEvidence
    } else if has(&["verifier"]) || fault.stage == Some("verify") || fault.source == Some(FeedbackSource::Verifier) {
        FeedbackClass::VerifierFailure
    } else if has(&["illegal-transition", "state-transition"]) {
        FeedbackClass::StateTransition
    } else if has(&["contract", "unexpected-node"]) || fault.contract {
        FeedbackClass::ContractViolation
    } else if code.starts_with("sandbox-") {
        FeedbackClass::SandboxPolicy
    } else if has(&["parse", "json"]) {
        FeedbackClass::ParseError
    } else if has(&["pipeline"]) {
        FeedbackClass::PipelineFailure
    } else if code == "runtime-error" {
        FeedbackClass::RuntimeError
    } else if [EVIDENCE_UNRESOLVABLE, FINDING_WITHOUT_EVIDENCE].contains(&code.as_str()) {
        // Codes the earlier tool does not have; none of its rules matches them.
        FeedbackClass::MissingEvidence
    } else {
        FeedbackClass::Unknown
    }
}

const fn severity(class: FeedbackClass, retryable: bool) -> FeedbackSeverity {
    use FeedbackClass as C;
    match class {
        C::VerifierFailure | C::ContractViolation => FeedbackSeverity::High,
        C::SandboxPolicy | C::StateTransition | C::MissingEvidence => FeedbackSeverity::Medium,
        C::MissingArtifact | C::ParseError | C::PipelineFailure if retryable => FeedbackSeverity::Medium,
        C::MissingArtifact | C::ParseError | C::PipelineFailure | C::RuntimeError | C::Unknown => FeedbackSeverity::Low,
    }
}

const fn default_source(class: FeedbackClass) -> FeedbackSource {
    use FeedbackClass as C;
    match class {
        C::ContractViolation | C::SandboxPolicy => FeedbackSource::Contract,
        C::VerifierFailure | C::MissingEvidence => FeedbackSource::Verifier,
        C::PipelineFailure => FeedbackSource::PipelineRunner,
        C::MissingArtifact | C::StateTransition | C::ParseError | C::RuntimeError | C::Unknown => {
            FeedbackSource::Manual
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use {FeedbackClass as C, FeedbackSeverity as S, FeedbackSource as F};

    fn of(code: &str) -> Fault<'_> {
        Fault { code, ..Fault::default() }
    }

    #[test]
    fn codes_have_their_class_severity_and_source() {
        for (code, class, severity, source) in [
            ("missing-artifact-path", C::MissingArtifact, S::Low, F::Manual),
            ("Missing-Artifact", C::MissingArtifact, S::Low, F::Manual),
            ("missing-required-artifact", C::Unknown, S::Low, F::Manual),
            ("missing-required-evidence", C::MissingEvidence, S::Medium, F::Verifier),
            ("verifier-gate-missing-evidence", C::MissingEvidence, S::Medium, F::Verifier),
            ("commit-verifier-evidence-unresolvable", C::VerifierFailure, S::High, F::Verifier),
            ("illegal-transition", C::StateTransition, S::Medium, F::Manual),
            ("invalid-contract-title", C::ContractViolation, S::High, F::Contract),
            ("unexpected-node-kind", C::ContractViolation, S::High, F::Contract),
            ("sandbox-write-denied", C::SandboxPolicy, S::Medium, F::Contract),
            ("a-sandbox-write", C::Unknown, S::Low, F::Manual),
            ("result-parse-error", C::ParseError, S::Low, F::Manual),
            ("pipeline-stage-error", C::PipelineFailure, S::Low, F::PipelineRunner),
            ("runtime-error", C::RuntimeError, S::Low, F::Manual),
            ("a-runtime-error", C::Unknown, S::Low, F::Manual),
            ("agent-delegation-parked", C::Unknown, S::Low, F::Manual),
            ("evidence-unresolvable", C::MissingEvidence, S::Medium, F::Verifier),
            ("finding-without-evidence", C::MissingEvidence, S::Medium, F::Verifier),
            ("", C::Unknown, S::Low, F::Manual),
        ] {
            assert_eq!(classify(&of(code)), (class, severity, source), "{code}");
        }
    }

    #[test]
    fn a_retryable_fault_matters_more_where_it_says_so() {
        for (code, severity) in [
            ("missing-artifact-path", S::Medium),
            ("result-parse-error", S::Medium),
            ("pipeline-stage-error", S::Medium),
            ("runtime-error", S::Low),
            ("whatever", S::Low),
        ] {
            assert_eq!(classify(&Fault { retryable: true, ..of(code) }).1, severity, "{code}");
        }
    }

    #[test]
    fn stage_source_and_contract_decide_where_the_code_does_not_come_first() {
        let verify = Fault { stage: Some("verify"), ..of("result-parse-error") };
        assert_eq!(classify(&verify), (C::VerifierFailure, S::High, F::Verifier));
        let verifier = Fault { source: Some(F::Verifier), ..of("whatever") };
        assert_eq!(classify(&verifier).0, C::VerifierFailure);
        let contract = Fault { contract: true, ..of("result-parse-error") };
        assert_eq!(classify(&contract).0, C::ContractViolation);
        let first = Fault { stage: Some("verify"), contract: true, ..of("missing-artifact-path") };
        assert_eq!(classify(&first).0, C::MissingArtifact);
    }

    #[test]
    fn a_known_source_is_kept() {
        let fault = Fault { source: Some(F::PipelineRunner), ..of("agent-delegation-parked") };
        assert_eq!(classify(&fault), (C::Unknown, S::Low, F::PipelineRunner));
    }
}
