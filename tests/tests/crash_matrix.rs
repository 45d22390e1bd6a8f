//! The short form of the crash matrix: some of the points at which a server can die, or its disk fail. The whole of it is
//! `cargo run -p flowdrive-tests --bin crash-matrix`. Different points in each test, so that together they reach far.

use flowdrive_tests::binary;
use flowdrive_tests::matrix::{self, Blow};

async fn some_points(blow: Blow, first: u64, stride: u64) {
    let summary = matrix::run(binary::fault_injected(), blow, first, stride, &mut |_| ()).await;
    assert!(summary.points >= 2, "the run touches the disk often: {summary:?}");
}

#[tokio::test]
async fn a_server_killed_at_a_write_loses_nothing_and_pays_for_nothing_twice() {
    some_points(Blow::Crash, 2, 29).await;
}

#[tokio::test]
async fn a_write_cut_short_by_a_kill_is_mended() {
    some_points(Blow::Torn, 5, 67).await;
}

#[tokio::test]
async fn a_full_disk_stops_the_drive_with_a_clear_error_and_a_resume_completes_it() {
    some_points(Blow::Full, 11, 53).await;
}

#[tokio::test]
async fn a_failing_disk_stops_the_drive_with_a_clear_error_and_a_resume_completes_it() {
    some_points(Blow::Broken, 19, 79).await;
}
