// The TypeScript client as a program that the conformance check can run. Usage: node conformance.mjs WORKSPACE
import { FlowdriveClient } from "../../../clients/typescript/dist/index.js";

await drive(await FlowdriveClient.start({ command: process.env.FLOWDRIVE_SERVER, workspaceFolders: [process.argv[2]] }));

async function drive(client) {
  try {
    const runId = "conformance-typescript";
    const driving = client.drive({ workflow: { id: "quick-survey" }, inputs: { question: "?" }, runId });
    const result = await driving;
    const seqs = [];
    for await (const event of client.events({ runId, sinceSeq: 0 })) {
      seqs.push(event.seq);
      if (event.type === "runFinished") break;
    }
    process.exitCode = result.status === "complete" && seqs.length === 7 ? 0 : 1;
  } finally {
    await client.close();
  }
}
