package mcpclient

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

type read struct {
	Name, ID, Data string
	HasData        bool
}

// readEvents reads all events, and says why it stopped and how long to wait.
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
		"":                                    nil,
		"data: a":                             nil, // it has no end
		"data: a\n\n":                         {{"", "", "a", true}},
		"data:a\r\n\r\ndata:  b\n\n":          {{"", "", "a", true}, {"", "", " b", true}},
		"data: a\ndata: b\ndata\n\n":          {{"", "", "a\nb\n", true}},
		": c\n\n\n: d\ndata: a\n: e\n\n":      {{"", "", "a", true}},
		"id: 1\ndata:\n\n":                    {{"", "1", "", true}},
		"id: 1\n\nid\n\n":                     {{"", "1", "", false}, {"", "", "", false}},
		"id: a\x00b\ndata: x\n\n":             {{"", "", "x", true}},
		"event: endpoint\ndata: /p?a=b:c\n\n": {{"endpoint", "", "/p?a=b:c", true}},
		"what: is\nthis\ndata: x\n\n":         {{"", "", "x", true}},
		"data: " + strings.Repeat("long", 5000) + "\n\n": {{"", "", strings.Repeat("long", 5000), true}},
	} {
		got, _, err := readEvents(strings.NewReader(in), 1<<20)
		if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, io.EOF) {
			t.Errorf("%.60q: %v %s", in, err, diff)
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
	_, _, err := readEvents(strings.NewReader("data: "+strings.Repeat("x", 1000)+"\n\n"), 100)
	if !errors.Is(err, errTooLarge) {
		t.Errorf("too long: %v", err)
	}
}

// FuzzEvents reads the same events whatever the pieces are that they come in, and never more than there is.
func FuzzEvents(f *testing.F) {
	f.Add("data: a\ndata: b\nid: 1\n\nretry: 5\n: c\n\nevent: e\ndata:x\r\n\r\n")
	f.Add("data: " + strings.Repeat("x", 5000) + "\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		whole, retry, err := readEvents(strings.NewReader(in), 1<<12)
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
