//! Identifiers. Each has its own type and its own grammar, checked where it enters, so that an id held by any part of
//! the program is known to be well-formed: run, worker and feedback ids are always single path segments.
//!
//! Copies share their text: a run of ten thousand tasks names each of them, its phase and its agent in many places.

use std::{borrow::Cow, fmt, sync::Arc};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

/// Longest id that becomes a file name, in bytes. File systems stop at 255; what is left is room for suffixes.
pub const MAX_ID_BYTES: usize = 180;

/// Why a text is not an id of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid {kind} {text:?}: must match {grammar}, at most {max} bytes, and not be a reserved name such as `..`")]
pub struct InvalidId {
    /// What the text was meant to be, such as `run id`.
    pub kind: &'static str,
    /// The text, cut to its first 60 characters.
    pub text: String,
    /// The grammar it breaks, as a regular expression.
    pub grammar: &'static str,
    /// The most bytes such an id may have.
    pub max: usize,
}

macro_rules! id {
    ($(#[doc = $doc:literal])* $name:ident, $kind:literal, $grammar:literal, max: $max:expr, first: $first:expr, rest: $rest:expr $(, not: $not:expr)?) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The grammar, as a regular expression.
            pub const GRAMMAR: &'static str = $grammar;

            /// Longest id accepted, in bytes.
            pub const MAX_BYTES: usize = $max;

            /// Checks the text against the grammar.
            ///
            /// # Errors
            /// [`InvalidId`] when it does not fit.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidId> {
                let text: String = text.into();
                let first: fn(char) -> bool = $first;
                let rest: fn(char) -> bool = $rest;
                let fits = text.chars().next().is_some_and(first)
                    && text.chars().all(rest)
                    && text.len() <= Self::MAX_BYTES
                    && text != "."
                    && text != ".."
                    $(&& !$not(&text))?;
                if fits {
                    Ok(Self(text.into()))
                } else {
                    Err(InvalidId { kind: $kind, text: text.chars().take(60).collect(), grammar: $grammar, max: $max })
                }
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(Cow::<'de, str>::deserialize(deserializer)?).map_err(de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let description = concat!($($doc),*).trim();
                json_schema!({ "description": description, "type": "string", "pattern": $grammar, "maxLength": $name::MAX_BYTES })
            }
        }
    };
}

/// Names that stand for something else: `latest` for the newest run where a person types one; and those that Windows opens
/// as a device, whatever extension follows, or without their last dot.
fn is_reserved(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let stem = lower.split('.').next().unwrap_or_default();
    let numbered = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
    lower == "latest"
        || text.ends_with('.')
        || matches!(stem, "con" | "prn" | "aux" | "nul")
        || numbered.is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

const fn word(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

id!(
    /// A run: one execution of a workflow, and the name of its folder under `.cw/runs/`.
    RunId, "run id", "^[A-Za-z0-9._:-]+$", max: MAX_ID_BYTES, first: |c| word(c) || "._:-".contains(c), rest: |c| word(c) || "._:-".contains(c), not: is_reserved
);
id!(
    /// A workflow's id.
    WorkflowId, "workflow id", "^[a-z0-9][a-z0-9.-]*$", max: MAX_ID_BYTES,
    first: |c| c.is_ascii_lowercase() || c.is_ascii_digit(),
    rest: |c| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c)
);
id!(
    /// A phase's id, unique in its workflow.
    PhaseId, "phase id", "^[A-Za-z0-9][A-Za-z0-9_.:@-]*$", max: MAX_ID_BYTES, first: word, rest: |c| word(c) || "_.:@-".contains(c)
);
id!(
    /// A task's id, unique in its workflow. A looped task's later rounds carry `@r<n>`.
    TaskId, "task id", "^[A-Za-z0-9][A-Za-z0-9_.:/@-]*$", max: MAX_ID_BYTES, first: word, rest: |c| word(c) || "_.:/@-".contains(c)
);
id!(
    /// One attempt at a task, and the name of its folder.
    WorkerId, "worker id", "^[A-Za-z0-9][A-Za-z0-9_.:-]*$", max: MAX_ID_BYTES, first: word, rest: |c| word(c) || "_.:-".contains(c)
);
id!(
    /// A feedback record.
    FeedbackId, "feedback id", "^[A-Za-z0-9][A-Za-z0-9_.:-]*$", max: MAX_ID_BYTES, first: word, rest: |c| word(c) || "_.:-".contains(c)
);
id!(
    /// A commit of a run, such as `state-0001`.
    CommitId, "commit id", "^[A-Za-z0-9][A-Za-z0-9_.:-]*$", max: MAX_ID_BYTES, first: word, rest: |c| word(c) || "_.:-".contains(c)
);
id!(
    /// An agent as the user's configuration names it, or a built-in one such as `builtin:survey`.
    AgentName, "agent name", "^[A-Za-z0-9][A-Za-z0-9_.:-]*$", max: MAX_ID_BYTES, first: word, rest: |c| word(c) || "_.:-".contains(c)
);
id!(
    /// The name of a workflow input.
    InputName, "input name", "^[A-Za-z][A-Za-z0-9_-]*$", max: MAX_ID_BYTES, first: |c| c.is_ascii_alphabetic(), rest: |c| word(c) || "_-".contains(c)
);
id!(
    /// A node of a run's provenance graph, such as `<run>:verifier:<task>`.
    NodeId, "node id", "^[A-Za-z0-9._:/@-]+$", max: 2 * MAX_ID_BYTES + 40, first: |c| word(c) || "._:-".contains(c), rest: |c| word(c) || "._:/@-".contains(c)
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_could_leave_their_folder_are_refused() {
        for text in ["", ".", "..", "a/b", "a\\b", "a\0b", "/abs", "a b", &"x".repeat(300)] {
            assert!(RunId::new(text).is_err(), "{text:?}");
        }
        for text in ["latest", "Latest", "con", "NUL", "aux.1", "com7", "LPT0.x", "a.", "nul.", "..."] {
            assert!(RunId::new(text).is_err(), "{text:?} is reserved");
        }
        for text in ["latest-1", "con-1", "company", "com10", "v.1", ".hidden", "null"] {
            assert!(RunId::new(text).is_ok(), "{text:?} is a name like any other");
        }
        for text in ["v1..2", "quick-survey-20260102T030405Z-abc123", "a:b"] {
            assert!(RunId::new(text).is_ok(), "{text:?}");
        }
        assert!(TaskId::new("map:a/b").is_ok());
        assert!(TaskId::new("-x").is_err());
        assert!(serde_json::from_str::<RunId>("\"../x\"").is_err());
    }
}
