package checker_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/test/survive/checker"
)

func modernOnly(era string) bool { return era == "modern" }

// Judge reports exactly the violation that a history has.
func TestEachViolationIsReported(t *testing.T) {
	t.Parallel()
	begin, end := checker.Entry{What: checker.Begin, Token: "a"}, checker.Entry{What: checker.End, Token: "a"}
	cancel := checker.Entry{What: checker.Cancel, Token: "a"}
	result := checker.Answer{Token: "a", PID: 1}
	failed := func(reason, outcome string) checker.Answer {
		return checker.Answer{Failed: true, Code: -32603, Reason: reason, Outcome: outcome}
	}
	type entries = []checker.Entry
	type answers = []checker.Answer
	for _, row := range []struct {
		name    string
		call    checker.Call
		journal entries
		want    string
	}{
		{"answered", checker.Call{Answers: answers{result}, Events: []int{1, 2, 3}}, entries{begin, end}, ""},
		{
			"failed before the start",
			checker.Call{Answers: answers{failed("BACKEND_UNAVAILABLE", "not_executed")}},
			nil,
			"",
		},
		{
			"failed during the execution",
			checker.Call{Answers: answers{failed("BACKEND_CRASHED", "unknown")}},
			entries{begin},
			"",
		},
		{
			"failed after the end",
			checker.Call{Answers: answers{failed("RESPONSE_TOO_LARGE", "executed")}},
			entries{begin, end},
			"",
		},
		{"modern disconnect cancels", checker.Call{Era: "modern", Dropped: 1}, entries{begin, cancel}, ""},
		{"legacy disconnect does not cancel", checker.Call{Era: "legacy", Dropped: 1}, entries{begin, end}, ""},
		{"canceled too late", checker.Call{Cancelled: 1, Answers: answers{result}}, entries{begin, end}, ""},

		{"no answer", checker.Call{Broken: "EOF"}, entries{begin, end}, checker.Lost},
		{"two answers", checker.Call{Answers: answers{result, result}}, entries{begin, end}, checker.Duplicate},
		{
			"an answer of another call",
			checker.Call{Answers: answers{{Token: "b"}}},
			entries{begin, end},
			checker.Misdirected,
		},
		{
			"a message of another call",
			checker.Call{Answers: answers{result}, Foreign: []string{"b"}},
			entries{begin, end},
			checker.Misdirected,
		},
		{"two executions", checker.Call{Answers: answers{result}}, entries{begin, begin, end}, checker.ExecutedTwice},
		{
			"two executions of a failure",
			checker.Call{Answers: answers{failed("BACKEND_CRASHED", "unknown")}},
			entries{begin, begin},
			checker.ExecutedTwice,
		},
		{"a result without execution", checker.Call{Answers: answers{result}}, nil, checker.Unexecuted},
		{"a result before the end", checker.Call{Answers: answers{result}}, entries{begin}, checker.Unexecuted},
		{
			"not_executed of an executed call",
			checker.Call{Answers: answers{failed("BACKEND_UNAVAILABLE", "not_executed")}},
			entries{begin},
			checker.WrongOutcome,
		},
		{
			"executed of a call that was not executed",
			checker.Call{Answers: answers{failed("RESPONSE_TOO_LARGE", "executed")}},
			nil,
			checker.WrongOutcome,
		},
		{"no outcome", checker.Call{Answers: answers{failed("BACKEND_CRASHED", "")}}, nil, checker.NoOutcome},
		{"no reason", checker.Call{Answers: answers{failed("", "unknown")}}, nil, checker.NoOutcome},
		{
			"an invalid outcome",
			checker.Call{Answers: answers{failed("BACKEND_CRASHED", "perhaps")}},
			nil,
			checker.NoOutcome,
		},
		{"a tool failure", checker.Call{Answers: answers{{Failed: true, Text: "cancelled"}}}, nil, checker.NoOutcome},
		{
			"progress missing",
			checker.Call{Answers: answers{result}, Events: []int{1, 3}},
			entries{begin, end},
			checker.Misordered,
		},
		{
			"progress repeated",
			checker.Call{Answers: answers{result}, Events: []int{1, 1}},
			entries{begin, end},
			checker.Misordered,
		},
		{
			"progress restarted",
			checker.Call{Answers: answers{result}, Events: []int{1, 2, 1}},
			entries{begin, end},
			checker.Misordered,
		},
		{
			"the last progress missing",
			checker.Call{Answers: answers{result}, Events: []int{1, 2}, Sent: 3},
			entries{begin, end},
			checker.Misordered,
		},
		{
			"a message after its end",
			checker.Call{Answers: answers{result}, Late: 1},
			entries{begin, end},
			checker.LateMessage,
		},
		{"canceled, running", checker.Call{Cancelled: 1}, entries{begin}, checker.NotCanceled},
		{"modern disconnect, running", checker.Call{Era: "modern", Dropped: 1}, entries{begin}, checker.NotCanceled},
		{
			"stopped by a legacy disconnect",
			checker.Call{Era: "legacy", Dropped: 1},
			entries{begin, cancel},
			checker.UnrequestedCancel,
		},
		{
			"stopped without a request",
			checker.Call{Answers: answers{failed("DEADLINE", "unknown")}},
			entries{begin, cancel},
			checker.UnrequestedCancel,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.call.Token = "a"
			var kinds []string
			for _, w := range (checker.Rule{DropCancels: modernOnly}).Judge([]checker.Call{row.call}, row.journal) {
				kinds = append(kinds, w.Kind)
			}
			if got := strings.Join(kinds, " "); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// If the work of a call ended, the kill of the process explains its unknown outcome only if few calls that ended later
// were answered.
func TestDiscardedResultIsReported(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name           string
		later, process int
		answered       int64
		want           int
	}{
		{"the process was killed before the response", 64, 1, 1, 0},
		{"many later calls were answered", 65, 1, 1, 1},
		{"calls of another process were answered", 1000, 2, 1, 0},
		{"later calls were answered after it", 1000, 1, 3, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			history := []checker.Call{{Token: "a", End: 2, Answers: []checker.Answer{
				{Failed: true, Code: -32603, Reason: "BACKEND_CRASHED", Outcome: "unknown"},
			}}}
			journal := []checker.Entry{
				{What: checker.Begin, Token: "a", PID: 1},
				{What: checker.End, Token: "a", PID: 1},
			}
			for i := range row.later {
				token := strconv.Itoa(i)
				history = append(history,
					checker.Call{Token: token, End: row.answered, Answers: []checker.Answer{{Token: token}}})
				journal = append(journal, checker.Entry{What: checker.Begin, Token: token, PID: row.process},
					checker.Entry{What: checker.End, Token: token, PID: row.process})
			}
			wrongs := checker.Rule{}.Judge(history, journal)
			if len(wrongs) != row.want || len(wrongs) > 0 && wrongs[0].Kind != checker.Discarded {
				t.Errorf("got %v, want %d", wrongs, row.want)
			}
		})
	}
}

// A result is delayed if more than a thousand calls that ended later were answered before it.
func TestDelayedResultIsReported(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ later, want int }{{1000, 0}, {1001, 1}} {
		history := []checker.Call{{Token: "a", End: 2, Answers: []checker.Answer{{Token: "a"}}}}
		journal := []checker.Entry{{What: checker.Begin, Token: "a"}, {What: checker.End, Token: "a"}}
		for i := range row.later {
			token := strconv.Itoa(i)
			history = append(history, checker.Call{Token: token, End: 1, Answers: []checker.Answer{{Token: token}}})
			journal = append(journal, checker.Entry{What: checker.Begin, Token: token},
				checker.Entry{What: checker.End, Token: token})
		}
		wrongs := checker.Rule{}.Judge(history, journal)
		if len(wrongs) != row.want || len(wrongs) > 0 && (wrongs[0].Kind != checker.Delayed || wrongs[0].Token != "a") {
			t.Errorf("after %d later ones: got %v, want %d", row.later, wrongs, row.want)
		}
	}
}

func TestResumedStreamIsCompared(t *testing.T) {
	t.Parallel()
	type messages = []checker.Message
	whole := messages{{"1-0", ""}, {"1-1", "a"}, {"1-2", "b"}, {"1-3", "c"}}
	for _, row := range []struct {
		name    string
		resumed messages
		after   string
		right   bool
	}{
		{"all", messages{{"1-1", "a"}, {"1-2", "b"}, {"1-3", "c"}}, "1-0", true},
		{"the rest", messages{{"1-2", "b"}, {"1-3", "c"}}, "1-1", true},
		{"nothing", nil, "1-3", true},
		{"with a priming event", messages{{"1-4", ""}, {"1-3", "c"}}, "1-2", true},
		{"the last one lost", messages{{"1-2", "b"}}, "1-1", false},
		{"the first one lost", messages{{"1-3", "c"}}, "1-1", false},
		{"one repeated", messages{{"1-1", "a"}, {"1-2", "b"}, {"1-3", "c"}}, "1-1", false},
		{"one added", messages{{"1-3", "c"}, {"1-4", "d"}}, "1-2", false},
		{"of another stream", messages{{"2-3", "c"}}, "1-2", false},
		{"changed", messages{{"1-3", "C"}}, "1-2", false},
		{"after an unknown ID", nil, "9-9", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if why := checker.Suffix(whole, row.resumed, row.after); (why == "") != row.right {
				t.Errorf("got %q, want a difference: %t", why, !row.right)
			}
		})
	}
}

func TestJournalIgnoresIncompleteLines(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "journal")
	j, err := checker.OpenJournal(name)
	if err != nil {
		t.Fatal(err)
	}
	write := func(what, token string) {
		if err := j.Write(what, token); err != nil {
			t.Fatal(err)
		}
	}
	write(checker.Start, "-")
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, torn := range []string{"be", "begin tok", "begin token 12 1234"} {
		if _, err := f.WriteString(torn); err != nil {
			t.Fatal(err)
		}
		write(checker.Begin, "whole")
	}
	if _, err := f.WriteString("end whole 12 1234"); err != nil {
		t.Fatal(err)
	}
	entries, err := checker.ReadJournal(name, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.What+" "+e.Token)
	}
	if want := "start -,begin whole,begin whole,begin whole"; strings.Join(got, ",") != want {
		t.Errorf("got entries %v, want %s", got, want)
	}
	if j.Starts() != 1 {
		t.Errorf("got %d starts, want 1", j.Starts())
	}
}
