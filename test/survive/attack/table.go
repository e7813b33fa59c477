package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// attacks is the table; its header describes its format.
//
//go:embed attacks.yaml
var attacks []byte

// A Table contains the attack rows, and the reasons why a class of them does not apply to some endpoints.
type Table struct {
	// Not maps the first letter of row IDs and an endpoint to the reason why these attacks do not apply there.
	Not  map[string]map[string]string `yaml:"not"`
	Rows []Row                        `yaml:"rows"`
}

// A Row is one attack in one or several variants.
type Row struct {
	ID   string `yaml:"id"`
	What string `yaml:"what"`
	// Was names advisories and bugs of other projects.
	Was string `yaml:"was"`
	// On names the bridges that the row runs against. If empty, open and auth.
	On []string `yaml:"on"`
	// Because is the reason why the row does not run against endpoints that Expect omits.
	Because string `yaml:"because"`
	// Tests are Go tests that prove the row without a running bridge, such as "internal/auth TestMetadata".
	Tests []string `yaml:"tests"`
	Input `yaml:",inline"`
	// Inputs are the variants of the row. Fields that they do not set are those of the row.
	Inputs []Input `yaml:"inputs"`
}

// An Input is a request with its expected outcome.
type Input struct {
	// Line is the request line, and Headers edit the header: "Name: value" replaces, "+Name: value" adds, "-Name"
	// removes, and "!line" is sent unchanged.
	Line    string   `yaml:"line"`
	Headers []string `yaml:"headers"`
	// Body is the body of the POST, or the line on stdin. All three may contain templates between << and >>.
	Body string `yaml:"body"`
	// Do names a script to run instead, and Arg is its argument.
	Do  string `yaml:"do"`
	Arg string `yaml:"arg"`
	// Expect is the expected outcome by endpoint.
	Expect map[string]string `yaml:"expect"`
	// Has must be in the response's header, and Lacks must not.
	Has   string `yaml:"has"`
	Lacks string `yaml:"lacks"`
	// Calls is the number of calls that the backend receives. If zero, that of the row; -1 is none, -2 any number.
	Calls int `yaml:"calls"`
}

// inputs returns the complete variants of the row.
func (r *Row) inputs() []Input {
	if len(r.Inputs) == 0 {
		return []Input{r.Input}
	}
	out := slices.Clone(r.Inputs)
	for i := range out {
		in := &out[i]
		for _, f := range []struct {
			to   *string
			from string
		}{
			{&in.Line, r.Line},
			{&in.Body, r.Body},
			{&in.Do, r.Do},
			{&in.Arg, r.Arg},
			{&in.Has, r.Has},
			{&in.Lacks, r.Lacks},
		} {
			if *f.to == "" {
				*f.to = f.from
			}
		}
		in.Headers = append(slices.Clone(r.Headers), in.Headers...)
		if in.Expect == nil {
			in.Expect = r.Expect
		}
		switch in.Calls {
		case 0:
			in.Calls = r.Calls
		case -1:
			in.Calls = 0
		}
	}
	return out
}

// groups maps each endpoint to its groups, the smallest first.
var groups = map[string][]string{
	"stdio24":     {"stdio-legacy", "stdio"},
	"stdio03":     {"stdio-legacy", "stdio"},
	"stdio06":     {"stdio-legacy", "stdio"},
	"stdio11":     {"stdio-legacy", "stdio"},
	"stdio07":     {"stdio"},
	"sse24-get":   {"get", "sse24", "http"},
	"sse24-post":  {"sse24", "post", "http"},
	"sh03-get":    {"sh-get", "get", "sh", "http"},
	"sh06-get":    {"sh-get", "get", "sh", "http"},
	"sh11-get":    {"sh-get", "get", "sh", "http"},
	"sh03-post":   {"sh-post", "sh", "post", "http"},
	"sh06-post":   {"sh-post", "sh", "post", "http"},
	"sh11-post":   {"sh-post", "sh", "post", "http"},
	"sh03-delete": {"delete", "sh", "http"},
	"sh06-delete": {"delete", "sh", "http"},
	"sh11-delete": {"delete", "sh", "http"},
	"m07-post":    {"m07", "post", "http"},
	"well-known":  {"http"},
	"livez":       {"probes", "http"},
	"startupz":    {"probes", "http"},
	"readyz":      {"probes", "http"},
	"bridge":      {},
}

// endpoints are the keys of groups, in the order in which rows run.
var endpoints = []string{
	"bridge", "stdio24", "stdio03", "stdio06", "stdio11", "stdio07", "sse24-get", "sse24-post", "sh03-get", "sh06-get",
	"sh11-get",
	"sh03-post", "sh06-post", "sh11-post", "sh03-delete", "sh06-delete", "sh11-delete", "m07-post", "well-known",
	"livez", "startupz", "readyz",
}

// of returns the value for an endpoint: that of the smallest group that contains it.
func of(m map[string]string, endpoint string) string {
	for _, name := range append([]string{endpoint}, groups[endpoint]...) {
		if v := m[name]; v != "" {
			return v
		}
	}
	return ""
}

var rowID = regexp.MustCompile(`^([A-L])(\d\d)$`)

// load parses the table. A missing expectation is an error, so that nothing is left out by accident.
func load(data []byte) (*Table, error) {
	var t Table
	if err := yaml.Load(data, &t, yaml.WithKnownFields()); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for i := range t.Rows {
		r := &t.Rows[i]
		m := rowID.FindStringSubmatch(r.ID)
		if m == nil || seen[r.ID] || r.What == "" {
			return nil, fmt.Errorf("row %d: id %q, what %q: must have a unique id and a description", i+1, r.ID, r.What)
		}
		seen[r.ID] = true
		for _, in := range r.inputs() {
			if len(in.Expect) == 0 && len(r.Tests) > 0 {
				continue
			}
			for name := range in.Expect {
				if !isEndpoint(name) {
					return nil, fmt.Errorf("%s: unknown endpoint %q", r.ID, name)
				}
			}
			for _, e := range endpoints[1:] {
				if of(in.Expect, e) == "" && r.Because == "" && of(t.Not[m[1]], e) == "" {
					return nil, fmt.Errorf("%s: no expectation for %s: add one, or set because or not", r.ID, e)
				}
			}
		}
	}
	return &t, nil
}

func isEndpoint(name string) bool {
	for e, in := range groups {
		if name == e || slices.Contains(in, name) {
			return true
		}
	}
	return false
}

// An outcome is the result of an input.
type outcome struct {
	status  int    // of HTTP
	closed  bool   // without a response
	code    int    // of a JSON-RPC error
	result  bool   // a result, of a tool that succeeded or failed
	failed  bool   // the tool failed
	id      bool   // the response has an id
	text    string // what a script returned
	header  string
	message string // the response
}

func (o outcome) String() string {
	var s []string
	if o.status != 0 {
		s = append(s, strconv.Itoa(o.status))
	}
	switch {
	case o.closed:
		s = append(s, "close")
	case o.failed:
		s = append(s, "failure")
	case o.result:
		s = append(s, "result")
	case o.code != 0:
		s = append(s, strconv.Itoa(o.code))
	case o.status == 0 && o.text == "":
		s = append(s, "silent")
	}
	if o.text != "" {
		s = append(s, o.text)
	}
	return strings.Join(s, " ")
}

// is reports whether the outcome matches all words of one of the alternatives.
func (o outcome) is(want string) bool {
	return slices.ContainsFunc(strings.Split(want, "|"), func(words string) bool {
		for w := range strings.FieldsSeq(words) {
			ok := slices.Contains(strings.Fields(o.text), w)
			switch w {
			case "close":
				ok = ok || o.closed
			case "result":
				ok = ok || o.result && !o.failed
			case "failure":
				ok = ok || o.failed
			case "silent":
				ok = ok || !o.result && o.code == 0
			case "noid":
				ok = ok || !o.id
			default:
				ok = ok || w == strconv.Itoa(o.status) || w == strconv.Itoa(o.code)
			}
			if !ok {
				return false
			}
		}
		return true
	})
}
