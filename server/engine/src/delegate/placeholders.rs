//! Placeholders in an agent's arguments: `{{name}}` becomes a value, in one pass, each argument staying one argument.
//!
//! Must not: touch the program itself (a prompt never decides what is run), or look at what it has put in.

use std::path::Path;

use crate::model::agent::{Assignment, WorkerFolder};

/// The values an argument can name.
#[derive(Debug, Clone, Default)]
pub(super) struct Values {
    manifest: Option<String>,
    input: Option<String>,
    result: Option<String>,
    worker_dir: Option<String>,
    prompt: Option<String>,
    model: String,
}

impl Values {
    /// Everything an attempt knows.
    #[must_use]
    pub(super) fn of_assignment(assignment: &Assignment, model: Option<&str>) -> Self {
        let folder: &WorkerFolder = &assignment.folder;
        let text = |path: &Path| Some(path.to_string_lossy().into_owned());
        Self {
            manifest: text(&folder.manifest),
            input: text(&folder.input),
            result: text(&folder.result),
            worker_dir: text(&folder.dir),
            prompt: Some(assignment.prompt.clone()),
            model: model.unwrap_or_default().to_owned(),
        }
    }

    /// What is known before there is an attempt: the rest stays as it is written.
    #[must_use]
    pub(super) fn of_preview(model: Option<&str>) -> Self {
        Self { model: model.unwrap_or_default().to_owned(), ..Self::default() }
    }

    /// The same with the prompt left as it is written, for what is recorded.
    #[must_use]
    pub(super) fn without_prompt(&self) -> Self {
        Self { prompt: None, ..self.clone() }
    }

    fn get(&self, name: &str) -> Option<&str> {
        match name {
            "manifest" => self.manifest.as_deref(),
            "input" => self.input.as_deref(),
            "result" => self.result.as_deref(),
            "workerDir" => self.worker_dir.as_deref(),
            "prompt" => self.prompt.as_deref(),
            "model" => Some(&self.model),
            _ => None,
        }
    }
}

/// The command line with its placeholders replaced; the program stays as it is.
#[must_use]
pub(super) fn fill_argv(argv: &[String], values: &Values) -> Vec<String> {
    argv.iter().enumerate().map(|(i, arg)| if i == 0 { arg.clone() } else { fill(arg, values) }).collect()
}

/// One argument with its placeholders replaced. Unknown names stay as they are.
#[must_use]
pub(super) fn fill(arg: &str, values: &Values) -> String {
    let mut filled = String::with_capacity(arg.len());
    let mut rest = arg;
    while let Some(open) = rest.find("{{") {
        let (before, from_open) = rest.split_at(open);
        filled.push_str(before);
        let body = &from_open[2..];
        let name_len = body.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(body.len());
        let (name, after) = body.split_at(name_len);
        match after.strip_prefix("}}") {
            Some(tail) if !name.is_empty() => {
                match values.get(name) {
                    Some(value) => filled.push_str(value),
                    None => filled.push_str(&from_open[..name_len + 4]),
                }
                rest = tail;
            }
            // `{{{x}}` and the like: only the first brace is passed over, so that `{` + `{{x}}` is still found.
            _ => {
                filled.push('{');
                rest = &from_open[1..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        Values {
            manifest: Some("/w/manifest.json".into()),
            input: Some("/w/input.md".into()),
            result: Some("/w/result.md".into()),
            worker_dir: Some("/w".into()),
            prompt: Some("say {{result}} {{model}}".into()),
            model: "m-1".into(),
        }
    }

    #[test]
    fn names_are_replaced_once() {
        let table = [
            ("{{input}}", "/w/input.md"),
            ("--in={{input}},{{result}}", "--in=/w/input.md,/w/result.md"),
            ("{{workerDir}}/x", "/w/x"),
            ("{{model}}", "m-1"),
            ("{{prompt}}", "say {{result}} {{model}}"),
            ("{{unknown}} {{Input}}", "{{unknown}} {{Input}}"),
            ("{{ input }}", "{{ input }}"),
            ("{{}}", "{{}}"),
            ("{{input", "{{input"),
            ("{{input}", "{{input}"),
            ("{{{input}}}", "{/w/input.md}"),
            ("{{a{{input}}", "{{a/w/input.md"),
            ("é{{manifest}}é", "é/w/manifest.jsoné"),
            ("", ""),
        ];
        for (arg, expected) in table {
            assert_eq!(fill(arg, &values()), expected, "{arg}");
        }
    }

    #[test]
    fn every_placeholder_that_the_configuration_knows_has_a_value_in_an_attempt() {
        for name in crate::model::agent::PLACEHOLDERS {
            assert!(values().get(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_preview_leaves_what_only_an_attempt_knows() {
        let preview = Values::of_preview(None);
        assert_eq!(fill("{{input}} {{prompt}} [{{model}}]", &preview), "{{input}} {{prompt}} []");
    }

    #[test]
    fn the_program_is_never_filled_in() {
        let argv = ["{{prompt}}".to_owned(), "{{model}}".to_owned()];
        assert_eq!(fill_argv(&argv, &values()), ["{{prompt}}", "m-1"]);
    }
}
