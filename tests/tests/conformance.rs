//! The earlier tool's behaviour, statement by statement: one case or a few for each, against the real binary. A case is named
//! after its statement's section and number, and its rule. `tests/conformance/table.toml` has the rules in words, says which
//! cases show each, and whether Flowdrive does the same or differs on purpose; then the case tests Flowdrive's own rule.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../conformance/accept.rs"]
mod accept;
#[path = "../conformance/cache.rs"]
mod cache;
#[path = "../conformance/delegation.rs"]
mod delegation;
#[path = "../conformance/drive_end.rs"]
mod drive_end;
#[path = "../conformance/drive_loop.rs"]
mod drive_loop;
#[path = "../conformance/endings.rs"]
mod endings;
#[path = "../conformance/endpoint_table.rs"]
mod endpoint_table;
#[path = "../conformance/endpoints.rs"]
mod endpoints;
#[path = "../conformance/environment.rs"]
mod environment;
#[path = "../conformance/feedback.rs"]
mod feedback;
#[path = "../conformance/later.rs"]
mod later;
#[path = "../conformance/lock.rs"]
mod lock;
#[path = "../conformance/loops.rs"]
mod loops;
#[path = "../conformance/rounds.rs"]
mod rounds;
#[path = "../conformance/store.rs"]
mod store;
#[path = "../conformance/support.rs"]
mod support;
#[path = "../conformance/surface.rs"]
mod surface;
#[path = "../conformance/table.rs"]
mod table;
#[path = "../conformance/weak_points.rs"]
mod weak_points;
