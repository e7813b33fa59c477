package mcpclient

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

type read struct {
	Name, ID, Data string
	HasData        bool
}

// readEvents reads all events and returns the error that ended them and the retry interval.
func readEvents(r io.Reader, most int) (events []read, retry time.Duration, err error) {
	in := newEventReader(r, most)
	for {
		e, err := in.next()
		if err != nil {
			return events, in.retry, err
		}
		events = append(events, read{e.name, e.id, string(e.data), e.hasData})
	}
}

func TestEvents(t *testing.T) {
	for in, want := range map[string][]read{
		"":                           nil,
		"data: a":                    nil, // incomplete
		"data: a\n\n":                {{"", "", "a", true}},
		"data:a\r\n\r\ndata:  b\n\n": {{"", "", "a", true}, {"", "", " b", true}},
		"data: a\r\rdata: b\r\n\rdata: c\n\r": {
			{"", "", "a", true},
			{"", "", "b", true},
			{"", "", "c", true},
		},
		"data: a\ndata: b\ndata\n\n":          {{"", "", "a\nb\n", true}},
		": c\n\n\n: d\ndata: a\n: e\n\n":      {{"", "", "a", true}},
		"id: 1\ndata:\n\n":                    {{"", "1", "", true}},
		"id: 1\n\nid\n\n":                     {{"", "1", "", false}, {"", "", "", false}},
		"id: a\x00b\ndata: x\n\n":             {{"", "", "x", true}},
		"event: endpoint\ndata: /p?a=b:c\n\n": {{"endpoint", "", "/p?a=b:c", true}},
		"what: is\nthis\ndata: x\n\n":         {{"", "", "x", true}},
		"\uFEFFdata: a\n\n":                   {{"", "", "a", true}},
		// Only the first byte order mark is removed; another is part of the field's name.
		"\uFEFF\uFEFFdata: a\n\ndata: b\n\n":             {{"", "", "b", true}},
		"data: a\n\n\uFEFFdata: b\n\n":                   {{"", "", "a", true}}, // likewise
		"data: " + strings.Repeat("long", 5000) + "\n\n": {{"", "", strings.Repeat("long", 5000), true}},
		"id: 1\n\nid: " + strings.Repeat("x", maxEventID) + "\n\nid: " + strings.Repeat("x", maxEventID+1) + "\n\n": {
			{"", "1", "", false}, {"", strings.Repeat("x", maxEventID), "", false}, {"", "", "", false},
		},
	} {
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
			got, _, err := readEvents(r, 1<<20)
			if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, io.EOF) {
				t.Errorf("%.60q: %v %s", in, err, diff)
			}
		}
	}
	for in, want := range map[string]time.Duration{
		"retry: 500\n\n": 500 * time.Millisecond, "retry: 0\n\n": 0, "retry: x\n\n": -1, "retry: -5\n\n": -1, "": -1,
		"retry: 99999999\n\n": maxRetry, "retry: 99999999999999999999\n\n": -1,
	} {
		if _, got, _ := readEvents(strings.NewReader(in), 100); got != want {
			t.Errorf("%q: wait for %v", in, got)
		}
	}
	for n, tooLong := range map[int]bool{99: false, 100: false, 101: true, 357: true, 10_000: true} {
		for _, in := range []string{
			"data: " + strings.Repeat("x", n) + "\n\n",
			"data: " + strings.Repeat("x", n-50) + "\ndata: " + strings.Repeat("x", 49) + "\n\n",
		} {
			if got, _, err := readEvents(strings.NewReader(in), 100); errors.Is(err, errTooLarge) != tooLong ||
				(len(got) > 0) == tooLong {
				t.Errorf("%d bytes: %d events, %v", n, len(got), err)
			}
		}
	}
}

// FuzzEvents reads the same events however the input is split, and not more than there are.
func FuzzEvents(f *testing.F) {
	f.Add("data: a\ndata: b\nid: 1\n\nretry: 5\n: c\n\nevent: e\ndata:x\r\n\r\n")
	f.Add("data: " + strings.Repeat("x", 5000) + "\n\n")
	fuzzing.Run(f, func(t *testing.T, in string) {
		var whole []read
		var retry time.Duration
		var err error
		fuzzing.Bounded(t, len(in), func() { whole, retry, err = readEvents(strings.NewReader(in), 1<<12) })
		pieces, retry2, err2 := readEvents(iotest.OneByteReader(strings.NewReader(in)), 1<<12)
		if diff := cmp.Diff(whole, pieces); diff != "" || retry != retry2 || err.Error() != err2.Error() {
			t.Errorf("%q: %s %v %v", in, diff, err, err2)
		}
		n := 0
		for _, e := range whole {
			n += len(e.Data) + len(e.ID) + len(e.Name)
		}
		if n > len(in) {
			t.Errorf("%q: %d bytes of events", in, n)
		}
	})
}

// FuzzWrittenEvents writes an event as the bridge does, and compares the results of readEvents and a parser written
// from the standard (HTML, 9.2.6).
func FuzzWrittenEvents(f *testing.F) {
	f.Add("1-0", "", []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	f.Add("", "endpoint", []byte(`/mcp?sessionId=a:b`))
	f.Add("", "", []byte("{\"a\":\n\"data: x\",\r\n\"b\":\t1}"))
	f.Add("99-7", "message", []byte(`" \u2028 `+"\u2028\u0085\ufeff"+`"`))
	fuzzing.Run(f, func(t *testing.T, id, name string, text []byte) {
		if strings.ContainsAny(id+name, "\r\n\x00") || !utf8.ValidString(id+name) {
			return // the bridge generates IDs and names
		}
		line, err := rawjson.AppendChecked(nil, text)
		if err != nil {
			return // other data is not written as an event
		}
		stream := mcphttp.AppendEvent(nil, id, name, line)
		stream = append(stream, mcphttp.Comment...)
		stream = mcphttp.AppendEvent(stream, "", "", []byte(`{}`))
		want := []read{{Name: name, ID: id, Data: string(line), HasData: true}, {Data: "{}", HasData: true}}
		got, _, err := readEvents(bytes.NewReader(stream), len(stream))
		if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, io.EOF) {
			t.Errorf("%q: %v %s", stream, err, diff)
		}
		if diff := cmp.Diff(want, plainly(string(stream))); diff != "" {
			t.Errorf("%q: others read %s", stream, diff)
		}
		was, _ := fuzzing.Value(text)
		is, err := fuzzing.Value(line)
		if diff := cmp.Diff(was, is); diff != "" || err != nil {
			t.Errorf("%q became %q: %v %s", text, line, err, diff)
		}
	})
}

var lineEnd = regexp.MustCompile("\r\n|\r|\n")

// plainly parses a whole stream as the standard defines.
func plainly(stream string) (events []read) {
	stream = strings.TrimPrefix(stream, "\ufeff")
	lines := lineEnd.Split(stream, -1)
	var e read
	var data strings.Builder
	for _, line := range lines[:len(lines)-1] { // an unterminated line is not a line
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if data.Len() > 0 {
				e.Data, e.HasData = strings.TrimSuffix(data.String(), "\n"), true
				events = append(events, e)
			}
			e = read{}
			data.Reset()
		case field == "event":
			e.Name = value
		case field == "data":
			data.WriteString(value + "\n")
		case field == "id" && !strings.Contains(value, "\x00"):
			e.ID = value
			if len(value) > maxEventID {
				e.ID = ""
			}
		}
	}
	return events
}
