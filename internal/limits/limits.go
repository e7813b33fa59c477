// Package limits has every limit that an operator can set, once: its default, bounds and documentation are a row of the
// table in table.go. The configuration, its checks and docs/configuration.md are made from the rows, and the packages
// that enforce a limit get a Limits. They have no defaults of their own.
package limits

import (
	"fmt"
	"reflect"
	"strconv"
	"time"
)

// Limits are the limits of the bridge, by their keys below `limits` in the configuration. A field that is zero stands
// for its default: call OrDefaults before reading any. Two fields with the same key are one setting that has another
// default for each.
type Limits struct {
	Calls             int           `koanf:"calls"`
	CallsPerCaller    int           `koanf:"callsPerCaller"`
	CallQueue         time.Duration `koanf:"callQueue"`
	CallIdle          time.Duration `koanf:"callIdle"`
	CallTotal         time.Duration `koanf:"callTotal"`
	Sessions          int           `koanf:"sessions"`
	SessionsPerCaller int           `koanf:"sessionsPerCaller"`
	SessionIdle       time.Duration `koanf:"sessionIdle"`
	SessionCalls      int           `koanf:"sessionCalls"`
	Streams           int           `koanf:"streams"`
	StreamsPerCaller  int           `koanf:"streamsPerCaller"`
	SessionStreams    int           `koanf:"sessionStreams"`
	Header            int           `koanf:"header"`
	HeaderFields      int           `koanf:"headerFields"`
	HeaderTime        time.Duration `koanf:"headerTime"`
	ConnectionIdle    time.Duration `koanf:"connectionIdle"`
	Body              int           `koanf:"body"`
	BodyTime          time.Duration `koanf:"bodyTime"`
	BodyRate          int           `koanf:"bodyRate"`
	WriteTime         time.Duration `koanf:"writeTime"`
	Line              int           `koanf:"line"`
	Message           int           `koanf:"message"`
	ClientMessage     int           `koanf:"message"`
	JSONDepth         int           `koanf:"jsonDepth"`
	JSONMembers       int           `koanf:"jsonMembers"`
	JSONElements      int           `koanf:"jsonElements"`
	ID                int           `koanf:"id"`
	Batch             int           `koanf:"batch"`
	Tools             int           `koanf:"tools"`
	ToolName          int           `koanf:"toolName"`
	Schema            int           `koanf:"schema"`
	SchemaValues      int           `koanf:"schemaValues"`
	Subschemas        int           `koanf:"subschemas"`
	Changes           int           `koanf:"changes"`
	ChangesBytes      int           `koanf:"changesBytes"`
	Replay            int           `koanf:"replay"`
	SessionReplay     int           `koanf:"sessionReplay"`
	State             int           `koanf:"state"`
	LogLine           int           `koanf:"logLine"`
	LogRate           int           `koanf:"logRate"`
	Memory            int           `koanf:"memory"`
	StateTTL          time.Duration `koanf:"stateLife"`
	LegacyStateTTL    time.Duration `koanf:"stateLife"`
	AnswerTime        time.Duration `koanf:"answerTime"`
}

// Machine limits the resources of a program and its child processes.
type Machine struct {
	Memory    int `koanf:"memory"`
	Processes int `koanf:"processes"`
	Files     int `koanf:"files"`
}

// Tasks limits the tasks of the bridge.
type Tasks struct {
	Most      int           `koanf:"most"`
	PerCaller int           `koanf:"perCaller"`
	Bytes     int           `koanf:"bytes"`
	Calls     int           `koanf:"calls"`
	TTL       time.Duration `koanf:"ttl"`
}

// Pool bounds the sessions with an MCP server before 2026-07-28 for callers with capabilities.
type Pool struct {
	Processes int           `koanf:"most"` // with a command
	Remote    int           `koanf:"most"` // with a URL
	Idle      time.Duration `koanf:"idle"`
}

// Timeouts are how long a backend may take.
type Timeouts struct {
	Start time.Duration `koanf:"startTimeout"`
	Probe time.Duration `koanf:"probeTimeout"`
	Hang  time.Duration `koanf:"hangTimeout"`
}

// Any is a struct whose fields have rows in the table.
type Any interface {
	Limits | Tasks | Machine | Pool | Timeouts
}

// Defaults returns the limits that hold if none is configured.
func Defaults() *Limits {
	l := Limits{}.OrDefaults()
	return &l
}

// OrDefaults returns l with the default of each field that is zero.
func (l Limits) OrDefaults() Limits { return orDefaults(l) }

// OrDefaults returns t with the default of each field that is zero.
func (t Tasks) OrDefaults() Tasks { return orDefaults(t) }

// OrDefaults returns m with the default of each field that is zero.
func (m Machine) OrDefaults() Machine { return orDefaults(m) }

// OrDefaults returns p with the default of each field that is zero.
func (p Pool) OrDefaults() Pool { return orDefaults(p) }

// OrDefaults returns t with the default of each field that is zero. That of Probe depends on Start.
func (t Timeouts) OrDefaults() Timeouts {
	t = orDefaults(t)
	if t.Probe == 0 {
		t.Probe = t.Start / 2
	}
	return t
}

func orDefaults[T Any](l T) T {
	v := reflect.ValueOf(&l).Elem()
	for _, r := range Table[T]() {
		if f := v.FieldByName(r.Field); f.Int() == 0 {
			f.SetInt(r.Default)
		}
	}
	return l
}

// A Violation is a value that is out of the bounds of its row.
type Violation struct {
	// Key is the key of the limit.
	Key string
	// What is the value, and why it is rejected.
	What string
	// Fix is what to write instead.
	Fix string
}

// Check returns which values of l are out of bounds. Zero is always allowed.
func Check[T Any](l T) []Violation {
	var all []Violation
	v := reflect.ValueOf(l)
	for _, r := range Table[T]() {
		value := v.FieldByName(r.Field)
		if n := len(all); n > 0 && all[n-1].Key == r.Key {
			continue // the same setting
		}
		fix, why := "write "+r.allowed()+", or 0 for the default", ""
		switch n := value.Int(); {
		case n < 0:
		case n > 0 && n < r.Min:
			why = ": " + r.TooLow
		case r.Max > 0 && n > r.Max:
			why = ": " + r.TooHigh
		default:
			continue
		}
		all = append(all, Violation{r.Key, fmt.Sprintf("cannot be %v%s", value, why), fix})
	}
	return all
}

// allowed describes the values that r can have.
func (r Row) allowed() string {
	what := "a number"
	if r.isTime() {
		what = "a time"
	}
	switch {
	case r.Max == 0 && r.Min == 0 && r.isTime():
		return what + " such as 30s"
	case r.Max == 0 && r.Min == 0:
		return what + " above 0"
	case r.Max == 0:
		return what + ", at least " + r.text(r.Min)
	case r.Min <= 1:
		return what + ", at most " + r.text(r.Max)
	}
	return what + " from " + r.text(r.Min) + " to " + r.text(r.Max)
}

func (r Row) isTime() bool { return r.typ == reflect.TypeFor[time.Duration]() }

// text returns a value of r as it is written in the configuration.
func (r Row) text(n int64) string {
	if !r.isTime() {
		return strconv.FormatInt(n, 10)
	}
	text := time.Duration(n).String()
	for _, zero := range []string{"m0s", "h0m"} { // 15m0s is 15m
		if len(text) > len(zero) && text[len(text)-len(zero):] == zero {
			text = text[:len(text)-len(zero)+1]
		}
	}
	return text
}
