#!/usr/bin/python3
"""An outside executor: claims actions of one tool, carries them out, reports.

    executor.py "dbname=shop user=courier_worker" book_pickup https://courier.example.com/pickups

The rule that everything here follows: act only after the claim has been
committed, and report only what is known.  When in doubt the report is "unknown".
"""
import json
import select
import sys
import urllib.error
import urllib.request

import psycopg2


def claim(db, tool):
    """Takes one due action; None when there is none, or when the claim may not be durable."""
    del db.notices[:]
    with db, db.cursor() as cursor:  # commits at the end
        cursor.execute("SELECT action_id, token, idempotency_key, args FROM actionledger.claim(%s)", (tool,))
        row = cursor.fetchone()
    if row is not None and db.notices:
        # The commit did not wait for the standby: nothing has been done, and nothing is.
        report(db, row, "not_sent", {"detail": "the claim may not be replicated"})
        return None
    return row


def carry_out(url, action):
    """Makes the call; returns a verdict and what there is to say for it."""
    action_id, _, key, args = action
    request = urllib.request.Request(url, method="POST", data=json.dumps(args).encode(), headers={
        "Content-Type": "application/json", "Idempotency-Key": key, "Actionledger-Action": "executor/%d" % action_id})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return "confirmed", {"external_ref": json.load(answer).get("id")}
    except urllib.error.HTTPError as error:
        detail = {"detail": "HTTP %d" % error.code}
        if error.code == 429:
            return "rejected", dict(detail, transient=True)
        return ("rejected" if error.code in (400, 401, 402, 403, 404, 422) else "unknown"), detail
    except urllib.error.URLError as error:
        # Refused before anything was sent; whatever else it was, the call may have been made.
        return ("not_sent" if isinstance(error.reason, ConnectionRefusedError) else "unknown"), {"detail": str(error)}
    except (OSError, ValueError) as error:
        return "unknown", {"detail": str(error)}


def report(db, action, verdict, evidence):
    """Says how it ended; the token tells which claim it was."""
    with db, db.cursor() as cursor:
        cursor.execute("SELECT status, message FROM actionledger.report_outcome(%s, %s, %s)",
                       (action[0], verdict, json.dumps(dict(evidence, token=action[1]))))
        print(action[0], verdict, *cursor.fetchone(), flush=True)


def main(dsn, tool, url):
    db = psycopg2.connect(dsn)
    while True:
        action = claim(db, tool)
        if action is None:
            select.select([], [], [], 0.2)
        else:
            report(db, action, *carry_out(url, action))


if __name__ == "__main__":
    main(*sys.argv[1:])
