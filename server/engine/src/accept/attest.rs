//! Whether an agent's report of what it used is signed by the key that the user configured.
//!
//! The signature (Ed25519, base64) is over the canonical JSON of `{usage, runId, taskId, promptDigest, resultDigest?}`:
//! `promptDigest` is the SHA-256 of `input.md`, `resultDigest` that of `result.md`. A signer may leave `resultDigest` out;
//! its signature then stands for the usage alone. The form is the earlier tool's, so that its signing wrapper works.
//!
//! Must not: sign, or hold a private key.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ed25519_dalek::pkcs8::DecodePublicKey as _;
use ed25519_dalek::{Signature, VerifyingKey};
use serde_json::{Value, json};

use crate::model::journal::{Attestation, AttestationStatus};
use crate::model::outcome::AgentReport;
use crate::store::canonical::{sha256_hex, to_string};

/// What is claimed, and what it is claimed about.
pub struct Claim<'a> {
    /// What the agent said about itself.
    pub report: &'a AgentReport,
    /// The run.
    pub run: &'a str,
    /// The task.
    pub task: &'a str,
    /// SHA-256 of what the agent was given to read.
    pub prompt_digest: &'a str,
    /// The result's text.
    pub result: &'a str,
    /// The public key in PEM, where one is configured.
    pub key: Option<&'a str>,
}

/// What the report is worth.
#[must_use]
pub fn verify(claim: &Claim<'_>) -> Attestation {
    let Some(usage) =
        claim.report.raw_usage.as_ref().filter(|usage| usage.as_object().is_some_and(|map| !map.is_empty()))
    else {
        let reason = Some("agent reported no usage".to_owned());
        return Attestation { status: AttestationStatus::Absent, reason, covers_result: false, overridden: false };
    };
    let (status, reason, covers_result) = match check(claim, usage) {
        Ok(covers_result) => (AttestationStatus::Attested, None, covers_result),
        Err(reason) => (AttestationStatus::Unattested, Some(reason), false),
    };
    Attestation { status, reason, covers_result, overridden: false }
}

/// Whether the signature covers the result as well; or why it does not hold.
fn check(claim: &Claim<'_>, usage: &Value) -> Result<bool, String> {
    let signature = claim.report.usage_signature.as_deref().ok_or("reported usage carries no signature")?;
    let key =
        claim.key.ok_or("no trust key configured (set the agent's attestPublicKey, or CW_AGENT_ATTEST_PUBKEY)")?;
    let key = VerifyingKey::from_public_key_pem(key).map_err(|fault| format!("trust key unreadable: {fault}"))?;
    if signature.trim().is_empty() {
        return Err("signature is empty".to_owned());
    }
    let mismatch = || "signature does not match reported usage (tampered, replayed, or wrong key)".to_owned();
    let bytes = BASE64_STANDARD.decode(signature.trim()).map_err(|_| mismatch())?;
    let signature = Signature::from_slice(&bytes).map_err(|_| mismatch())?;
    for covers_result in [true, false] {
        let message = signed_text(claim, usage, covers_result)?;
        // Strict: keys and signatures that more than one message could verify under are refused.
        if key.verify_strict(message.as_bytes(), &signature).is_ok() {
            return Ok(covers_result);
        }
    }
    Err(mismatch())
}

/// What is signed.
fn signed_text(claim: &Claim<'_>, usage: &Value, with_result: bool) -> Result<String, String> {
    let mut payload = json!({
        "usage": usage,
        "runId": claim.run,
        "taskId": claim.task,
        "promptDigest": claim.prompt_digest,
    });
    if with_result {
        payload["resultDigest"] = json!(sha256_hex(claim.result));
    }
    to_string(&payload).map_err(|fault| fault.to_string())
}

#[cfg(test)]
mod tests {
    use ed25519_dalek::pkcs8::EncodePublicKey as _;
    use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
    use ed25519_dalek::{Signer as _, SigningKey};

    use super::*;

    /// A made-up key, for tests alone.
    fn signing_key() -> SigningKey {
        SigningKey::from_bytes(&[7; 32])
    }

    fn pem(key: &SigningKey) -> String {
        key.verifying_key().to_public_key_pem(LineEnding::LF).unwrap()
    }

    fn report(usage: Option<Value>, signature: Option<String>) -> AgentReport {
        AgentReport { raw_usage: usage.map(Box::new), usage_signature: signature, ..AgentReport::default() }
    }

    fn claim<'a>(report: &'a AgentReport, key: Option<&'a str>) -> Claim<'a> {
        Claim { report, run: "run-1", task: "map:a", prompt_digest: "sha256:p", result: "the result", key }
    }

    fn signed(usage: &Value, with_result: bool) -> String {
        let unsigned = report(Some(usage.clone()), None);
        let text = signed_text(&claim(&unsigned, None), usage, with_result).unwrap();
        BASE64_STANDARD.encode(signing_key().sign(text.as_bytes()).to_bytes())
    }

    #[test]
    fn the_payload_is_sorted_and_compact() {
        let usage = json!({ "output_tokens": 4, "input_tokens": 3 });
        let unsigned = report(Some(usage.clone()), None);
        let text = signed_text(&claim(&unsigned, None), &usage, false).unwrap();
        assert_eq!(
            text,
            r#"{"promptDigest":"sha256:p","runId":"run-1","taskId":"map:a","usage":{"input_tokens":3,"output_tokens":4}}"#
        );
    }

    #[test]
    fn a_signature_stands_for_what_it_was_made_over() {
        let usage = json!({ "input_tokens": 3, "output_tokens": 4 });
        let key = pem(&signing_key());
        for with_result in [true, false] {
            let signed = report(Some(usage.clone()), Some(signed(&usage, with_result)));
            let found = verify(&claim(&signed, Some(&key)));
            assert_eq!((found.status, found.covers_result), (AttestationStatus::Attested, with_result), "{found:?}");

            let edited = Claim { result: "another result", ..claim(&signed, Some(&key)) };
            let still = verify(&edited).status == AttestationStatus::Attested;
            assert_eq!(still, !with_result, "an edited result breaks only a signature over it");

            for other in [
                Claim { run: "run-2", ..claim(&signed, Some(&key)) },
                Claim { task: "map:b", ..claim(&signed, Some(&key)) },
                Claim { prompt_digest: "sha256:q", ..claim(&signed, Some(&key)) },
            ] {
                assert_eq!(verify(&other).status, AttestationStatus::Unattested, "replayed elsewhere");
            }
        }
        let inflated = report(Some(json!({ "input_tokens": 9 })), Some(signed(&usage, true)));
        assert_eq!(verify(&claim(&inflated, Some(&key))).status, AttestationStatus::Unattested);
    }

    #[test]
    fn what_is_missing_or_unreadable_is_said_and_never_attested() {
        let usage = json!({ "input_tokens": 3 });
        let (good, key) = (signed(&usage, true), pem(&signing_key()));
        let other = pem(&SigningKey::from_bytes(&[8; 32]));
        let table = [
            (None, Some(good.clone()), Some(key.as_str()), "no usage"),
            (Some(json!({})), Some(good.clone()), Some(key.as_str()), "no usage"),
            (Some(json!([1])), Some(good.clone()), Some(key.as_str()), "no usage"),
            (Some(usage.clone()), None, Some(key.as_str()), "no signature"),
            (Some(usage.clone()), Some(good.clone()), None, "no trust key"),
            (Some(usage.clone()), Some(good.clone()), Some("not a key"), "unreadable"),
            (Some(usage.clone()), Some(" ".to_owned()), Some(key.as_str()), "empty"),
            (Some(usage.clone()), Some("!!!".to_owned()), Some(key.as_str()), "does not match"),
            (Some(usage), Some(good), Some(other.as_str()), "does not match"),
        ];
        for (usage, signature, key, expected) in table {
            let report = report(usage, signature);
            let found = verify(&claim(&report, key));
            assert_ne!(found.status, AttestationStatus::Attested);
            assert!(found.reason.as_deref().unwrap().contains(expected), "{expected}: {found:?}");
        }
    }
}
