//! Holds `table.toml`, the cases and `docs/compatibility.md` together: a statement without a case, a case that is not there,
//! a case in no row, or a difference that the page does not tell, fails.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use flowdrive_tests::binary;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct Table {
    statement: Vec<Statement>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Statement {
    id: String,
    rule: String,
    #[serde(default)]
    cases: Vec<String>,
    #[serde(default)]
    units: Vec<Unit>,
    is: Is,
    why: Option<String>,
    line: Option<String>,
}

/// A test of a crate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unit {
    file: String,
    test: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Is {
    Same,
    Different,
    Better,
    Pending,
}

/// Every statement there is: section, first, last.
const SECTIONS: [(char, u32, u32); 10] = [
    ('A', 1, 47),
    ('B', 48, 71),
    ('C', 72, 81),
    ('D', 82, 91),
    ('E', 92, 106),
    ('F', 107, 120),
    ('G', 121, 125),
    ('H', 126, 142),
    ('T', 1, 9),
    ('V', 1, 6),
];

fn read(name: &str) -> String {
    let path = binary::repository().join(name);
    fs::read_to_string(&path).unwrap_or_else(|fault| panic!("{}: {fault}", path.display()))
}

fn table() -> Vec<Statement> {
    toml::from_str::<Table>(&read("tests/conformance/table.toml")).unwrap().statement
}

/// The names of the tests of this binary, as it lists them itself, without their modules.
fn cases() -> BTreeSet<String> {
    let output = Command::new(std::env::current_exe().unwrap()).args(["--list", "--format", "terse"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.strip_suffix(": test")?.rsplit("::").next().map(str::to_owned)).collect()
}

#[test]
fn every_statement_has_its_cases() {
    let (table, cases) = (table(), cases());
    let ids: Vec<&str> = table.iter().map(|statement| statement.id.as_str()).collect();
    for (section, first, last) in SECTIONS {
        for number in first..=last {
            let id = format!("{section}{number}");
            assert_eq!(ids.iter().filter(|known| **known == id).count(), 1, "statement {id}");
        }
    }
    assert!(ids.contains(&"B69b"));
    let mut faults = Vec::new();
    for Statement { id, rule, cases: named, units, is, .. } in &table {
        assert!(!rule.is_empty(), "{id}");
        if named.is_empty() && units.is_empty() && *is != Is::Pending {
            faults.push(format!("{id} has no case"));
        }
        let absent = named.iter().filter(|case| !cases.contains(*case));
        faults.extend(absent.map(|case| format!("{id} names {case}, which is no case")));
        let gone = units.iter().filter(|unit| !read(&unit.file).contains(&format!("fn {}(", unit.test)));
        faults.extend(gone.map(|unit| format!("{id} names {}, which is not in {}", unit.test, unit.file)));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_case_is_in_the_table() {
    let named: BTreeSet<String> = table().into_iter().flat_map(|statement| statement.cases).collect();
    let own = ["every_statement_has_its_cases", "every_case_is_in_the_table", "every_difference_is_told_on_the_page"];
    let alone: Vec<String> =
        cases().into_iter().filter(|case| !named.contains(case) && !own.contains(&case.as_str())).collect();
    assert!(alone.is_empty(), "no statement names {alone:?}");
}

#[test]
fn every_difference_is_told_on_the_page() {
    let page = read("docs/compatibility.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with('|')).collect();
    for statement in table() {
        let Statement { id, is, why, line, .. } = statement;
        match is {
            Is::Same | Is::Better => assert_eq!((why, line), (None, None), "{id}"),
            Is::Pending => assert!(why.is_some_and(|why| !why.is_empty()) && line.is_none(), "{id}"),
            Is::Different => {
                let line = line.unwrap_or_else(|| panic!("{id} names no row of docs/compatibility.md"));
                assert!(why.is_some_and(|why| !why.is_empty()), "{id} does not say why");
                assert_eq!(rows.iter().filter(|row| row.contains(&line)).count(), 1, "{id}: the row with {line:?}");
            }
        }
    }
}
