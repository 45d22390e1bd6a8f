//! Filled in on its own branch.
