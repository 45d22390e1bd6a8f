use std::collections::HashMap;

use flowdrive_protocol::ids::{FeedbackId, MAX_ID_BYTES, RunId, TaskId, WorkerId};
use proptest::prelude::*;

use crate::store::{MAX_NAME_BYTES, safe_name, task_name, within};

#[test]
fn plain_ids_keep_their_name_and_others_get_a_digest() {
    for id in ["map", "entry-points", "a_b", "v1.2", "x-1234567", "0"] {
        assert_eq!(safe_name(id), id);
    }
    let cases = [
        ("map:entry", "map_entry-"),
        ("a/b", "a_b-"),
        ("..", "_.-"),
        (".", "_-"),
        (".hidden", "_hidden-"),
        ("dot.", "dot.-"),
        ("", "-"),
        ("Map", "Map-"),
        ("nul", "nul-"),
        ("com1.txt", "com1.txt-"),
        ("ä\0\n", "___-"),
        ("../../etc/passwd", "_._.._etc_passwd-"),
        ("a_b-0a1b2c3d", "a_b-0a1b2c3d-"),
    ];
    for (id, start) in cases {
        let name = safe_name(id);
        let digest = name.strip_prefix(start).unwrap_or_else(|| panic!("{id:?} became {name:?}"));
        assert!(digest.len() == 8 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id:?} became {name:?}");
    }
}

#[test]
fn every_task_id_fits_into_the_ids_made_of_it() {
    for task in ["a".repeat(MAX_ID_BYTES), "A".repeat(MAX_ID_BYTES), "a/".repeat(MAX_ID_BYTES / 2), "a".repeat(170)] {
        let task = TaskId::new(task).unwrap();
        WorkerId::new(format!("worker-{}-{:04}", task_name(&task), u32::MAX)).unwrap();
        FeedbackId::new(format!("feedback-contract-violation-{}-{:04}", task_name(&task), u32::MAX)).unwrap();
        let run = "r".repeat(MAX_ID_BYTES);
        RunId::new(within(format!("sub-{run}-{}", safe_name(task.as_str())), MAX_ID_BYTES)).unwrap();
    }
    let alike = ["a".repeat(170), "a".repeat(171)].map(|id| task_name(&TaskId::new(id).unwrap()));
    assert_ne!(alike[0], alike[1]);
    assert_eq!(task_name(&TaskId::new("a".repeat(120)).unwrap()), "a".repeat(120), "short ones stay as they are");
}

#[test]
fn ids_that_look_alike_never_share_a_file_even_without_case() {
    // The third is what the first becomes: it must not be left as it is.
    let posed = safe_name("a/b");
    let ids =
        ["a/b", "a_b", posed.as_str(), "A_b", "a_B", "A_B", "a:b", "a b", "a\\b", &"x".repeat(300), &"x".repeat(301)];
    let mut seen = HashMap::new();
    for id in ids {
        if let Some(other) = seen.insert(safe_name(id).to_lowercase(), id) {
            panic!("{id:?} and {other:?} share a file");
        }
    }
}

proptest! {
    #[test]
    fn a_name_is_one_harmless_path_segment(id in any::<String>(), long in "[a-zA-Z:/]{0,400}") {
        for id in [id, long] {
            let name = safe_name(&id);
            prop_assert!(!name.is_empty() && name.len() <= MAX_NAME_BYTES);
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)));
            prop_assert!(!name.starts_with('.') && !name.ends_with('.'));
        }
    }

    #[test]
    fn two_ids_have_two_names(a in "[aA_/:-]{1,4}", b in "[aA_/:-]{1,4}") {
        prop_assume!(a != b);
        prop_assert_ne!(safe_name(&a).to_lowercase(), safe_name(&b).to_lowercase());
    }
}
