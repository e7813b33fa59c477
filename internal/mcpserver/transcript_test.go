package mcpserver_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest/transcript"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/mcpserver"
	"github.com/mcpbridge/mcpbridge/internal/tasks"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// TestTranscripts runs the conversations in testdata/transcripts, whose README describes the format.
func TestTranscripts(t *testing.T) {
	transcript.Run(t, ">", func(t *testing.T, sections *transcript.Sections) transcript.Player {
		t.Helper()
		server := transcript.Settings(t, sections.Text("server"))
		rule, withTasks := server["tasks"]
		delete(server, "tasks")
		options := mcpserver.Options{Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)}
		transcript.SetLimits(t, server, &options.Limits, map[string]*time.Duration{"pollAfter": &options.PollAfter})
		backend := scriptedBackend(t, sections.Text("backend"))
		var policy tasks.Policy
		if withTasks {
			var err error
			if options.Tasks, err = tasks.New(tasks.Options{Log: options.Log}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { options.Tasks.Close() })
			policy = (&config.Tasks{After: strings.TrimPrefix(rule, "declared")}).Policy()
		}
		return newConversation(t, options, backend, policy, transcript.Settings(t, sections.Text("client")))
	})
}

// A backend is a bridgetest.Handler with scripted results.
type backend struct {
	*bridgetest.Handler

	// results are by method, or by method and name: a result as JSON, or "error" and an error as JSON.
	results map[string]string
}

// scriptedBackend parses lines of the form "method: result" or "method name: result", where name is that of a tool,
// prompt, resource or page.
func scriptedBackend(t *testing.T, text string) *backend {
	t.Helper()
	return &backend{bridgetest.New(), transcript.Settings(t, text)}
}

func (b *backend) Handle(ctx context.Context, call *bridge.Call, emit bridge.Emit) (*bridge.Result, error) {
	script, ok := b.results[call.Method.Name+" "+describeCall(call)]
	if !ok {
		script, ok = b.results[call.Method.Name]
	}
	if !ok {
		return b.Handler.Handle(ctx, call, emit)
	}
	if failure, fails := strings.CutPrefix(script, "error "); fails {
		e := &pb.JsonRpcError{}
		if err := mcpjson.Unmarshal([]byte(failure), e, bridge.Rev20260728); err != nil {
			return nil, err
		}
		return nil, bridge.FromJSONRPC(e, bridge.Rev20260728, call.Method)
	}
	if strings.HasPrefix(script, `{"inputRequests"`) {
		needs := &pb.InputRequired{}
		if err := mcpjson.Unmarshal([]byte(script), needs, bridge.Rev20260728); err != nil {
			return nil, err
		}
		return &bridge.Result{InputRequired: needs}, nil
	}
	res := call.Method.NewResult()
	if err := mcpjson.Unmarshal([]byte(script), res, bridge.Rev20260728); err != nil {
		return nil, err
	}
	return &bridge.Result{Complete: res}, nil
}

// describeCall returns the tool, prompt, resource or page of tools that a call refers to. The name of a tool ends in
// " answered" if the call has input responses.
func describeCall(call *bridge.Call) string {
	switch r := call.Request.(type) {
	case *pb.CallToolRequest:
		if len(r.GetInputResponses()) > 0 {
			return r.GetName() + " answered"
		}
		return r.GetName()
	case *pb.GetPromptRequest:
		return r.GetName()
	case *pb.ReadResourceRequest:
		return r.GetUri()
	case *pb.ListToolsRequest:
		return r.GetCursor()
	}
	return ""
}

var incidents = transcript.Incidents[*conversation]{
	`the client closes stdin`:           func(c *conversation, _ string) { c.stdin.Close() },
	`the client disconnects(?: (\S+))?`: func(c *conversation, label string) { c.exchange(label).cancel() },
	`another client opens a session`:    func(c *conversation, _ string) { c.initialize() },
	`the backend adds the tool (\S+)`:   func(c *conversation, name string) { c.backend.Add(name) },
	`the backend adds the tool (\S+) with tasks`: func(c *conversation, name string) {
		c.backend.AddTool(&pb.Tool{
			Name: name, InputSchema: `{"type":"object"}`,
			Execution: &pb.ToolExecution{TaskSupport: proto.String("optional")},
		})
	},
	`the backend removes the tool (\S+)`: func(c *conversation, name string) { c.backend.Remove(name) },
	`the backend updates (\S+)`:          func(c *conversation, uri string) { c.backend.Update(uri) },
	`the backend restarts`:               func(c *conversation, _ string) { c.backend.Drop() },
	`the user completes the elicitation (\S+)`: func(c *conversation, id string) {
		completed := &pb.ElicitationCompleted{ElicitationId: c.names.Expand(id)}
		c.backend.Notify(&pb.ListenResponse{
			Event: &pb.ListenResponse_ElicitationCompleted{ElicitationCompleted: completed},
		})
	},
	`the server drains`: func(c *conversation, _ string) { c.life.Advance(lifecycle.Draining) },
}

// Happen executes an incident.
func (c *conversation) Happen(line string) { incidents.Happen(c.t, c, line) }

var (
	randomText = regexp.MustCompile(
		`(?i)(?:(session|elicitation|task)Id"?[=:]"?|mcp-(session)-id: |"request(state)":")([A-Za-z0-9+/_=-]{26,})`)
	eventTag = regexp.MustCompile(`^(id: )([A-Z2-7]{6})\.`)
)

// findNames finds random texts in a line of the server.
func findNames(line string, add func(name, text string)) {
	for _, m := range randomText.FindAllStringSubmatch(line, -1) {
		add(strings.ToLower(m[1]+m[2]+m[3]), m[4])
	}
	if m := eventTag.FindStringSubmatch(line); m != nil {
		add("stream", m[2])
	}
}
