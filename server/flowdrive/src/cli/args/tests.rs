use super::*;
use clap::CommandFactory;

fn parse(line: &str) -> Result<Command, clap::Error> {
    Cli::try_parse_from(line.split(' ')).map(|cli| cli.command)
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn drive_takes_everything_it_should() {
    let line = "flowdrive drive quick-survey --input question=a=b -i n=1 -i n=2 --agent mine -j 8 --once \
                --incremental --max-attempts 2 --config c.toml --json -w /w";
    let Command::Drive(args) = parse(&line.split_whitespace().collect::<Vec<_>>().join(" ")).unwrap() else {
        panic!("another command")
    };
    let inputs: Vec<(&str, &str)> = args.inputs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(inputs, [("question", "a=b"), ("n", "1"), ("n", "2")]);
    assert_eq!((args.driving.concurrency.unwrap().get(), args.driving.max_attempts.unwrap().get()), (8, 2));
    assert!(args.driving.once && args.driving.incremental && args.place.json);
    assert_eq!(args.place.workspace, Some(PathBuf::from("/w")));
    assert_eq!(args.driving.agent.unwrap().as_str(), "mine");
}

#[test]
fn bad_usage_is_refused_with_code_two() {
    for line in [
        "flowdrive",
        "flowdrive drive",
        "flowdrive drive w --concurrency 0",
        "flowdrive drive w --concurrency 1.5",
        "flowdrive drive w --max-attempts -1",
        "flowdrive drive w --input question",
        "flowdrive drive w --input 1x=y",
        "flowdrive drive w --agent a/b",
        "flowdrive drive w --run-id ../x",
        "flowdrive preview",
        "flowdrive preview w --run r",
        "flowdrive preview --run r --input a=b",
        "flowdrive feedback resolve r f",
        "flowdrive feedback resolve r f --resolution maybe",
        "flowdrive feedback list r --status new",
        "flowdrive serve --framing xml",
        "flowdrive fly",
    ] {
        assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
    }
}

#[test]
fn values_are_written_as_on_the_wire() {
    let Command::Feedback(FeedbackArgs { command: FeedbackCommand::Resolve(args) }) =
        parse("flowdrive feedback resolve latest f1 --resolution retry --guidance look").unwrap()
    else {
        panic!("another command")
    };
    assert_eq!(args.resolution, Resolution::Retry);
    let Command::Serve(args) = parse("flowdrive serve --stdio --framing ndjson --clientProcessId 7").unwrap() else {
        panic!("another command")
    };
    assert_eq!((args.framing, args.client_process, args.finish_on_eof), (FramingChoice::Ndjson, Some(7), false));
    let Command::Preview(args) = parse("flowdrive preview --run latest").unwrap() else { panic!("another command") };
    assert_eq!((args.run.as_deref(), args.workflow), (Some("latest"), None));
}
