package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// talker is a handler whose tool sends progress twice before its result. A subscription gets one change at once.
func talker(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	switch call.Method {
	case bridge.Discover:
		yes := proto.Bool(true)
		return &bridge.Result{Complete: &pb.DiscoverResponse{
			Capabilities: &pb.ServerCapabilities{Tools: &pb.ToolsCapability{ListChanged: yes}},
		}}, nil
	case bridge.CallTool:
		for i := range 2 {
			if err := emit(ctx, bridge.Event{Progress: &pb.Progress{Progress: float64(i)}}); err != nil {
				return nil, err
			}
		}
		return &bridge.Result{Complete: &pb.CallToolResult{}}, nil
	}
	filter := call.Request.(*pb.ListenRequest).GetNotifications()
	acknowledged := &pb.ListenResponse{
		Event: &pb.ListenResponse_Acknowledged{Acknowledged: &pb.SubscriptionsAcknowledged{Notifications: filter}},
	}
	for _, change := range append([]*pb.ListenResponse{acknowledged}, feed.All(filter)...) {
		if err := emit(ctx, bridge.Event{Change: change}); err != nil {
			return nil, err
		}
		<-time.After(time.Second)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// An unread is an in-memory connection whose writes block until they are read. It signals when the server closes it.
type unread struct {
	net.Conn

	closed chan time.Time
}

func (c *unread) Close() error {
	select {
	case c.closed <- time.Now():
	default:
	}
	return c.Conn.Close()
}

// connect makes a server serve a connection and sends a request on it.
func connect(t *testing.T, s *Server, request string) (client net.Conn, in *bufio.Reader, closed <-chan time.Time) {
	t.Helper()
	client, server := net.Pipe()
	c := &unread{server, make(chan time.Time, 1)}
	_ = (&http.Server{Handler: s}).Serve(&singleListener{conn: c}) // always returns an error
	if _, err := io.WriteString(client, request); err != nil {
		t.Fatal(err)
	}
	return client, bufio.NewReader(client), c.closed
}

// A client must read a message within 10 s, be it a response, an event of a call or a change. Otherwise the message is
// dropped and the connection closed.
func TestWriteTimeoutOfSlowClients(t *testing.T) {
	const writeTimeout = 10 * time.Second
	request := func(method, name, params, meta string) string {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"%s","params":{%s"_meta":{%s"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, method, params, meta)
		return fmt.Sprintf("POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, "+
			"text/event-stream\r\nContent-Type: application/json\r\n"+
			"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: %s\r\n%sContent-Length: %d\r\n\r\n%s", method, name,
			len(body), body)
	}
	for name, c := range map[string]struct {
		request, last string
		events        int // read at once
	}{
		"a response": {request("tools/call", "Mcp-Name: x\r\n", `"name":"x",`, ""), `"result"`, 0},
		"an event of a call": {
			request("tools/call", "Mcp-Name: x\r\n", `"name":"x",`, `"progressToken":1,`),
			`"result"`, 1,
		},
		"a change": {
			request("subscriptions/listen", "", `"notifications":{"toolsListChanged":true},`, ""),
			`"notifications/tools/list_changed"`, 1,
		},
	} {
		for _, pause := range []time.Duration{writeTimeout - 1, writeTimeout + 1} {
			synctest.Test(t, func(t *testing.T) {
				s := New(bridge.HandlerFunc(talker), Options{})
				defer s.Close()
				client, in, closed := connect(t, s, c.request)
				defer client.Close()
				if c.events > 0 {
					res, err := http.ReadResponse(in, nil)
					if err != nil {
						t.Fatal(err)
					}
					defer res.Body.Close()
					defer client.Close() // ends the body
					in = bufio.NewReader(res.Body)
					for n := 0; n < c.events; {
						line, err := in.ReadString('\n')
						if err != nil {
							t.Fatal(err)
						}
						if line == "\n" {
							n++
						}
					}
				}
				if name == "a change" {
					bridgetest.Pass(time.Second) // until the change is sent
				}
				began := time.Now()
				bridgetest.Pass(pause)
				var received []byte
				for !bytes.Contains(received, []byte(c.last)) {
					b, err := in.ReadByte()
					if err != nil {
						break
					}
					received = append(received, b)
				}
				if got := bytes.Contains(received, []byte(c.last)); got != (pause < writeTimeout) {
					t.Errorf("%s, read after %v: %q", name, pause, received)
				}
				if pause > writeTimeout {
					if took := (<-closed).Sub(began); took != writeTimeout {
						t.Errorf("%s: connection closed after %v", name, took)
					}
				}
			})
		}
	}
}

// Messages behind one that a client did not read are dropped with it, without another timeout for each.
func TestBufferOfAnUnreadStreamIsFreedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		defer server.Close()
		began, out := time.Now(), &hijackedConn{Conn: server}
		for n := range 5 {
			if err := writeStream(out, []byte("data: x\n\n"), 10*time.Second); err == nil ||
				time.Since(began) != 10*time.Second {
				t.Errorf("message %d: %v after %v", n+1, err, time.Since(began))
			}
		}
	})
}

// A client that reads slowly but steadily is not disconnected, whatever the size: it has 10 s for each 256 KiB.
func TestSlowSteadyClientReceivesEverything(t *testing.T) {
	const size = 8 * maxWrite
	for name, events := range map[string]int{"many events": 64, "a long event": 1} {
		synctest.Test(t, func(t *testing.T) {
			s := New(bridge.HandlerFunc(talker), Options{})
			defer s.Close()
			id := beginSession(t, s)
			l := s.sessions[id].standaloneLog()
			for range events {
				l.push(bytes.Repeat([]byte("x"), size/events))
			}
			client, in, _ := connect(t, s,
				"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: "+id+"\r\n\r\n")
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			defer client.Close() // ends the body
			got := 0
			for part := make([]byte, maxWrite+50<<10); got < size; bridgetest.Pass(9 * time.Second) {
				n, err := io.ReadFull(res.Body, part[:min(len(part), size-got)])
				if got += n; err != nil {
					t.Fatalf("%s: after %d of %d bytes: %v", name, got, size, err)
				}
			}
		})
	}
}
