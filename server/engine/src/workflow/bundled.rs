//! The workflows that come with Flowdrive.

/// One of them: its id, and its text as TOML.
pub(super) struct Bundled {
    pub(super) id: &'static str,
    pub(super) text: &'static str,
}

/// All of them, in the order they are listed.
pub(super) const BUNDLED: [Bundled; 3] = [
    Bundled { id: "architecture-review", text: include_str!("../../workflows/architecture-review.toml") },
    Bundled { id: "quick-survey", text: include_str!("../../workflows/quick-survey.toml") },
    Bundled { id: "research-synthesis", text: include_str!("../../workflows/research-synthesis.toml") },
];

/// The bundled workflow of an id.
pub(super) fn find(id: &str) -> Option<&'static Bundled> {
    BUNDLED.iter().find(|bundled| bundled.id == id)
}
