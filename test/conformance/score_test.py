"""Tests of score.py and of the suite: servers with invalid responses must fail."""

import contextlib
import http.server
import io
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import unittest

import score

HERE = pathlib.Path(__file__).parent
NODE = os.environ.get("NODE", "node")
SUITE = HERE / "node_modules/@modelcontextprotocol/conformance/dist/index.js"


def check(status, name="tools-list", **more):
    return {"id": name, "status": status, **more}


class Faults(unittest.TestCase):
    def test_a_success_of_its_own_counts(self):
        self.assertEqual(score.faults("tools-list", [check("SUCCESS"), check("INFO"), check("SKIPPED")]), [])

    def test_failures_and_warnings_do_not_count(self):
        self.assertEqual(
            score.faults(
                "tools-list",
                [check("SUCCESS"), check("FAILURE", errorMessage="no"), check("WARNING", "order", description="hm")],
            ),
            ["failure tools-list: no", "warning order: hm"],
        )

    def test_a_failure_of_a_synthetic_check_does_not_count(self):
        self.assertEqual(
            score.faults("tools-list", [check("SUCCESS"), check("FAILURE", "wire-schema-valid", errorMessage="bad")]),
            ["failure wire-schema-valid: bad"],
        )

    def test_a_scenario_without_a_success_does_not_count(self):
        for checks in [[], [check("SKIPPED")], [check("INFO")], [check("SUCCESS", "wire-schema-valid")]]:
            self.assertEqual(score.faults("tools-list", checks), ["it has no success of its own"])

    def test_a_scenario_without_its_essential_check_does_not_count(self):
        other, essential = check("SUCCESS", "server-sse-retry-field"), "server-sse-disconnect-resume"
        self.assertEqual(score.faults("server-sse-polling", [other, check("SUCCESS", essential)]), [])
        self.assertEqual(
            score.faults("server-sse-polling", [other, check("INFO", essential)]),
            ["server-sse-disconnect-resume has no success, so the scenario did not test its subject"],
        )


class Leg(unittest.TestCase):
    def setUp(self):
        self.results = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.results)

    def write(self, scenario, *checks):
        self.write_run(f"server-{scenario}", *checks)

    def write_run(self, name, *checks):
        folder = self.results / f"{name}-2026-11-20T22-18-43-692Z"
        folder.mkdir(parents=True)
        (folder / "checks.json").write_text(json.dumps(checks))

    def test_scores_the_scenarios_of_the_leg_and_no_others(self):
        self.write("server-initialize", check("SUCCESS"))
        self.write("ping", check("FAILURE", "ping", errorMessage="no"))
        self.write("tasks-lifecycle", check("FAILURE"))
        self.assertEqual(
            score.score(self.results, ["server-initialize", "ping", "caching"]),
            {"server-initialize": [], "ping": ["failure ping: no"], "caching": ["it did not run"]},
        )

    def test_scores_clients(self):
        self.write_run("initialize", check("SUCCESS"))
        self.write_run("auth/basic-cimd", check("SUCCESS"), check("WARNING", "cimd", errorMessage="no"))
        self.assertEqual(
            score.score(self.results, ["initialize", "auth/basic-cimd", "basic-cimd"]),
            {"initialize": [], "auth/basic-cimd": ["warning cimd: no"], "basic-cimd": ["it did not run"]},
        )

    def test_a_leg_in_another_version_passes_nothing(self):
        log = self.results / "versions"
        for answers, why in {
            "": "0 handshakes were in 2024-11-05, of at least 2",
            "2024-11-05\n": "1 handshakes were in 2024-11-05, of at least 2",
            "2024-11-05\n2025-11-25\n": "2024-11-05 was proposed and answered with 2025-11-25",
            "2024-11-05\n2024-11-05\n": None,
        }.items():
            log.write_text(answers)
            self.assertEqual(score.not_pinned(log, "2024-11-05", 2), why)
        self.assertIsNotNone(score.not_pinned(self.results / "missing", "2024-11-05", 1))
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(score.report("leg", {"ping": []}, "another version"), (0, 1))

    def test_scenarios_beyond_a_version_are_not_scored_but_must_end_as_specified(self):
        end, _ = score.BEYOND["2024-11-05", "tools-call-audio"]
        for verdict, scored in [(end, False), ([], True), (["it did not run"], True)]:
            verdicts, notes = score.without_beyond({"ping": [], "tools-call-audio": verdict}, "2024-11-05")
            self.assertEqual((not verdicts.get("tools-call-audio", []), len(notes)), (not scored, 1 - scored))
        self.assertEqual(score.without_beyond({"tools-call-audio": []}, None), ({"tools-call-audio": []}, []))

    def test_every_scenario_is_in_a_leg_or_has_a_reason(self):
        self.assertEqual(score.uncovered(["ping", "sep-2640-skills-manifest", "new"], {"ping"}), ["new"])


class FixedResponse(http.server.BaseHTTPRequestHandler):
    """Returns the same response to every request."""

    protocol_version = "HTTP/1.1"
    status, answer = 200, {}

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"null")
        if not isinstance(request, dict) or "id" not in request:
            return self.say(202, b"")
        answer = dict(self.answer)
        if request.get("method") == "initialize" and "result" in answer:  # or nothing else would ever be asked
            answer["result"] = {
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {},
                "serverInfo": {"name": "nonsense", "version": "0"},
            }
        return self.say(self.status, json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}).encode())

    def do_GET(self):
        self.say(405, b"")

    do_DELETE = do_GET

    def say(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class EmptyResults(FixedResponse):
    answer = {"result": {}}


class NotFound(FixedResponse):
    status, answer = 404, {"error": {"code": -32601, "message": "no"}}


@unittest.skipUnless(SUITE.exists(), "the suite is not installed")
class NegativeControl(unittest.TestCase):
    """What those pass who do nothing right. Those scenarios say little, and no others may join them unnoticed."""

    def listed(self, kind, revision):
        listed = subprocess.run(
            [NODE, SUITE, "list", kind, "--spec-version", revision], capture_output=True, text=True, check=True
        ).stdout
        return [line.split()[1] for line in listed.splitlines() if line.startswith("  - ")]

    def passed(self, handler, revision):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.handle_error = lambda *_: None  # the suite may hang up at any time
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        names = self.listed("--server", revision)
        with tempfile.TemporaryDirectory() as results:
            subprocess.run(
                [
                    *[NODE, SUITE, "server", "--url", f"http://127.0.0.1:{server.server_port}/mcp"],
                    *["--suite", "all", "--spec-version", revision, "--timeout", "10000", "-o", results],
                ],
                capture_output=True,
                check=False,
            )
            verdicts = score.score(results, names)
        self.assertGreater(len(verdicts), 30)
        return {s for s, why in verdicts.items() if not why}

    def test_a_server_that_knows_no_method_fails(self):
        self.assertEqual(
            self.passed(NotFound, "2026-07-28"),
            # Nothing is asked for where it must not be, and nothing wrong is accepted.
            {"input-required-result-unsupported-methods", "input-required-result-validate-input"},
        )

    def test_a_server_that_returns_nothing_fails(self):
        self.assertEqual(
            self.passed(EmptyResults, "2025-11-25"),
            # An empty result is the right answer.
            {"server-initialize", "ping", "logging-set-level", "resources-subscribe", "resources-unsubscribe"},
        )

    def test_a_client_that_does_nothing_fails(self):
        for revision in ["2025-11-25", "2026-07-28"]:
            names = self.listed("--client", revision)
            self.assertGreater(len(names), 15)
            with tempfile.TemporaryDirectory() as results:
                subprocess.run(
                    [
                        *[NODE, SUITE, "client", "--command", "true", "--suite", "all"],
                        *["--spec-version", revision, "-o", results],
                    ],
                    capture_output=True,
                    check=False,
                )
                verdicts = score.score(results, names)
            self.assertEqual({s for s, why in verdicts.items() if not why}, set())


if __name__ == "__main__":
    unittest.main()
