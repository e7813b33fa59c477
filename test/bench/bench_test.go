package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The test binary also runs the peers, like the real one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && peers[os.Args[1]] != nil {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestPayloadHasItsSizeAndText(t *testing.T) {
	for _, text := range []string{"mixed", "ascii"} {
		for _, size := range []int{60, 200, 201, 202, 203, 65536} {
			p, err := newPayload(7, size, text)
			if err != nil {
				t.Fatal(err)
			}
			var arguments struct{ Text string }
			if err := json.Unmarshal(p.arguments, &arguments); err != nil {
				t.Fatal(err)
			}
			if len(p.arguments) != size || arguments.Text != string(p.text) {
				t.Errorf("%s, %d: got %d bytes, text %.80q, want %.80q",
					text, size, len(p.arguments), arguments.Text, p.text)
			}
			if len(places(p.arguments, firstCall)) != 1 {
				t.Errorf("%s, %d: got the number %d times, want once", text, size, len(places(p.arguments, firstCall)))
			}
		}
	}
	if _, err := newPayload(7, 30, "mixed"); err == nil {
		t.Error("newPayload of 30 bytes: got no error, want one")
	}
}

// answerForms are the encodings of an answer that servers use.
var answerForms = map[string]func(http.ResponseWriter, []byte){
	"content-length": func(w http.ResponseWriter, message []byte) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(message)))
		w.Write(message)
	},
	"chunked": func(w http.ResponseWriter, message []byte) {
		w.Header().Set("Content-Type", "application/json")
		for part := range chunksOf(message, 1+len(message)/3) {
			w.Write(part)
			w.(http.Flusher).Flush()
		}
	},
	"event stream": func(w http.ResponseWriter, message []byte) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "id: s1-0\ndata:\n\n: a comment\n\n")
		w.(http.Flusher).Flush()
		fmt.Fprintf(w, "event: message\nid: s1-1\ndata: %s\n\n", message)
	},
}

func chunksOf(b []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			part := b[:min(n, len(b))]
			b = b[len(part):]
			if !yield(part) {
				return
			}
		}
	}
}

// echoServer answers the handshake, and calls with respond.
func echoServer(t *testing.T, respond func(w http.ResponseWriter, id string, arguments json.RawMessage)) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var call struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Arguments json.RawMessage
				Meta      map[string]any `json:"_meta"`
			}
		}
		json.Unmarshal(body, &call)
		switch {
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		case call.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", "s1")
			io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}`)
		case call.Method == "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		case call.Params.Meta["io.modelcontextprotocol/protocolVersion"] == r.Header.Get("MCP-Protocol-Version") &&
			r.Header.Get("Mcp-Method") == "tools/call" && r.Header.Get("Mcp-Name") == "echo":
			respond(w, string(call.ID), call.Params.Arguments)
		case r.Header.Get("MCP-Protocol-Version") == "2025-11-25" && r.Header.Get("Mcp-Session-Id") == "s1":
			respond(w, string(call.ID), call.Params.Arguments)
		default:
			http.Error(w, "neither era", http.StatusBadRequest)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL + "/mcp"
}

func resultOf(id string, arguments json.RawMessage) []byte {
	text, _ := json.Marshal(string(arguments)) // with encoding/json's own escapes, which need not be the request's
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, id, text)
}

func TestCallerReadsEveryEncodingOfAnAnswer(t *testing.T) {
	for form, write := range answerForms {
		for _, e := range []era{legacy, modern} {
			for _, size := range []int{200, 65536} {
				t.Run(fmt.Sprint(form, "/", e, "/", size), func(t *testing.T) {
					url := echoServer(t, func(w http.ResponseWriter, id string,
						arguments json.RawMessage,
					) {
						write(w, resultOf(id, arguments))
					})
					c := dialOne(t, url, e, 0, size)
					for range 5 {
						if err := c.call(); err != nil {
							t.Fatal(err)
						}
					}
					if c.answers.decoded != 1 {
						t.Errorf("got %d decoded answers, want the first", c.answers.decoded)
					}
				})
			}
		}
	}
}

func dialOne(t *testing.T, url string, e era, caller, size int) *caller {
	t.Helper()
	p, err := newPayload(caller, size, "mixed")
	if err != nil {
		t.Fatal(err)
	}
	c, err := dial(url, e, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

func TestWrongAnswersAreRejected(t *testing.T) {
	good := func(id string, arguments json.RawMessage) string { return string(resultOf(id, arguments)) }
	for name, wrong := range map[string]func(id string, arguments json.RawMessage) string{
		"another id":      func(_ string, a json.RawMessage) string { return good("10000000", a) },
		"id as string":    func(id string, a json.RawMessage) string { return good(`"`+id+`"`, a) },
		"an earlier call": func(id string, a json.RawMessage) string { return good(id, swap(a, id, "10000000")) },
		"another caller": func(id string,
			a json.RawMessage,
		) string {
			return good(id, swap(a, "caller 00003", "caller 00004"))
		},
		"one letter":     func(id string, a json.RawMessage) string { return good(id, swap(a, "naïve", "naive")) },
		"cut":            func(id string, a json.RawMessage) string { return good(id, a[:len(a)-1]) },
		"half a message": func(id string, a json.RawMessage) string { return good(id, a)[:100] },
		"an error": func(id string, _ json.RawMessage) string {
			return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32603}}`
		},
		"a failed result": func(id string, a json.RawMessage) string {
			return swapText(good(id, a), `"content"`, `"isError":true,"content"`)
		},
		"nothing": func(string, json.RawMessage) string { return "" },
		"nothing echoed": func(id string, _ json.RawMessage) string {
			return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[]}}`
		},
		"not even an id": func(string, json.RawMessage) string { return `{"jsonrpc":"2.0","result":{}}` },
		"no arguments":   func(string, json.RawMessage) string { return good("10000000", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			url := echoServer(t, func(w http.ResponseWriter, id string, arguments json.RawMessage) {
				if calls.Add(1) < 3 {
					w.Write(resultOf(id, arguments))
					return
				}
				io.WriteString(w, wrong(id, arguments))
			})
			c := dialOne(t, url, modern, 3, 200)
			for range 2 {
				if err := c.call(); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.call(); err == nil {
				t.Error("got no error, want one")
			}
		})
	}
}

func swap(b json.RawMessage, from, to string) json.RawMessage {
	return json.RawMessage(swapText(string(b), from, to))
}

func swapText(s, from, to string) string { return strings.Replace(s, from, to, 1) }

// pairs delays an answer until another caller's call arrives, and swaps their arguments.
type pairs struct {
	mu      sync.Mutex
	waiting chan json.RawMessage
}

func (p *pairs) cross(arguments json.RawMessage) json.RawMessage {
	p.mu.Lock()
	if first := p.waiting; first != nil {
		p.waiting = nil
		p.mu.Unlock()
		theirs := <-first
		first <- arguments
		return theirs
	}
	mine := make(chan json.RawMessage)
	p.waiting = mine
	p.mu.Unlock()
	mine <- arguments
	return <-mine
}

func TestMeasureRejectsAnswersOfOtherCallers(t *testing.T) {
	var p pairs
	url := echoServer(t, func(w http.ResponseWriter, id string, arguments json.RawMessage) {
		w.Write(resultOf(id, p.cross(arguments)))
	})
	_, err := measure(t.Context(), &process{url: url, pid: os.Getpid()}, setting{legacy, 200, 2}, "mixed",
		50*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "2 of 2 callers") ||
		!strings.Contains(err.Error(), "another payload") {
		t.Errorf("got %v, want an error of 2 of 2 callers", err)
	}
}

func TestMeasureCountsCallsThatEndDuringIt(t *testing.T) {
	var served atomic.Int64
	url := echoServer(t, func(w http.ResponseWriter, id string, arguments json.RawMessage) {
		served.Add(1)
		w.Write(resultOf(id, arguments))
	})
	for _, e := range []era{legacy, modern} {
		served.Store(0)
		got, err := measure(t.Context(), &process{url: url, pid: os.Getpid()}, setting{e, 65536, 3}, "mixed",
			100*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if got.Calls < 1 || int64(got.Calls) >= served.Load() || got.CPU <= 0 || got.P50 <= 0 || got.P99 < got.P50 ||
			got.Decoded != 3 {
			t.Errorf("%s: got %+v of %d served calls", e, got, served.Load())
		}
	}
}

func TestMeasureFailsIfTheServerExits(t *testing.T) {
	var calls atomic.Int32
	url := echoServer(t, func(w http.ResponseWriter, id string, arguments json.RawMessage) {
		if calls.Add(1) > 10 {
			panic(http.ErrAbortHandler)
		}
		w.Write(resultOf(id, arguments))
	})
	_, err := measure(t.Context(), &process{url: url, pid: os.Getpid()}, setting{modern, 200, 2}, "mixed",
		50*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "2 of 2 callers") {
		t.Errorf("got %v, want an error of 2 of 2 callers", err)
	}
}

func TestInvalidResponsesAreRejected(t *testing.T) {
	for name, wire := range map[string]string{
		"no status":        "hello\r\n\r\n",
		"no end":           "HTTP/1.1 200 OK\r\n\r\nbody",
		"negative length":  "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"short body":       "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody",
		"no chunk size":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nbody\r\n",
		"chunk overflows":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbody\r\n0\r\n\r\n",
		"no last chunk":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n",
		"other coding":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
		"connection close": "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
	} {
		if resp, err := newResponseReader(strings.NewReader(wire)).read(); err == nil {
			t.Errorf("%s: got %d %q, want an error", name, resp.status, resp.body)
		}
	}
}

func TestResponsesOfAConnectionAreRead(t *testing.T) {
	rr := newResponseReader(strings.NewReader(
		"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n" +
			"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\nmcp-session-id: " +
			"abc\r\n\r\n3;x=y\r\n{\"a\r\nA\r\n\":\"234567\"\r\n1\r\n}\r\n0\r\n\r\n" +
			"HTTP/1.1 204 No Content\r\n\r\n" +
			"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nContent-Length: 27\r\n\r\nid: " +
			"1\ndata:\n\ndata: {\"b\":2}\n\n"))
	for _, want := range []struct {
		status        int
		session, body string
	}{{202, "", ""}, {200, "abc", `{"a":"234567"}`}, {204, "", ""}, {200, "", `{"b":2}`}} {
		resp, err := rr.read()
		if err != nil {
			t.Fatal(err)
		}
		message, err := resp.message()
		if err != nil || resp.status != want.status || resp.session != want.session || string(message) != want.body {
			t.Errorf("got %d %q %q %v, want %+v", resp.status, resp.session, message, err, want)
		}
	}
}

func TestEveryPeerServesItsErasAndExits(t *testing.T) {
	o, err := parseOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range subjects {
		if strings.HasPrefix(s.name, "bridge-") {
			continue // they have tests of their own
		}
		t.Run(s.name, func(t *testing.T) {
			cmd, err := s.command(o)
			if err != nil {
				t.Fatal(err)
			}
			p, err := start(cmd, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			p.dial = s.dial
			for _, e := range []era{legacy, modern} {
				if !speaks(s.name, e) {
					continue
				}
				for _, size := range []int{200, 65536} {
					callers, err := dialAll(p, setting{e, size, 2}, "mixed")
					if err != nil {
						t.Fatal(e, err)
					}
					for _, c := range callers {
						for range 3 {
							if err := c.call(); err != nil {
								t.Fatal(e, err)
							}
						}
						if c.decoded() != 1 {
							t.Errorf("%s: got %d decoded answers, want the first", e, c.decoded())
						}
						c.close()
					}
				}
			}
			used, err := p.cpu()
			want := 1
			if strings.HasPrefix(s.name, floor) || slices.Contains(through, s.name) {
				want = 2 // its plugin, or the proxy
			}
			if err != nil || used.server <= 0 || used.total < used.server || len(used.pids) != want {
				t.Errorf("got %+v, %v, want %d processes", used, err, want)
			}
			p.stop()
			if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(p.pid))); err == nil {
				t.Errorf("got process %d after stop, want none", p.pid)
			}
		})
	}
}

func TestStartReportsTheErrorOfAServer(t *testing.T) {
	cmd, err := self("floor-plugin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := start(cmd, time.Minute); err == nil || !strings.Contains(err.Error(), "needs a socket") {
		t.Errorf("got %v, want one that mentions a socket", err)
	}
}

func TestRatiosAreReportedAndWritten(t *testing.T) {
	o, err := parseOptions([]string{
		"-rounds", "2", "-duration", "500ms", "-sizes", "200", "-callers", "2", "-only", "floor,go-sdk",
		"-out", filepath.Join(t.TempDir(), "bench.json"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := bench(t.Context(), o, &text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"legacy, 200 B, 2 callers", "modern, 200 B, 2 callers", "go-sdk"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("got a report without %q:\n%s", want, text.String())
		}
	}
	b, err := os.ReadFile(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Cells) != 4 || len(r.Cells[0].Rounds) != 2 || len(r.Ratios) != 4 {
		t.Errorf("got %d cells, %d ratios, want 4, 4", len(r.Cells), len(r.Ratios))
	}
}

func TestGoalsOverDirectCountAllCPUAndTheAddedLatency(t *testing.T) {
	r := newReport(options{Rounds: 3})
	for _, callers := range []int{1, 16} {
		at := setting{modern, 200, callers}
		for _, ms := range []float64{0.5, 0.75, 0.25} {
			r.add(proxyModern, at, sample{CPU: 9, Whole: 10, P50: 1 + ms}, nil)
			r.add(direct, at, sample{CPU: 1, Whole: 8, P50: 1}, nil)
		}
	}
	r.conclude()
	want := []goalResult{
		{proxyModern, direct, setting{modern, 200, 1}, false, 1.5, spread{1.25, 1.25, 1.25}, true},
		{proxyModern, direct, setting{modern, 200, 16}, false, 1.5, spread{1.25, 1.25, 1.25}, true},
		{proxyModern, direct, setting{modern, 200, 1}, true, 0.3, spread{0.5, 0.25, 0.75}, false},
	}
	if !slices.Equal(r.Goals, want) {
		t.Errorf("got goals %+v, want %+v", r.Goals, want)
	}
}

func TestGoalsCompareRatiosWithinRounds(t *testing.T) {
	r := newReport(options{Rounds: 3})
	at := setting{legacy, 65536, 16}
	for _, cpu := range []struct{ bridge, floor, gosdk float64 }{{6, 5, 40}, {12, 10, 80}, {9, 5, 30}} {
		r.add(bridgeGo, at, sample{CPU: cpu.bridge}, nil)
		r.add(floor, at, sample{CPU: cpu.floor}, nil)
		r.add(goSDK, at, sample{CPU: cpu.gosdk}, nil)
	}
	r.add(mcpGo, at, sample{}, context.DeadlineExceeded)
	r.conclude()
	if len(r.Goals) != 2 {
		t.Fatalf("got goals %+v, want 2", r.Goals)
	}
	if g := r.Goals[0]; g.Over != floor || !g.Met || g.Is != (spread{1.2, 1.2, 1.8}) {
		t.Errorf("over the floor: got %+v", g)
	}
	if g := r.Goals[1]; g.Over != goSDK || !g.Met || g.Is != (spread{0.15, 0.15, 0.3}) {
		t.Errorf("over go-sdk: got %+v", g)
	}
	if r.refused() != 1 {
		t.Errorf("got %d refused, want the one with an error", r.refused())
	}
	for _, q := range r.Ratios {
		if q.Subject == mcpGo {
			t.Errorf("got ratio %+v of a measurement with errors, want none", q)
		}
	}
}
