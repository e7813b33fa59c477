package mcpclient_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpclient"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A changed list is reported whichever process of a program sends the notification. Changes of resources are reported
// by the first process, which has the subscription.
func TestChangesOfSeveralProcesses(t *testing.T) {
	var starts atomic.Int64
	serve := func(ctx context.Context, in io.Reader, out io.Writer) {
		me, subscribed := starts.Add(1), false
		s := &script{on: func(m *jsonrpc.Message, send func(...string)) bool {
			switch m.Method {
			case "initialize":
				send(strings.Replace(initializeResponse, `{"tools":{}}`,
					`{"tools":{"listChanged":true},"resources":{"subscribe":true}}`, 1))
			case "resources/subscribe":
				subscribed = true
				send(emptyResponse)
			case "resources/unsubscribe":
				send(emptyResponse)
			case "tools/call":
				if me == 2 {
					send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				}
				if subscribed {
					send(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a://"}}`)
				}
				send(strings.Replace(helloResponse, "hello", strconv.FormatInt(me, 10), 1))
			}
			return true
		}}
		s.serve(ctx, in, out)
	}
	bubble(t, mcpclient.Options{}, serve, func(t *testing.T, c *mcpclient.Client) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		var changes []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = c.Handle(ctx, &bridge.Call{Method: bridge.Listen, Request: &pb.ListenRequest{
				Context: callOf("", "", "a").Context(),
				Notifications: &pb.SubscriptionFilter{
					ToolsListChanged:      proto.Bool(true),
					ResourceSubscriptions: []string{"a://"},
				},
			}}, func(_ context.Context, e bridge.Event) error {
				changes = append(changes, strings.TrimPrefix(fmt.Sprintf("%T", e.Change.GetEvent()),
					"*mcpbridgev1.ListenResponse_"))
				return nil
			})
		}()
		synctest.Wait()
		for i, tt := range []struct {
			call *bridge.Call
			want []string
		}{
			{callOf("t", `{}`, "a"), []string{"Acknowledged", "ToolsListChanged"}},
			{toolCall("t", `{}`), []string{"Acknowledged", "ToolsListChanged", "ResourceUpdated"}},
		} {
			if got := callText(t, c, tt.call); got != strconv.Itoa(2-i) {
				t.Errorf("process %s responded", got)
			}
			synctest.Wait()
			if !slices.Equal(changes, tt.want) {
				t.Errorf("received %q, want %q", changes, tt.want)
			}
		}
		cancel()
		<-done
	})
}

// server/discover is never sent again to a program that crashed on it, even if the client probes again because
// initialize failed.
func TestDiscoverThatCrashedAProgramIsNotRepeated(t *testing.T) {
	discovers := 0
	s := &script{}
	s.on = func(m *jsonrpc.Message, send func(...string)) bool {
		switch m.Method {
		case "server/discover":
			discovers++
			return false
		case "initialize":
			if s.starts.Load() == 3 { // this time initialize fails
				return false
			}
			send(initializeResponse)
		case "tools/call":
			send(helloResponse)
			return strings.Contains(string(m.Params), `"t"`)
		}
		return true
	}
	synctest.Test(t, func(t *testing.T) {
		c, end := startScript(t, mcpclient.Options{}, s)
		if err := c.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"die", "t"} { // the program exits on the first
			if got := callText(t, c, toolCall(name, `{}`)); got != "hello" {
				t.Errorf("%s: got %s", name, got)
			}
			bridgetest.Pass(time.Minute) // until the program has restarted
		}
		if n := s.starts.Load(); n != 4 || discovers != 1 {
			t.Errorf("got %d starts and %d server/discover requests, want 4 and 1", n, discovers)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	})
}
