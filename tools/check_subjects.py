#!/usr/bin/env python3
"""Fails if a commit subject is not `package: imperative about the change`.

It checks the commits since main, or the last 10 on main itself and where a clone has no main. The imperative is checked
by the form of the first word: a verb without -s, -ed or -ing.
"""

import re
import subprocess
import sys

LAST = 10
LONGEST = 100  # characters
SUBJECT = re.compile(r"(?P<packages>[\w./-]+(, [\w./-]+)*): (?P<change>\S.*)")
# First words of subjects about a result, not about a change.
NO_VERBS = re.compile(r"an?|all|and|as|each|every|has|is|its?|new|no|one|only|that|the|there|they|this|what|when|which")
INFLECTED = re.compile(r".*([^s]s|[^e]ed|ing)")
NOT_INFLECTED = re.compile(r"alias|bias|bring|embed|focus|ping|shed|shred|spring|string")
NEVER = re.compile(r"\b(who|is told|are told)\b")


def faults(subject: str) -> list[str]:
    """Returns what is wrong with a subject."""
    match = SUBJECT.fullmatch(subject)
    if match is None:
        return ["it is not of the form `package[, package]: change`"]
    change = match["change"]
    verb = change.split()[0].rstrip(",;:")
    found = []
    if len(subject) > LONGEST:
        found.append(f"it has {len(subject)} characters, {LONGEST} are allowed")
    if subject.endswith("."):
        found.append("it ends with a period")
    if not verb[:1].islower():
        found.append(f"{verb!r} does not start with a lower-case letter")
    if NO_VERBS.fullmatch(verb.lower()) or inflected(verb):
        found.append(f"{verb!r} is not an imperative")
    if word := NEVER.search(change):
        found.append(f"{word[0]!r} is not in plain English about the change")
    return found


def inflected(word: str) -> bool:
    """Reports whether a word has the ending of another form than the imperative."""
    return INFLECTED.fullmatch(word) is not None and NOT_INFLECTED.fullmatch(word) is None


def git(*args: str) -> str:
    """Returns what git writes, and nothing if it fails."""
    return subprocess.run(["git", *args], capture_output=True, text=True, check=False).stdout


def commits() -> list[str]:
    """Returns the commits to check, each as its id and its subject."""
    log = ["log", "--no-merges", "--format=%h %s"]
    for main in ["origin/main", "main"]:
        if since := git(*log, f"{main}..HEAD"):
            return since.splitlines()
    return git(*log, f"-{LAST}").splitlines()


def main() -> None:
    """Checks the commits of the repository in the working directory."""
    checked = commits()
    if not checked:
        sys.exit("check-subjects: git has no commits to check")
    wrong = 0
    for commit in checked:
        for fault in faults(commit.partition(" ")[2]):
            print(f"{commit}\n  {fault}", file=sys.stderr)
            wrong += 1
    if wrong:
        sys.exit("check-subjects: write `package: imperative about the change`, see CONTRIBUTING.md")
    print(f"check-subjects: commits checked: {len(checked)}")


if __name__ == "__main__":
    main()
