package main

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge/catalog"
	"github.com/mcpbridge/mcpbridge/bridge/child"
	"github.com/mcpbridge/mcpbridge/bridge/mcpserver"
)

// A limit cannot be out of its bounds, whatever says so, and who says it is told where, why, and what to write.
func TestLimitsHaveBounds(t *testing.T) {
	for key, b := range bounds {
		name := strings.TrimPrefix(key, "limits.")
		at := slices.IndexFunc(reflect.VisibleFields(reflect.TypeFor[LimitsConfig]()), func(f reflect.StructField) bool { return f.Tag.Get("koanf") == name })
		if at < 0 {
			t.Errorf("there is no key %s", key)
			continue
		}
		text, like := func(n int64) string { return strconv.FormatInt(n, 10) }, any(0)
		if reflect.TypeFor[LimitsConfig]().Field(at).Type == durationType {
			text, like = func(n int64) string { return time.Duration(n).String() }, time.Second
		}
		good := map[int64]bool{}
		if b.least > 1 {
			good[b.least-1], good[b.least] = false, true
		}
		if b.most > 0 {
			good[b.most-1], good[b.most], good[b.most+1] = true, true, false
		}
		for n, want := range good {
			file := fmt.Sprintf("limits: {%s: %s}\nbackends: [{dial: 'unix:///x'}]", name, text(n))
			variable := "MCPBRIDGE_LIMITS__" + strings.ToUpper(name)
			for where, read := range map[string]func() (*loaded, error){
				"mcpbridge.yaml:2:": func() (*loaded, error) { return load(writeConfig(t, file), nil, nil, nil) },
				variable: func() (*loaded, error) {
					return load(writeConfig(t, "backends: [{dial: 'unix:///x'}]"), []string{variable + "=" + text(n)}, nil, nil)
				},
			} {
				l, err := read()
				if err != nil {
					t.Fatal(err)
				}
				err = l.validate()
				if (err == nil) != want {
					t.Errorf("%s of %s: %v", key, text(n), err)
				}
				if err == nil {
					continue
				}
				why := b.why
				if n > b.least {
					why = b.orElse
				}
				if p := asProblem(err); !strings.Contains(p.Where, where) || p.What != fmt.Sprintf("%s cannot be %s: %s", key, text(n), why) || why == "" ||
					!strings.Contains(p.Fix, b.text(like)) {
					t.Errorf("%s of %s: %+v, and it should be at %s", key, text(n), p, where)
				}
			}
		}
	}
}

// Every key of limits is in the table of limits, and what it names there is one.
func TestLimitsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	for f := range reflect.TypeFor[LimitsConfig]().Fields() {
		if !strings.Contains(string(page), "`"+f.Tag.Get("koanf")+"`") {
			t.Errorf("docs/security.md does not have limits.%s", f.Tag.Get("koanf"))
		}
	}
}

// What the limits say reaches what keeps them. Every key has a row, or another test that reaches it: a new one has to be added.
func TestLimitsReachWhoKeepsThem(t *testing.T) {
	l := &LimitsConfig{}
	byKey := map[string]int64{}
	v := reflect.ValueOf(l).Elem()
	for i := range v.NumField() {
		v.Field(i).SetInt(int64(1000 + i))
		byKey[v.Type().Field(i).Tag.Get("koanf")] = int64(1000 + i)
	}
	n := func(key string) int {
		defer delete(byKey, key)
		return int(byKey[key])
	}
	d := func(key string) time.Duration { return time.Duration(n(key)) }
	server := mcpserver.Options{
		MaxSessions: n("sessions"), MaxSessionsPerPrincipal: n("sessionsPerCaller"), SessionTTL: d("sessionIdle"), MaxCalls: n("sessionCalls"),
		MaxSessionStreams: n("sessionStreams"), MaxBody: int64(n("body")), BodyTime: d("bodyTime"), BodyRate: n("bodyRate"), WriteTimeout: d("writeTime"),
		MaxLine: n("line"), MaxChanges: n("changes"), MaxChangesSize: n("changesBytes"), MaxReplay: n("sessionReplay"), MaxReplayOfAll: n("replay"),
		MaxState: n("state"), StateTTL: d("stateLife"), AskTimeout: d("answerTime"),
	}
	if got := l.server(); !reflect.DeepEqual(got, server) {
		t.Errorf("a server gets %+v", got)
	}
	tools := catalog.Options{
		MaxTools: n("tools"), MaxName: n("toolName"), MaxSchema: n("schema"), MaxSchemaValues: n("schemaValues"), MaxSubschemas: n("subschemas"),
	}
	if got := l.catalog(); !reflect.DeepEqual(got, tools) {
		t.Errorf("a catalog gets %+v", got)
	}
	if got := l.logs(); got != (child.LogLimits{Line: n("logLine"), Rate: n("logRate")}) {
		t.Errorf("a program gets %+v", got)
	}
	for _, key := range []string{ // in this package, of the whole program, except for those of calls: bridge/limit
		"header", "headerFields", "headerTime", "connectionIdle", "jsonDepth", "jsonMembers", "jsonElements", "id", "batch", "message", "memory", "streams",
		"streamsPerCaller", "calls", "callsPerCaller", "callQueue", "callIdle", "callTotal",
	} {
		n(key)
	}
	if len(byKey) > 0 {
		t.Errorf("nothing is limited by %v", slices.Sorted(maps.Keys(byKey)))
	}
}
