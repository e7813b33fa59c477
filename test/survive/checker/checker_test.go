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

// A history that is wrong in one way is found to be wrong in that way, and in no other; one that is right is not.
func TestEachWrongIsFound(t *testing.T) {
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
		{"failed before", checker.Call{Answers: answers{failed("BACKEND_UNAVAILABLE", "not_executed")}}, nil, ""},
		{"failed within", checker.Call{Answers: answers{failed("BACKEND_CRASHED", "unknown")}}, entries{begin}, ""},
		{"failed after", checker.Call{Answers: answers{failed("RESPONSE_TOO_LARGE", "executed")}}, entries{begin, end}, ""},
		{"modern drop cancels", checker.Call{Era: "modern", Dropped: 1}, entries{begin, cancel}, ""},
		{"legacy drop does not", checker.Call{Era: "legacy", Dropped: 1}, entries{begin, end}, ""},
		{"cancelled too late", checker.Call{Cancelled: 1, Answers: answers{result}}, entries{begin, end}, ""},

		{"no answer", checker.Call{Broken: "EOF"}, entries{begin, end}, checker.Lost},
		{"two answers", checker.Call{Answers: answers{result, result}}, entries{begin, end}, checker.Duplicate},
		{"another's answer", checker.Call{Answers: answers{{Token: "b"}}}, entries{begin, end}, checker.Crossed},
		{"another's message", checker.Call{Answers: answers{result}, Foreign: []string{"b"}}, entries{begin, end}, checker.Crossed},
		{"two executions", checker.Call{Answers: answers{result}}, entries{begin, begin, end}, checker.Double},
		{"two executions of a failure", checker.Call{Answers: answers{failed("BACKEND_CRASHED", "unknown")}}, entries{begin, begin}, checker.Double},
		{"a result of nothing", checker.Call{Answers: answers{result}}, nil, checker.Ghost},
		{"a result before the end", checker.Call{Answers: answers{result}}, entries{begin}, checker.Ghost},
		{"executed after all", checker.Call{Answers: answers{failed("BACKEND_UNAVAILABLE", "not_executed")}}, entries{begin}, checker.Lied},
		{"not executed after all", checker.Call{Answers: answers{failed("RESPONSE_TOO_LARGE", "executed")}}, nil, checker.Lied},
		{"no outcome", checker.Call{Answers: answers{failed("BACKEND_CRASHED", "")}}, nil, checker.Untold},
		{"no reason", checker.Call{Answers: answers{failed("", "unknown")}}, nil, checker.Untold},
		{"an outcome that is none", checker.Call{Answers: answers{failed("BACKEND_CRASHED", "perhaps")}}, nil, checker.Untold},
		{"a tool failure", checker.Call{Answers: answers{{Failed: true, Text: "cancelled"}}}, nil, checker.Untold},
		{"progress left out", checker.Call{Answers: answers{result}, Events: []int{1, 3}}, entries{begin, end}, checker.Misordered},
		{"progress twice", checker.Call{Answers: answers{result}, Events: []int{1, 1}}, entries{begin, end}, checker.Misordered},
		{"progress restarted", checker.Call{Answers: answers{result}, Events: []int{1, 2, 1}}, entries{begin, end}, checker.Misordered},
		{"the last progress left out", checker.Call{Answers: answers{result}, Events: []int{1, 2}, Sent: 3}, entries{begin, end}, checker.Misordered},
		{"told after its end", checker.Call{Answers: answers{result}, Late: 1}, entries{begin, end}, checker.LateMessage},
		{"cancelled in vain", checker.Call{Cancelled: 1}, entries{begin}, checker.Uncancelled},
		{"modern drop in vain", checker.Call{Era: "modern", Dropped: 1}, entries{begin}, checker.Uncancelled},
		{"legacy drop cancelled", checker.Call{Era: "legacy", Dropped: 1}, entries{begin, cancel}, checker.Unasked},
		{"cancelled by nobody", checker.Call{Answers: answers{failed("DEADLINE", "unknown")}}, entries{begin, cancel}, checker.Unasked},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.call.Token = "a"
			var kinds []string
			for _, w := range (checker.Rule{DropCancels: modernOnly}).Judge([]checker.Call{row.call}, row.journal) {
				kinds = append(kinds, w.Kind)
			}
			if got := strings.Join(kinds, " "); got != row.want {
				t.Errorf("found %q, want %q", got, row.want)
			}
		})
	}
}

// An unknown outcome of a call whose work ended is explained by the death of its process only if few calls that ended
// later were answered.
func TestDiscardedResultIsFound(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name           string
		later, process int
		answered       int64
		want           int
	}{
		{"the process died with the response", 64, 1, 1, 0},
		{"many later calls were answered", 65, 1, 1, 1},
		{"by another process", 1000, 2, 1, 0},
		{"after it", 1000, 1, 3, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			history := []checker.Call{{Token: "a", End: 2, Answers: []checker.Answer{
				{Failed: true, Code: -32603, Reason: "BACKEND_CRASHED", Outcome: "unknown"},
			}}}
			journal := []checker.Entry{{What: checker.Begin, Token: "a", PID: 1}, {What: checker.End, Token: "a", PID: 1}}
			for i := range row.later {
				token := strconv.Itoa(i)
				history = append(history, checker.Call{Token: token, End: row.answered, Answers: []checker.Answer{{Token: token}}})
				journal = append(journal, checker.Entry{What: checker.Begin, Token: token, PID: row.process},
					checker.Entry{What: checker.End, Token: token, PID: row.process})
			}
			wrongs := checker.Rule{}.Judge(history, journal)
			if len(wrongs) != row.want || len(wrongs) > 0 && wrongs[0].Kind != checker.Discarded {
				t.Errorf("found %v, want %d", wrongs, row.want)
			}
		})
	}
}

// A result that a thousand later ones overtake was held up.
func TestDelayedResultIsFound(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ later, want int }{{1000, 0}, {1001, 1}} {
		history := []checker.Call{{Token: "a", End: 2, Answers: []checker.Answer{{Token: "a"}}}}
		journal := []checker.Entry{{What: checker.Begin, Token: "a"}, {What: checker.End, Token: "a"}}
		for i := range row.later {
			token := strconv.Itoa(i)
			history = append(history, checker.Call{Token: token, End: 1, Answers: []checker.Answer{{Token: token}}})
			journal = append(journal, checker.Entry{What: checker.Begin, Token: token}, checker.Entry{What: checker.End, Token: token})
		}
		wrongs := checker.Rule{}.Judge(history, journal)
		if len(wrongs) != row.want || len(wrongs) > 0 && (wrongs[0].Kind != checker.Delayed || wrongs[0].Token != "a") {
			t.Errorf("after %d: found %v, want %d", row.later, wrongs, row.want)
		}
	}
}

func TestSuffix(t *testing.T) {
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
		{"one lost at the end", messages{{"1-2", "b"}}, "1-1", false},
		{"one lost at the beginning", messages{{"1-3", "c"}}, "1-1", false},
		{"one repeated", messages{{"1-1", "a"}, {"1-2", "b"}, {"1-3", "c"}}, "1-1", false},
		{"one too many", messages{{"1-3", "c"}, {"1-4", "d"}}, "1-2", false},
		{"another's", messages{{"2-3", "c"}}, "1-2", false},
		{"changed", messages{{"1-3", "C"}}, "1-2", false},
		{"after nothing known", nil, "9-9", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if why := checker.Suffix(whole, row.resumed, row.after); (why == "") != row.right {
				t.Errorf("says %q", why)
			}
		})
	}
}

// A journal keeps what was written, and nothing of a line that its writer could not end.
func TestJournalIgnoresTornLines(t *testing.T) {
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
		t.Errorf("the journal has %v, want %s", got, want)
	}
	if j.Starts() != 1 {
		t.Errorf("%d starts, want 1", j.Starts())
	}
}
