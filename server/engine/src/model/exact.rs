//! Lists as they are kept: with no more room than they need. How long a list of a JSON text will be is not known before
//! its end, so that one item is read into room for four; a state of ten thousand tasks would be half made of that.

use flowdrive_protocol::outcome::Finding;
use serde::{Deserialize, Deserializer};

/// A list.
pub(super) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(input: D) -> Result<Vec<T>, D::Error> {
    let mut items = Vec::deserialize(input)?;
    items.shrink_to_fit();
    Ok(items)
}

/// A list of findings, and theirs of evidence.
pub(super) fn findings<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Finding>, D::Error> {
    let mut findings: Vec<Finding> = list(input)?;
    findings.iter_mut().for_each(|finding| finding.evidence.shrink_to_fit());
    Ok(findings)
}
