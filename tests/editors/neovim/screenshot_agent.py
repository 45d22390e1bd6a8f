"""An agent for the pictures in the docs: it looks busy for some seconds, and says what was made up for it.

Run as `screenshot_agent.py INPUT RESULT`. Must not: be used for anything else.
"""
import json
import os
import random
import sys
import time

PLACES = ["src/server/routes.py", "src/store/runs.py", "src/queue.py", "README.md"]
SUMMARIES = {
    "structure": "Three parts: server, queue, store. Nothing else depends on the store.",
    "entry": "One route puts jobs into the queue and answers at once.",
    "data": "A job is a dict from the request body, kept as it came.",
    "state": "The queue is a list in memory; nothing guards it.",
    "tests": "There are no tests, and nothing is measured.",
}
FINDINGS = [
    ("The queue has no upper bound, so a burst is kept in memory.", "real", "P1", "src/queue.py:6"),
    ("Runs are written one file at a time.", "conditional", "P3", "src/store/runs.py:9"),
    ("The position is read after the job was put: two requests can get the same.", "real", "P2", "src/server/routes.py:8"),
]


def main():
    result = sys.argv[2]
    worker = os.path.basename(os.path.dirname(os.path.abspath(result)))
    random.seed(worker)
    for _ in range(random.randint(2, 8)):
        print("reading", random.choice(PLACES), file=sys.stderr, flush=True)
        time.sleep(random.uniform(0.3, 0.9))
    if "boundaries" in worker:  # one that never cites anything, and so is refused
        text = "It looks fine to me.\n"
    else:
        summary = next((text for part, text in SUMMARIES.items() if part in worker), "The queue has no bound.")
        chosen = random.sample(FINDINGS, random.randint(1, 2))
        findings = [
            {"id": f"f{number}", "summary": claim, "classification": kind, "severity": severity, "evidence": [place]}
            for number, (claim, kind, severity, place) in enumerate(chosen)
        ]
        block = json.dumps({"summary": summary, "findings": findings, "evidence": [chosen[0][3]]})
        text = f"{summary}\n\n```cw:result\n{block}\n```\n"
        print(json.dumps({"model": "demo-1", "usage": {"inputTokens": random.randint(3000, 19000), "outputTokens": 900}}))
    with open(result, "w", encoding="utf-8") as file:
        file.write(text)


main()
