//! What an agent delivered: findings, the evidence they stand on, and what the agent said it used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How bad a finding is. Ordered from worst to none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub enum Severity {
    /// Stop everything.
    P0,
    /// High.
    P1,
    /// Medium.
    P2,
    /// Low.
    P3,
    /// Not rated.
    #[default]
    #[serde(rename = "none")]
    None,
}

/// What the agent holds a finding to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Classification {
    /// A fact.
    Real,
    /// True under a condition.
    Conditional,
    /// Looked at and found to be no issue.
    NonIssue,
    /// Not said.
    #[default]
    Unknown,
}

/// A place that a claim is tied to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The locator as the agent wrote it, such as `src/main.rs:10-12`.
    pub locator: String,
    /// What kind of place it is.
    pub kind: EvidenceKind,
    /// For a file: its path relative to the workspace, with `/` between parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// For a file: the first line cited, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// For a file: the last line cited, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_line: Option<u32>,
    /// SHA-256 (`sha256:` and 64 hex digits) of the cited lines when the result was accepted, joined by `\n`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The first cited line when the result was accepted, cut to 200 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// What kind of place evidence names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceKind {
    /// A file of the workspace, with lines or without.
    File,
    /// A URL. Not fetched.
    Url,
    /// A `namespace:value` token. Not resolved.
    Token,
    /// Free text, which supports nothing.
    Ungrounded,
}

/// One claim of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// As the agent named it, or `finding-<n>`.
    pub id: String,
    /// The claim.
    #[serde(default)]
    pub summary: String,
    /// What the agent holds it to be.
    pub classification: Classification,
    /// How bad it is.
    pub severity: Severity,
    /// What it stands on.
    pub evidence: Vec<Evidence>,
}

/// What an agent said it used. A bucket it did not report is absent, never 0.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Tokens read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Tokens written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Tokens read from the provider's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to the provider's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_tokens: Option<u64>,
    /// The agent's own total.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
}

impl Usage {
    /// What counts against a budget: the reported total, else input and output together.
    #[must_use]
    pub fn spent(&self) -> u64 {
        self.total_tokens
            .unwrap_or_else(|| self.input_tokens.unwrap_or(0).saturating_add(self.output_tokens.unwrap_or(0)))
    }

    /// Whether nothing at all was reported.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
