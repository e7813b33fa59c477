#!/usr/bin/env python3
"""Counts the scenarios of the official MCP conformance suite that a server or client passed, from the suite's output.

The suite's console and exit code ignore warnings, and count its own checks of every response. Here a scenario
counts if it has no failure and no warning, and at least one success of its own; one that did not run does not.
"""

import argparse
import json
import pathlib
import re
import sys

# Checks that the suite adds to every scenario.
SYNTHETIC = {"wire-schema-valid", "wire-schema-harness-error"}

# Scenarios that are in no leg, and why. All others must be in one: see `uncovered`.
NOT_DUE = {
    r"tasks-status-notifications": "the suite has no checks in it yet",
    r"sep-2640-.*": "the skills extension (SEP-2640) is not part of any revision",
    r"auth/(enterprise-managed-authorization|wif-jwt-bearer)": "extensions without a key in the configuration",
}

# Checks that must succeed, because otherwise the scenario did not test its subject.
ESSENTIAL = {"server-sse-polling": "server-sse-disconnect-resume"}

# Scenarios of pinned legs about features that their version does not have: how they must end instead, and why.
# Peers of that version do not support the response that the suite expects.
NO_AUDIO = (
    ["failure tools-call-audio: No audio content found"],
    "content of type audio came with 2025-03-26; it must come as an embedded resource",
)
NO_ELICITATION = (
    [
        "failure client-elicitation-sep1034-general: "
        "Elicitation failed: MCP error -32601: this client does not have elicitation/create",
        *(
            f"failure client-elicitation-sep1034-{kind}-default: Server applies default default for elicitation"
            for kind in ["string", "integer", "number", "enum", "boolean"]
        ),
    ],
    "elicitation came with 2025-06-18; older clients must report that they do not support it",
)
BEYOND = {
    ("2024-11-05", "tools-call-audio"): NO_AUDIO,
    ("2024-11-05", "elicitation-sep1034-client-defaults"): NO_ELICITATION,
    ("2025-03-26", "elicitation-sep1034-client-defaults"): NO_ELICITATION,
}

# The directory of the results of a run. Names of scenarios may have slashes.
RUN = re.compile(r"(?:server-)?(?P<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z")


def faults(scenario, checks):
    """Returns why a scenario with these checks does not count: nothing if it does."""
    own = [c for c in checks if c["id"] not in SYNTHETIC]
    out = [
        f"{c['status'].lower()} {c['id']}: {c.get('errorMessage') or c.get('description') or 'no reason'}"
        for c in checks
        if c["status"] in ("FAILURE", "WARNING")
    ]
    if not out and not any(c["status"] == "SUCCESS" for c in own):
        out.append("it has no success of its own")
    essential = ESSENTIAL.get(scenario)
    if essential and not any(c["status"] == "SUCCESS" and c["id"] == essential for c in checks):
        out.append(f"{essential} has no success, so the scenario did not test its subject")
    return list(dict.fromkeys(out))


def runs_in(results):
    """Returns the checks of every run that is below the directory, by scenario."""
    runs = {}
    for file in sorted(pathlib.Path(results).rglob("checks.json")):
        if m := RUN.fullmatch(file.parent.relative_to(results).as_posix()):
            runs.setdefault(m["scenario"], []).extend(json.loads(file.read_text(encoding="utf-8")))
    return runs


def score(results, scenarios):
    """Returns what is wrong with each of the scenarios: nothing, if it counts."""
    runs = runs_in(results)
    return {s: faults(s, runs[s]) if s in runs else ["it did not run"] for s in scenarios}


def without_beyond(verdicts, version):
    """Returns the verdicts that count for a leg of a version, and why the others do not."""
    scored, beyond = dict(verdicts), []
    for (v, scenario), (end, why) in BEYOND.items():
        if v != version or scenario not in verdicts:
            continue
        if verdicts[scenario] == end:
            del scored[scenario]
            beyond.append(f"{scenario} is not scored: {why}")
        else:
            scored[scenario] = [*verdicts[scenario], f"it must end with {'; '.join(end)!r}: {why}"]
    return scored, beyond


def not_pinned(log, version, handshakes):
    """Returns why a leg was not in its pinned version, or nothing."""
    try:
        answers = pathlib.Path(log).read_text(encoding="utf-8").split("\n")[:-1]
    except FileNotFoundError:
        answers = []
    if others := sorted(set(answers) - {version}):
        return f"{version} was proposed and answered with {', '.join(others)}"
    if len(answers) < handshakes:
        return f"{len(answers)} handshakes were in {version}, of at least {handshakes}"
    return None


def uncovered(every, legs):
    """Returns the scenarios that are in no leg without a reason."""
    return [s for s in every if s not in legs and not any(re.fullmatch(p, s) for p in NOT_DUE)]


def report(leg, verdicts, broken=None, notes=()):
    """Prints a line for the leg, and its faults. Returns how many scenarios count, of how many."""
    passed = 0 if broken else sum(not v for v in verdicts.values())
    print(f"{leg:<28} {passed:>3}/{len(verdicts)}")
    for line in [broken, *notes] if broken else notes:
        print(f"    {line}")
    for scenario, why in verdicts.items():
        for line in why:
            print(f"    {scenario}: {line}")
    return passed, len(verdicts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    leg = commands.add_parser("leg", help="score one leg; the names of its scenarios are read from stdin")
    leg.add_argument("name")
    leg.add_argument("results", help="the output directory of the suite")
    leg.add_argument("--scores", required=True, help="the file to add the score to")
    leg.add_argument("--pinned", metavar="VERSION", help="the version that was forced")
    leg.add_argument("--pins", metavar="FILE", help="the log of pin.mjs or pinserver.mjs")
    total = commands.add_parser("total", help="add up the legs; the names of all scenarios are read from stdin")
    total.add_argument("scores")
    args = parser.parse_args()
    names = sys.stdin.read().split()

    if args.command == "leg":
        verdicts = score(args.results, names)
        broken = not_pinned(args.pins, args.pinned, len(names)) if args.pinned else None
        if not names:
            broken = "the suite lists no scenarios for it"
        verdicts, notes = without_beyond(verdicts, args.pinned)
        passed, of = report(args.name, verdicts, broken, notes)
        with pathlib.Path(args.scores).open("a", encoding="utf-8") as scores:
            scores.write(json.dumps({"passed": passed, "of": of, "scenarios": names, "broken": bool(broken)}) + "\n")
        return

    legs = [json.loads(line) for line in pathlib.Path(args.scores).read_text(encoding="utf-8").splitlines()]
    passed, of = sum(x["passed"] for x in legs), sum(x["of"] for x in legs)
    print(f"{'total':<28} {passed:>3}/{of}")
    missing = uncovered(names, {s for x in legs for s in x["scenarios"]})
    for scenario in missing:
        print(f"    {scenario}: it is in no leg; add one, or a reason to NOT_DUE in score.py")
    if passed < of or of == 0 or missing or any(x["broken"] for x in legs):
        sys.exit(1)


if __name__ == "__main__":
    main()
