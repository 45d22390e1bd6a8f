"""The server as an editor without an extension sees it, through the client of pytest-lsp (pygls): findings and feedback as
diagnostics, code lenses, stale evidence, configuration. FLOWDRIVE_BIN, FLOWDRIVE_WORKSPACE and FLOWDRIVE_CONFIG say where."""
import json
import os
import pathlib

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

WORKSPACE = pathlib.Path(os.environ["FLOWDRIVE_WORKSPACE"])
LIB = WORKSPACE / "src/lib.rs"
WORKFLOW = WORKSPACE / ".cw/workflows/one.json"
SERVER = [os.environ["FLOWDRIVE_BIN"], "serve", "--stdio", "--config", os.environ["FLOWDRIVE_CONFIG"]]


@pytest_lsp.fixture(
    params=["visual-studio-code", "neovim", "emacs"],
    config=ClientServerConfig(server_command=SERVER),
)
async def client(request, lsp_client: LanguageClient):
    # VS Code's capabilities promise these; the client does not know them by itself.
    for method in (types.WORKSPACE_CODE_LENS_REFRESH, types.CLIENT_REGISTER_CAPABILITY):
        lsp_client.feature(method)(lambda _params: None)

    capabilities = client_capabilities(request.param)
    encodings = [types.PositionEncodingKind.Utf16, types.PositionEncodingKind.Utf8]
    capabilities.general = types.GeneralClientCapabilities(position_encodings=encodings)
    folder = types.WorkspaceFolder(uri=WORKSPACE.as_uri(), name="workspace")
    params = types.InitializeParams(
        process_id=os.getpid(),
        capabilities=capabilities,
        workspace_folders=[folder],
        initialization_options={"protocolVersion": 1, "notifications": {"optOut": ["agentActivity"]}},
    )
    result = await lsp_client.initialize_session(params)
    assert result.capabilities.position_encoding == types.PositionEncodingKind.Utf8
    assert result.capabilities.code_lens_provider is not None
    yield
    await lsp_client.shutdown_session()


async def diagnostics(client, file, fits):
    """Waits until what is shown of a file fits."""
    while not fits(shown := client.diagnostics.get(file.as_uri(), [])):
        await client.wait_for_notification("textDocument/publishDiagnostics")
    return shown


def document(file):
    return types.TextDocumentIdentifier(uri=file.as_uri())


async def command(client, name, argument):
    return await client.workspace_execute_command_async(types.ExecuteCommandParams(command=name, arguments=[argument]))


async def lenses(client, file):
    return await client.text_document_code_lens_async(types.CodeLensParams(text_document=document(file)))


@pytest.mark.asyncio
async def test_a_run_is_driven_looked_at_and_goes_stale(client: LanguageClient):
    before = "//! A made-up project. \U0001f980\npub mod store; // \U0001f980\npub mod entry;\n"
    LIB.write_text(before, encoding="utf-8")
    preview, drive = await lenses(client, WORKFLOW)
    assert [preview.command.title, drive.command.title] == ["Preview", "Drive"]
    # What an editor does when the lens is pressed.
    await command(client, preview.command.command, preview.command.arguments[0])
    assert "1 task" in client.messages[-1].message
    result = await command(client, drive.command.command, drive.command.arguments[0])
    assert result["status"] == "complete", result

    (finding,) = await diagnostics(client, LIB, lambda shown: len(shown) == 1)
    assert finding.severity == types.DiagnosticSeverity.Information
    # Whole lines, so that no encoding of columns matters: also not beside characters beyond the basic plane.
    assert finding.range == types.Range(types.Position(1, 0), types.Position(1, 22))
    assert finding.code_description.href.endswith("report.md") and finding.data["taskId"] == "map:a"
    (lens,) = [lens for lens in await lenses(client, LIB)]
    assert lens.command.title == "Flowdrive: 1 finding"

    async def save(text):
        LIB.write_text(text, encoding="utf-8")
        client.text_document_did_save(types.DidSaveTextDocumentParams(text_document=document(LIB)))

    await save("\n\n" + before)
    await diagnostics(client, LIB, lambda shown: shown[0].range.start.line == 3)
    await save(before.replace("store", "depot"))
    (stale,) = await diagnostics(client, LIB, lambda shown: "Stale" in shown[0].message)
    assert stale.severity == types.DiagnosticSeverity.Hint and stale.data["stale"] is True
    assert "pub mod store; // \U0001f980" in stale.message and not stale.tags
    await save(before)
    await diagnostics(client, LIB, lambda shown: shown[0] == finding)


@pytest.mark.asyncio
async def test_feedback_can_be_answered_where_it_is_shown(client: LanguageClient):
    parking = json.loads(WORKFLOW.read_text())
    parking["phases"][0]["tasks"][0]["agent"] = "idle"
    argument = {"workflow": {"inline": parking}, "maxAttempts": 1}
    result = await command(client, "flowdrive.drive", argument)
    assert result["status"] == "parked", result
    report = pathlib.Path(result["reportPath"])
    (waiting,) = await diagnostics(client, report, lambda shown: len(shown) == 1)
    asked = types.CodeActionParams(
        text_document=document(report), range=waiting.range, context=types.CodeActionContext(diagnostics=[waiting])
    )
    offered = await client.text_document_code_action_async(asked)
    assert [action.title for action in offered] == [
        "Flowdrive: try map:a again",
        "Flowdrive: reject, and leave map:a as it is",
        "Flowdrive: open the report",
    ]
    above = [lens.command for lens in await lenses(client, report)]
    assert above[0].title == "Flowdrive: 1 waits for you" and len(above) == 3, above
    # pygls takes a code action with a command for a bare command; the lens has the same one.
    (reject,) = [command for command in above if "reject" in command.title]
    record = await command(client, reject.command, reject.arguments[0])
    assert record["status"] == "rejected", record
    await diagnostics(client, report, lambda shown: len(shown) == 0)
    assert len(await lenses(client, report)) == 0
