#!/usr/bin/python3
"""A small agent that acts through actionledger.

    agent.py CONNECTION RUN_ID <TASKS

CONNECTION is a libpq connection string of the role that the agent has, RUN_ID
names this run, and TASKS is a JSON array of tasks, each a list of proposals
{"tool": ..., "args": ...} that stand for what a model would say.  In place of
ScriptedModel comes the call of a model with tool_specs(); the loop stays.

Prints a line of JSON for each task: what the agent tells its user, and what it
has seen on the way.
"""
import json
import sys

import psycopg2

TURNS = 8               # of the model for one task
WAIT_SLICE = "5s"       # of one wait
PATIENCE = 12           # waits before the agent says that it is not settled yet


class Ledger:
    """The ledger as the agent's runtime sees it: each call is one transaction."""

    def __init__(self, connection, run_id):
        self.connection = psycopg2.connect(connection)
        self.run_id = run_id

    def ask(self, statement, *values):
        """Runs a statement that gives one JSON value, and commits."""
        with self.connection, self.connection.cursor() as cursor:
            cursor.execute(statement, values)
            return cursor.fetchone()[0]

    def specs(self):
        return self.ask("SELECT actionledger.tool_specs('openai')")

    def propose(self, step, tool, args):
        """Proposes an action; the answer is an envelope, whatever was proposed."""
        return self.ask("SELECT actionledger.try_perform(%s, %s, run_id => %s, step => %s)",
                        tool, json.dumps(args), self.run_id, step)

    def wait(self, action_id):
        return self.ask("SELECT actionledger.wait(%s, %s)", action_id, WAIT_SLICE)


class ScriptedModel:
    """Stands for a model: says what the script says, and corrects what it is told to correct."""

    def __init__(self, proposals):
        self.proposals = list(proposals)
        self.last = None

    def next(self, envelope):
        """Gives the next proposal, or None when there is nothing more to do."""
        if envelope is not None and envelope["meta"]["advice"] == "correct":
            return self.correct(envelope["meta"]["findings"])
        if envelope is not None and envelope["meta"]["advice"] != "done":
            return None
        self.last = self.proposals.pop(0) if self.proposals else None
        return self.last

    def correct(self, findings):
        """Does what the findings suggest, as a model would that reads them."""
        proposal = {"tool": self.last["tool"], "args": dict(self.last["args"])}
        if not findings or any(finding["suggest"] is None for finding in findings):
            return None
        for finding in findings:
            name = finding["at"].split("/")[1]
            if finding["at"] == "/tool":
                proposal["tool"] = finding["suggest"]
            elif finding["want"].startswith("argument named "):
                proposal["args"][finding["suggest"]] = proposal["args"].pop(name)
            else:
                proposal["args"][name] = json.loads(finding["suggest"])
                misspelt = (finding["got"] or "").partition('it as "')[2].rstrip('"')
                proposal["args"].pop(misspelt, None)
        self.last = proposal
        return proposal


def settle(ledger, envelope):
    """Waits as long as waiting is what is advised: an action is never proposed again for want of an answer."""
    for _ in range(PATIENCE):
        if envelope["data"] is None or envelope["meta"]["advice"] != "wait":
            break
        envelope = ledger.wait(envelope["data"]["action_id"])
    return envelope


def run(ledger, model, first_step):
    """Lets the model act until it is done, or is told to stop; gives the envelopes that it got."""
    seen = []
    envelope = None
    for turn in range(TURNS):
        proposal = model.next(envelope)
        if proposal is None:
            break
        envelope = settle(ledger, ledger.propose(first_step + turn, proposal["tool"], proposal["args"]))
        seen.append(envelope)
    return seen


def report(envelope):
    """Says to the user what is known, and no more."""
    if envelope["ok"]:
        return "Done. " + envelope["meta"]["observation"]
    endings = {
        "wait": "It is on its way, and not known yet. ",
        "verify": "It has been asked for before. ",
        "approve": "Somebody has to allow it. ",
        "escalate": "A person has to look at it. ",
        "stop": "It was called off. ",
        "correct": "It was not done. ",
    }
    return endings[envelope["meta"]["advice"]] + envelope["meta"]["observation"]


def main():
    ledger = Ledger(sys.argv[1], sys.argv[2])
    tools = {spec["function"]["name"] for spec in ledger.specs()}
    for number, proposals in enumerate(json.load(sys.stdin)):
        seen = run(ledger, ScriptedModel(proposals), number * TURNS)
        print(json.dumps({
            "said": report(seen[-1]),
            "tools": sorted(tools),
            "codes": [(envelope["error"] or {"code": "ok"})["code"] for envelope in seen],
            "last": seen[-1],
        }), flush=True)


if __name__ == "__main__":
    main()
