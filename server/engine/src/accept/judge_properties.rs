use proptest::prelude::*;

use super::super::super::parse::tests::any_json;
use super::*;

/// The same files, looked up in a list of any order.
struct Listing(Vec<(String, FileLookup)>);

impl Files for Listing {
    fn read(&self, path: &str) -> FileLookup {
        self.0.iter().find(|(name, _)| name == path).map_or(FileLookup::Missing, |(_, lookup)| lookup.clone())
    }
}

fn any_cited() -> impl Strategy<Value = Cited> {
    let locator = prop_oneof![
        r"(src/|\./|\.\./|/work/repo/)?[ab]\.rs(:[0-9]{1,3}(-[0-9]{1,3})?)?",
        "(Makefile|logo.png|src|link.rs|locked.rs)(:[0-9]{1,2})?",
        "(see |`)?src/[a-c]\\.rs:[0-9]{1,2}[ `,.]?.{0,5}",
        ".{0,20}",
    ];
    (proptest::collection::vec(locator, 0..5), any::<bool>()).prop_map(|(locators, declared)| Cited {
        locators,
        origin: if declared { Origin::Declared } else { Origin::Harvested },
    })
}

proptest! {
    #[test]
    fn what_is_accepted_resolves_and_order_does_not_matter(
        cited in any_cited(),
        of_finding in any_cited(),
        grave in any::<bool>(),
        flag in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let result = ParsedResult {
            summary: String::new(),
            findings: vec![crate::accept::ParsedFinding {
                id: "f".into(),
                summary: String::new(),
                classification: Classification::Unknown,
                severity: if grave { Severity::P2 } else { Severity::P3 },
                evidence: of_finding,
            }],
            evidence: cited,
            artifacts: Vec::new(),
            empty_capture: false,
        };
        let tree = Tree::new();
        let mut listing: Vec<_> = tree.files.clone().into_iter().collect();
        let length = listing.len();
        listing.rotate_left(usize::try_from(seed).unwrap_or(0) % length);
        if seed % 2 == 0 {
            listing.reverse();
        }
        let id = task("map:a");
        let roots = ["/work/repo".to_owned()];
        let required = Requirements { task_id: &id, requires_evidence: flag, reviews_repo: flag, artifacts: &[], roots: &roots, worker_dir: None };
        let judged = judge(&required, &result, &tree);
        prop_assert_eq!(&judged, &judge(&required, &result, &tree));
        prop_assert_eq!(&judged, &judge(&required, &result, &Listing(listing)));
        let Ok(accepted) = judged else { return Ok(()) };
        let holds = |evidence: &Evidence| evidence.kind != EvidenceKind::Ungrounded;
        prop_assert!(!flag || accepted.evidence.iter().any(holds));
        prop_assert!(!grave || accepted.findings[0].evidence.iter().any(holds));
        for evidence in accepted.evidence.iter().chain(&accepted.findings[0].evidence) {
            let Some(path) = &evidence.path else {
                prop_assert!(evidence.kind != EvidenceKind::File && evidence.line.is_none());
                continue;
            };
            prop_assert_eq!(evidence.kind, EvidenceKind::File);
            let lookup = tree.read(path);
            prop_assert_eq!(lookup.presence(), Presence::File);
            if let Some(lines) = evidence.line.zip(evidence.end_line) {
                let FileLookup::Text(text) = lookup else { panic!("lines of {path}") };
                let all: Vec<&str> = text.lines().collect();
                prop_assert!(1 <= lines.0 && lines.0 <= lines.1);
                prop_assert!(usize::try_from(lines.1).unwrap() <= all.len());
                prop_assert_eq!(evidence.text.as_deref(), Some(all[usize::try_from(lines.0).unwrap() - 1]));
                prop_assert!(evidence.digest.is_some());
            }
        }
    }

    #[test]
    fn any_result_is_judged(value in any_json(), flag in any::<bool>()) {
        if let Err(refusal) = judged_as("map:a", flag, &[], &fenced(&value)) {
            prop_assert!(!refusal.message.is_empty());
        }
    }
}
