"""Tests of check_subjects.py."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from check_subjects import faults

PROGRAM = Path(__file__).with_name("check_subjects.py")

GOOD = [
    "mcpserver: drop notifications for closed sessions",
    "cmd, child, docs: name what a server lacks",
    "test/interop, sdkgen/go: process messages in order",
    "Makefile: feed tools/legs the targets",
    ".ci/run: need no Java; print versions",
    "docs: " + "x" * 94,
]
BAD = {
    "": "form",
    "drop notifications": "form",
    "mcpserver drop: notifications": "form",
    "mcpserver:drop notifications": "form",
    "mcpserver,docs: drop notifications": "form",
    "mcpserver: drop notifications.": "period",
    "mcpserver: ;": "lower-case",
    "mcpserver: Drop notifications": "lower-case",
    "mcpserver: 404 ends no other call": "lower-case",
    "mcpserver: drops notifications": "imperative",
    "mcpserver: dropped notifications": "imperative",
    "mcpserver: dropping notifications": "imperative",
    "docs: figures of the newest builds": "imperative",
    "mcpserver: a session ends": "imperative",
    "mcpserver: the session ends": "imperative",
    "mcpserver: what waits is tested": "imperative",
    "mcpserver: who subscribes waits": "'who'",
    "mcpserver: test that a client is told of changes": "'is told'",
    "docs: " + "x" * 95: "101 characters",
}


class Subjects(unittest.TestCase):
    def test_good_subjects_pass(self):
        for subject in GOOD:
            with self.subTest(subject):
                self.assertEqual(faults(subject), [])

    def test_bad_subjects_are_reported(self):
        for subject, want in BAD.items():
            with self.subTest(subject):
                self.assertIn(want, "; ".join(faults(subject)))


class Commits(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.dir = work.name
        self.git("init", "--quiet", "--initial-branch", "main")

    def git(self, *args):
        identity = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *identity, *args], cwd=self.dir, env=environment(), check=True)

    def commit(self, subject):
        self.git("commit", "--quiet", "--allow-empty", "--message", subject)

    def check(self):
        return subprocess.run(
            [sys.executable, PROGRAM], cwd=self.dir, env=environment(), capture_output=True, text=True, check=False
        )

    def test_main_is_checked_by_its_last_commits(self):
        self.commit("No subject of this project")
        for i in range(10):
            self.commit(f"docs: describe {i}")
        self.assertEqual((0, "check-subjects: commits checked: 10\n"), (self.check().returncode, self.check().stdout))
        self.commit("docs: the eleventh")
        self.assertEqual(1, self.check().returncode)

    def test_a_branch_is_checked_since_main(self):
        self.commit("No subject of this project")
        self.git("checkout", "--quiet", "-b", "branch")
        self.commit("docs: describe branches")
        self.assertEqual((0, "check-subjects: commits checked: 1\n"), (self.check().returncode, self.check().stdout))
        self.commit("docs: describes branches")
        self.assertIn("'describes' is not an imperative", self.check().stderr)

    def test_a_clone_without_main_is_checked_by_its_last_commits(self):
        self.git("checkout", "--quiet", "-b", "branch")
        self.commit("docs: describe branches")
        self.assertEqual(0, self.check().returncode)
        self.commit("branches")
        self.assertEqual(1, self.check().returncode)

    def test_a_repository_without_commits_fails(self):
        self.assertIn("no commits to check", self.check().stderr)


def environment():
    """Returns the environment without what git sets for its hooks and worktrees, and without the user's settings."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return env | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


if __name__ == "__main__":
    unittest.main()
