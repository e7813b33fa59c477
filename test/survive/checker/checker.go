// Package checker compares the callers' histories with the backend's journal. It checks the delivery law: each call
// is answered exactly once with its own answer, is executed at most once, and if it fails, reports the true outcome.
package checker

import (
	"cmp"
	"fmt"
	"slices"
)

// A Call is one call in the history of a caller.
type Call struct {
	// Token identifies the call, and is its JSON-RPC ID.
	Token  string `json:"token"`
	Caller int    `json:"caller"`
	Era    string `json:"era"`
	Tool   string `json:"tool"`
	// Begin is when the request was sent, and End when the answer was read or became impossible, in nanoseconds since
	// 1970.
	Begin int64 `json:"begin"`
	End   int64 `json:"end"`
	// Status is the HTTP status.
	Status int `json:"status,omitempty"`
	// Answers are the responses with the call's ID.
	Answers []Answer `json:"answers,omitempty"`
	// Foreign contains messages on the call's stream with another ID.
	Foreign []string `json:"foreign,omitempty"`
	// Events contains the received progress numbers, and Sent is how many the work sends.
	Events []int `json:"events,omitempty"`
	Sent   int   `json:"sent,omitempty"`
	// Late counts messages after the answer.
	Late int `json:"late,omitempty"`
	// Broken is the error of the connection.
	Broken string `json:"broken,omitempty"`
	// Cancelled and Dropped are when the caller canceled the call, and when it closed the connection, or zero.
	Cancelled int64 `json:"cancelled,omitempty"`
	Dropped   int64 `json:"dropped,omitempty"`
}

// An Answer is a response.
type Answer struct {
	// Token and PID are the content of a result.
	Token string `json:"token,omitempty"`
	PID   int    `json:"pid,omitempty"`
	// Failed reports a tool failure or an error. Both have a text, and errors the other fields.
	Failed  bool   `json:"failed,omitempty"`
	Code    int    `json:"code,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	Text    string `json:"text,omitempty"`
}

// Result reports whether the answer is a result.
func (a Answer) Result() bool { return !a.Failed }

// OK reports whether the call was answered with a result.
func (c *Call) OK() bool { return len(c.Answers) == 1 && c.Answers[0].Result() }

// The kinds of violations.
const (
	Lost              = "lost"               // a call has no answer
	Duplicate         = "duplicate"          // it has several answers
	Misdirected       = "misdirected"        // it received a message of another call
	ExecutedTwice     = "executed-twice"     // it was executed twice
	Unexecuted        = "unexecuted"         // it has a result, but its execution did not start or did not end
	WrongOutcome      = "wrong-outcome"      // the outcome of its error contradicts the journal
	NoOutcome         = "no-outcome"         // its error has no reason or no outcome
	Misordered        = "misordered"         // progress is missing, repeated or out of order
	NotCanceled       = "not-canceled"       // it was canceled, and did not stop
	UnrequestedCancel = "unrequested-cancel" // it was canceled without a request
	LateMessage       = "late-message"       // it received a message after its answer
	Discarded         = "discarded"          // its work ended, and its outcome is unknown without a fault
	Delayed           = "delayed"            // many calls whose work ended later were answered before it
)

// overtaken is the maximum number of calls of a backend process that may end after a call and be answered before it, if
// the kill of the process is to explain the unknown outcome of that call. Goroutines on few cores can overtake each
// other between the end of the work and the response. The maximum counts calls, so that it does not depend on the load
// of the machine.
const overtaken = 64

// delayed is the maximum number of calls whose work ended after that of a call, and that were answered before it.
const delayed = 1000

// A Wrong is a violation of the delivery law.
type Wrong struct {
	Kind string `json:"kind"`
	// Token identifies the call.
	Token string `json:"token"`
	Why   string `json:"why"`
}

// did counts the journal entries of one call.
type did struct {
	begins, ends, cancels int
	// overtook counts the calls of the same process that ended later and were answered earlier.
	overtook int
}

// A Rule configures the delivery law.
type Rule struct {
	// DropCancels reports whether closing the connection cancels a call in this era. If not, it must not.
	DropCancels func(era string) bool
}

// Judge returns the violations in a history. All calls must have ended, and the backend must be idle.
func (r Rule) Judge(history []Call, journal []Entry) []Wrong {
	done := map[string]*did{}
	for _, e := range journal {
		d := done[e.Token]
		if d == nil {
			d = &did{}
			done[e.Token] = d
		}
		switch e.What {
		case Begin:
			d.begins++
		case End:
			d.ends++
		case Cancel:
			d.cancels++
		}
	}
	countOvertaking(history, journal, done)
	wrongs := delays(history, journal)
	for i := range history {
		c := &history[i]
		d := done[c.Token]
		if d == nil {
			d = &did{}
		}
		for _, w := range r.judge(c, d) {
			w.Token = c.Token
			wrongs = append(wrongs, w)
		}
	}
	return wrongs
}

// countOvertaking sets overtook of the calls whose work ended and whose outcome is unknown.
func countOvertaking(history []Call, journal []Entry, done map[string]*did) {
	calls := make(map[string]*Call, len(history))
	for i := range history {
		calls[history[i].Token] = &history[i]
	}
	answered := map[int][]int64{} // times of the answers of a process, in reverse order of the ends of their work
	for _, e := range slices.Backward(journal) {
		c := calls[e.Token]
		switch {
		case e.What != End || c == nil:
		case c.OK():
			answered[e.PID] = append(answered[e.PID], c.End)
		case slices.ContainsFunc(c.Answers, func(a Answer) bool { return a.Outcome == "unknown" }):
			for _, at := range answered[e.PID] {
				if at < c.End {
					done[e.Token].overtook++
				}
			}
		}
	}
}

// delays returns the calls that were answered after many calls whose work ended later.
func delays(history []Call, journal []Entry) (wrongs []Wrong) {
	answered := make(map[string]int64, len(history))
	for i := range history {
		if history[i].OK() {
			answered[history[i].Token] = history[i].End
		}
	}
	ended := make([]string, 0, len(history))
	for _, e := range journal {
		if e.What == End && answered[e.Token] != 0 {
			ended = append(ended, e.Token)
		}
	}
	byAnswer := slices.Clone(ended)
	slices.SortStableFunc(byAnswer, func(a, b string) int { return cmp.Compare(answered[a], answered[b]) })
	place := make(map[string]int, len(ended))
	for i, token := range ended {
		place[token] = i
	}
	for i, token := range byAnswer {
		if n := i - place[token]; n > delayed {
			wrongs = append(wrongs, Wrong{
				Kind: Delayed, Token: token,
				Why: fmt.Sprintf("%d calls that ended later were answered before it", n),
			})
		}
	}
	return wrongs
}

// judge returns the violations of one call.
func (r Rule) judge(c *Call, d *did) (wrongs []Wrong) {
	wrong := func(kind, format string, args ...any) {
		wrongs = append(wrongs, Wrong{Kind: kind, Why: fmt.Sprintf(format, args...)})
	}
	givenUp := c.Dropped != 0 || c.Cancelled != 0
	switch n := len(c.Answers); {
	case n == 0 && !givenUp:
		wrong(Lost, "no answer: status %d, %s", c.Status, c.Broken)
	case n > 1:
		wrong(Duplicate, "%d answers", n)
	}
	for _, id := range c.Foreign {
		wrong(Misdirected, "got a message with the ID %q", id)
	}
	for _, a := range c.Answers {
		switch {
		case a.Result() && a.Token != c.Token:
			wrong(Misdirected, "got the result of %q", a.Token)
		case a.Result() && d.ends == 0:
			wrong(Unexecuted, "got a result, and the journal has %d begins and no end", d.begins)
		case a.Failed && a.Code == 0:
			wrong(NoOutcome, "the tool failed: %.200s", a.Text)
		case a.Failed && (a.Reason == "" ||
			!slices.Contains([]string{"not_executed", "unknown", "executed"}, a.Outcome)):
			wrong(NoOutcome, "error %d with reason %q and outcome %q: %.200s", a.Code, a.Reason, a.Outcome, a.Text)
		case a.Outcome == "not_executed" && d.begins > 0:
			wrong(WrongOutcome, "got not_executed (%s), and the journal has %d begins", a.Reason, d.begins)
		case a.Outcome == "executed" && d.begins == 0:
			wrong(WrongOutcome, "got executed (%s), and the journal has no begin", a.Reason)
		case a.Outcome == "unknown" && d.overtook > overtaken:
			wrong(Discarded, "got unknown (%s), but its work had ended, and %d calls that ended later were answered "+
				"before it", a.Reason, d.overtook)
		}
	}
	if d.begins > 1 {
		wrong(ExecutedTwice, "%d begins", d.begins)
	}
	for i, n := range c.Events {
		if n != i+1 {
			wrong(Misordered, "progress %v", c.Events)
			break
		}
	}
	if c.OK() && len(c.Events) < c.Sent {
		wrong(Misordered, "progress %v of %d before the result", c.Events, c.Sent)
	}
	if c.Late > 0 {
		wrong(LateMessage, "%d messages after its end", c.Late)
	}
	cancelled := c.Cancelled != 0 || c.Dropped != 0 && r.DropCancels != nil && r.DropCancels(c.Era)
	switch {
	case cancelled && d.begins > d.cancels+d.ends:
		wrong(NotCanceled, "%d begins, %d cancels, %d ends", d.begins, d.cancels, d.ends)
	case !cancelled && d.cancels > 0:
		wrong(UnrequestedCancel, "%d cancels", d.cancels)
	}
	return wrongs
}

// A Message is an event of a resumable stream.
type Message struct {
	ID   string
	Data string
}

// Suffix describes how a resumed stream differs from the whole one after the event with the ID, or returns "". It
// ignores events without data.
func Suffix(whole, resumed []Message, after string) string {
	at := slices.IndexFunc(whole, func(m Message) bool { return m.ID == after })
	if at < 0 {
		return fmt.Sprintf("the whole stream has no event %q", after)
	}
	withData := func(ms []Message) []Message {
		return slices.DeleteFunc(slices.Clone(ms), func(m Message) bool { return m.Data == "" })
	}
	want, got := withData(whole[at+1:]), withData(resumed)
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("after %s: %d events are lost, from %s on", after, len(want)-i, want[i].ID)
		case i >= len(want):
			return fmt.Sprintf("after %s: %d additional events, from %s on", after, len(got)-i, got[i].ID)
		case want[i] != got[i]:
			return fmt.Sprintf("after %s: event %d: got %s %.100q, want %s %.100q", after, i, got[i].ID,
				got[i].Data, want[i].ID, want[i].Data)
		}
	}
	return ""
}
