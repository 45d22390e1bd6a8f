// A folder that is not trusted: nothing is started, and what its settings say about programs counts for nothing, before
// and after it is trusted.
import fs from "node:fs";
import path from "node:path";
import { Editor, eventually, extension, makeWorkspace, pause, question, runFolders, scratch, serversOf } from "../harness.mjs";
import { Person } from "../person.mjs";

export async function run(server) {
  const marker = path.join(scratch, "evil-ran");
  const evil = path.join(scratch, "evil.sh");
  fs.writeFileSync(evil, `#!/bin/sh\ntouch ${marker}\necho flowdrive 9.9.9\n`, { mode: 0o755 });
  const folder = makeWorkspace("untrusted", {
    ".vscode/settings.json": JSON.stringify({
      "flowdrive.path": evil,
      "flowdrive.agents": { evil: { command: [evil] } },
      "flowdrive.defaultAgent": "evil",
    }),
  });
  const editor = new Editor("trust");
  editor.write({ "flowdrive.path": server, "security.workspace.trust.enabled": true, "security.workspace.trust.startupPrompt": "never" });
  await editor.start();
  try {
    const page = await editor.open(folder, { development: extension });
    const person = new Person(page);

    await person.step("in a folder that is not trusted nothing is started, and the view says why", async () => {
      await page.getByRole("tab", { name: "Flowdrive" }).first().click();
      await page.getByText("starts none in a folder that you do not trust").waitFor();
      await person.palette(">Flowdrive: Drive Workflow");
      await pause(500);
      const offered = await person.row("Flowdrive: Drive Workflow").count();
      if (offered > 0) throw new Error("the command is offered");
      await page.keyboard.press("Escape");
      if (serversOf(server).length > 0 || fs.existsSync(marker)) throw new Error("something was started");
    });

    await person.step("once trusted, its settings still cannot say which programs are run", async () => {
      await person.command("Workspaces: Manage Workspace Trust");
      await page.getByRole("button", { name: /^Trust( Folder)?$/ }).first().click();
      await page.getByText("Nothing has been driven in this folder yet").waitFor();
      await person.pick("Flowdrive: Drive Workflow", "Quick survey");
      await person.type("question", question);
      await person.row("builtin:survey").waitFor();
      if ((await person.row("evil").count()) > 0) throw new Error("the folder's agent is offered");
      await person.accept();
      await (await person.frame("Nothing has been started yet")).getByRole("button", { name: "Start" }).click();
      await person.toast("is complete").waitFor();
      await eventually("one run", () => runFolders(folder).length === 1);
      if (fs.existsSync(marker)) throw new Error("the folder's program ran");
    });
    await page.context().close();
  } finally {
    await editor.stop();
  }
}
