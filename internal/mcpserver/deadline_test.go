package mcpserver

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// modernBody and modernHeader are a call of 2026-07-28.
const modernBody = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":1,` +
	`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

var modernHeader = http.Header{
	mcphttp.HeaderVersion: {"2026-07-28"}, mcphttp.HeaderMethod: {"tools/call"},
	mcphttp.HeaderName: {"x"},
}

// A stream may be idle for longer than a client's read timeout and continues, also over HTTP/2, where streams share a
// connection.
func TestIdleStreams(t *testing.T) {
	const silence = 55 * time.Second
	h := bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
		if call.Method != bridge.CallTool {
			return talker(ctx, call, emit)
		}
		if err := emit(ctx, bridge.Event{Progress: &pb.Progress{}}); err != nil {
			return nil, err
		}
		select {
		case <-time.After(silence):
			return &bridge.Result{Complete: &pb.CallToolResult{}}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	for name, c := range map[string]struct {
		method, body string
		header       http.Header
		poll         time.Duration
		text         string // the last event; empty if the stream is cut for resumption
	}{
		"a call of 2026-07-28": {http.MethodPost, modernBody, modernHeader, 0, `"result"`},
		"a call of a session": {
			http.MethodPost,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":1}}}`,
			http.Header{},
			0, `"result"`,
		},
		"a call with a resumable stream": {
			http.MethodPost,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`,
			http.Header{},
			30 * time.Second,
			"id: ",
		},
		"the standalone stream": {http.MethodGet, "", http.Header{}, 0, `"notifications/tools/list_changed"`},
	} {
		for _, major := range []int{1, 2} {
			synctest.Test(t, func(t *testing.T) {
				s := New(h, Options{PollAfter: c.poll})
				defer s.Close()
				client := overHTTP(t, s, major)
				id := beginSession(t, s)
				post(t, s, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				if c.method == http.MethodGet {
					time.AfterFunc(silence, func() { s.sessions[id].notify(feed.All(s.sessions[id].filter())[0]) })
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, c.method, "http://localhost/mcp", strings.NewReader(c.body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header = c.header.Clone()
				req.Header.Set("Content-Type", mcphttp.JSON)
				req.Header.Set("Accept", mcphttp.JSON+", "+mcphttp.EventStream)
				if len(c.header) == 0 {
					req.Header.Set(mcphttp.HeaderSession, id)
				}
				res, err := client.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				received := ""
				for in := bufio.NewReader(res.Body); ; {
					line, err := in.ReadString('\n')
					received += line
					if c.method == http.MethodGet && strings.Contains(received, c.text) {
						break
					}
					if err != nil {
						if err != io.EOF {
							t.Errorf("%s, HTTP/%d: %v", name, major, err)
						}
						break
					}
				}
				if res.ProtoMajor != major || !strings.Contains(received, c.text) {
					t.Errorf("%s, HTTP/%d: %s", name, res.ProtoMajor, received)
				}
			})
		}
	}
}

// An HTTP/2 client that does not read has the same timeout as any other.
func TestHTTP2ClientThatDoesNotReadIsDisconnected(t *testing.T) {
	const size = 16 << 20 // above the window of the client's transport
	h := bridge.HandlerFunc(func(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
		if call.Method != bridge.CallTool {
			return talker(ctx, call, emit)
		}
		text := &pb.ContentBlock{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: strings.Repeat("x", size)}}}
		return &bridge.Result{Complete: &pb.CallToolResult{Content: []*pb.ContentBlock{text}}},
			emit(ctx, bridge.Event{Progress: &pb.Progress{}})
	})
	for pause, whole := range map[time.Duration]bool{10*time.Second - 1: true, 10*time.Second + 1: false} {
		synctest.Test(t, func(t *testing.T) {
			s := New(h, Options{})
			defer s.Close()
			client := overHTTP(t, s, 2)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp",
				strings.NewReader(modernBody))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = modernHeader.Clone()
			req.Header.Set("Content-Type", mcphttp.JSON)
			req.Header.Set("Accept", mcphttp.JSON+", "+mcphttp.EventStream)
			res, err := client.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			pass(pause)
			got, err := io.ReadAll(res.Body)
			if (err == nil) != whole || (len(got) > size) != whole {
				t.Errorf("read after %v: %d bytes, %v", pause, len(got), err)
			}
		})
	}
}

// overHTTP returns a client of a server over in-memory connections of one HTTP version.
func overHTTP(t *testing.T, s *Server, major int) *http.Transport {
	t.Helper()
	ln := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(major == 1)
	protocols.SetUnencryptedHTTP2(major == 2)
	srv := &http.Server{Handler: s, Protocols: protocols, ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(ln) }() // ends with Close
	client := &http.Transport{Protocols: protocols, DialContext: ln.dial}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		_ = srv.Close()
	})
	return client
}

// pipes are a listener of in-memory connections.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.conns <- server
	return client, nil
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.done)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }
