//! From what was typed to what the server is sent: which workflow is meant, and the values of its inputs.
//!
//! Must not: check values. The server does, and names the field; here they only get the type it expects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flowdrive_protocol::ids::InputName;
use flowdrive_protocol::method::WorkflowRef;
use flowdrive_protocol::workflow::{InputSpec, InputType};
use serde_json::Value;

use super::error::CliError;

/// What a workflow asks for.
pub(crate) type Specs = BTreeMap<InputName, InputSpec>;

/// An id, unless the text looks like a path. A path that exists from the current folder is made absolute; any other is
/// left to the server, for which the workspace is the starting point.
pub(crate) fn workflow(text: &str, current: &Path) -> WorkflowRef {
    let lower = text.to_ascii_lowercase();
    let is_path = text.contains(['/', std::path::MAIN_SEPARATOR])
        || [".toml", ".json"].iter().any(|extension| lower.ends_with(extension));
    if !is_path {
        return WorkflowRef::Id(text.to_owned());
    }
    let here = current.join(text);
    let path = if here.exists() { here } else { PathBuf::from(text) };
    WorkflowRef::Path(path.to_string_lossy().into_owned())
}

/// What the workflow in a file asks for, as far as it can be read. The server reads the file again, and says what is
/// wrong with it.
pub(crate) fn specs_of_file(path: &Path) -> Option<Specs> {
    specs_of_text(&std::fs::read_to_string(path).ok()?)
}

fn specs_of_text(text: &str) -> Option<Specs> {
    let document: Value = serde_json::from_str(text).ok().or_else(|| toml::from_str(text).ok())?;
    let inputs = document.get("inputs").and_then(Value::as_object);
    let specs = inputs.into_iter().flatten().filter_map(|(name, spec)| {
        Some((InputName::new(name.as_str()).ok()?, serde_json::from_value(spec.clone()).ok()?))
    });
    Some(specs.collect())
}

/// The values given, by name, each with the type its input has; without specs, what they look like.
pub(crate) fn collect(
    given: &[(InputName, String)],
    specs: Option<&Specs>,
    current: &Path,
) -> Result<BTreeMap<InputName, Value>, CliError> {
    let mut values: BTreeMap<InputName, Vec<Value>> = BTreeMap::new();
    for (name, text) in given {
        let text = literal_or_file(name, text, current)?;
        let value = match specs {
            Some(specs) => typed(text, specs.get(name).map_or(InputType::String, |spec| spec.kind)),
            None => guessed(text),
        };
        values.entry(name.clone()).or_default().push(value);
    }
    let joined = values.into_iter().map(|(name, mut list)| {
        let repeated = specs.and_then(|specs| specs.get(&name)).is_some_and(|spec| spec.repeated);
        let value = match list.pop() {
            Some(only) if list.is_empty() && !repeated => only,
            last => {
                list.extend(last);
                Value::Array(list)
            }
        };
        (name, value)
    });
    Ok(joined.collect())
}

fn literal_or_file(name: &InputName, text: &str, current: &Path) -> Result<String, CliError> {
    let Some(rest) = text.strip_prefix('@') else { return Ok(text.to_owned()) };
    if rest.starts_with('@') {
        return Ok(rest.to_owned());
    }
    let read = std::fs::read_to_string(current.join(rest)).map_err(|error| {
        CliError::usage(
            format!("cannot read `{rest}` for input `{name}`: {error}"),
            format!("write `--input {name}=@@...` when the value itself starts with @"),
        )
    })?;
    // Editors end files with a newline that nobody means.
    Ok(read.strip_suffix("\r\n").or_else(|| read.strip_suffix('\n')).unwrap_or(&read).to_owned())
}

/// The value as its type is written. What does not fit stays text, for the server to refuse by name.
fn typed(text: String, kind: InputType) -> Value {
    let parsed = match kind {
        InputType::String | InputType::Path => None,
        InputType::Number => serde_json::from_str(text.trim()).ok().filter(Value::is_number),
        // `yes` and `off` are read by the server, which reads them the same for every client.
        InputType::Boolean => text.trim().parse().ok().map(Value::Bool),
        InputType::Json => serde_json::from_str(&text).ok(),
    };
    parsed.unwrap_or(Value::String(text))
}

fn guessed(text: String) -> Value {
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn given(pairs: &[(&str, &str)]) -> Vec<(InputName, String)> {
        pairs.iter().map(|(name, value)| (InputName::new(*name).unwrap(), (*value).to_owned())).collect()
    }

    fn named(values: &BTreeMap<InputName, Value>) -> Value {
        values.iter().map(|(name, value)| (name.to_string(), value.clone())).collect::<serde_json::Map<_, _>>().into()
    }

    #[test]
    fn a_workflow_is_an_id_unless_it_looks_like_a_path() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("here.toml"), "").unwrap();
        let absolute = folder.path().join("here.toml").to_string_lossy().into_owned();
        for (text, expected) in [
            ("quick-survey", WorkflowRef::Id("quick-survey".into())),
            ("v1.2", WorkflowRef::Id("v1.2".into())),
            ("here.toml", WorkflowRef::Path(absolute)),
            ("gone.toml", WorkflowRef::Path("gone.toml".into())),
            ("GONE.JSON", WorkflowRef::Path("GONE.JSON".into())),
            ("a/b", WorkflowRef::Path("a/b".into())),
        ] {
            assert_eq!(workflow(text, folder.path()), expected, "{text}");
        }
    }

    #[test]
    fn values_get_the_type_their_input_has() {
        let specs = specs_of_text(
            "[inputs.question]\ntype = \"string\"\n[inputs.count]\ntype = \"number\"\n[inputs.deep]\ntype = \"boolean\"\n\
             [inputs.more]\ntype = \"json\"\n[inputs.paths]\ntype = \"path\"\nrepeated = true\n[inputs.odd]\ntype = 3\n",
        )
        .unwrap();
        assert_eq!(specs.len(), 5, "what cannot be read is left out");
        let pairs = [
            ("question", "42"),
            ("count", "42"),
            ("deep", "true"),
            ("more", "[1]"),
            ("paths", "src"),
            ("unknown", "7"),
        ];
        let values = collect(&given(&pairs), Some(&specs), Path::new("/")).unwrap();
        let expected =
            json!({"question": "42", "count": 42, "deep": true, "more": [1], "paths": ["src"], "unknown": "7"});
        assert_eq!(named(&values), expected);
        let wrong = collect(&given(&[("count", "many"), ("deep", "1")]), Some(&specs), Path::new("/")).unwrap();
        assert_eq!(named(&wrong), json!({"count": "many", "deep": "1"}), "left for the server to refuse");
    }

    #[test]
    fn a_name_given_several_times_makes_a_list_in_order() {
        let values =
            collect(&given(&[("a", "1"), ("b", "x"), ("a", "y"), ("a", "true")]), None, Path::new("/")).unwrap();
        assert_eq!(named(&values), json!({"a": [1, "y", true], "b": "x"}));
    }

    #[test]
    fn files_are_read_and_a_doubled_at_is_literal() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("q.txt"), "two\nlines\n").unwrap();
        let values = collect(&given(&[("q", "@q.txt"), ("at", "@@me")]), None, folder.path()).unwrap();
        assert_eq!(named(&values), json!({"q": "two\nlines", "at": "@me"}));
        let error = collect(&given(&[("q", "@gone.txt")]), None, folder.path()).unwrap_err();
        assert!(error.to_string().starts_with("cannot read `gone.txt` for input `q`"), "{error}");
    }

    #[test]
    fn specs_are_read_from_json_too_and_nonsense_gives_none() {
        let specs = specs_of_text(r#"{"inputs": {"q": {"type": "string", "required": true}}}"#).unwrap();
        assert!(specs.values().next().unwrap().required);
        assert!(specs_of_text("id = ").is_none());
        assert!(specs_of_text("id = \"x\"").unwrap().is_empty());
    }
}
