//! No process outlives its delegation, and what agents print costs the server no memory: the short forms of
//! `bench leaks` and `bench memory`.
#![cfg(target_os = "linux")]

use flowdrive_tests::endings;

#[tokio::test]
async fn fifty_timeouts_with_grandchildren_leave_no_process() {
    let endings = endings::time_out(50, 8).await;
    assert_eq!((endings.timed_out, endings.left), (50, 0), "{endings:?}");
    // On a busy machine the time limit may come before all four of a family have begun.
    assert!(endings.started >= 50, "the families were hardly started: {endings:?}");
}

#[tokio::test]
async fn sixteen_agents_that_print_much_stay_within_the_memory_bound() {
    let memory = endings::print(16, 10, 6).await;
    assert_eq!(memory.together, 16);
    assert!(memory.peak_kib < 100 * 1024, "256 MiB were printed; the server grew to {} KiB", memory.peak_kib);
}
