package clientcmd

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/app"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	"github.com/mcpbridge/mcpbridge/internal/signature"
	"github.com/mcpbridge/mcpbridge/internal/terminal"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// do makes a call, answers its input requests, and returns its result, or its task. It shows progress and logs.
func (c *client) do(ctx context.Context, call *bridge.Call) (proto.Message, error) {
	what := call.Method.Name
	if call.Method.Target != nil {
		what = fmt.Sprintf("%s %q", what, call.Method.Target(call.Request))
	}
	for range limits.Rounds {
		end := c.bar.Begin(what + ", Ctrl-C cancels")
		res, err := c.Handler.Handle(ctx, call, c.emit)
		end()
		switch {
		case err != nil:
			p := app.CallProblem(err, what, c.AuthFix)
			if fix := capabilityFix(err); fix != "" {
				p.Fix = fix
			}
			return nil, p
		case res.Complete != nil:
			return res.Complete, nil
		case res.Task != nil:
			return res.Task, nil
		}
		answers, err := c.responder.answer(ctx, res.InputRequired)
		if err != nil {
			return nil, err
		}
		call = call.Retry(answers, res.InputRequired.RequestState)
	}
	return nil, &problem.Error{
		Exit: problem.ExitTool, Code: "asks_too_often",
		What: fmt.Sprintf("%s requests input again after each answer", what),
		Why:  fmt.Sprintf("its input requests were answered %d times", limits.Rounds),
		Fix:  "report it to the author of the server",
	}
}

// emit shows progress and logs.
func (c *client) emit(_ context.Context, e bridge.Event) error {
	switch {
	case e.Progress != nil:
		c.bar.Show(e.Progress)
	case e.Log != nil:
		level := zerolog.InfoLevel
		switch e.Log.GetLevel() {
		case pb.LogLevel_LOG_LEVEL_DEBUG:
			level = zerolog.DebugLevel
		case pb.LogLevel_LOG_LEVEL_WARNING:
			level = zerolog.WarnLevel
		case pb.LogLevel_LOG_LEVEL_ERROR, pb.LogLevel_LOG_LEVEL_CRITICAL, pb.LogLevel_LOG_LEVEL_ALERT,
			pb.LogLevel_LOG_LEVEL_EMERGENCY:
			level = zerolog.ErrorLevel
		case pb.LogLevel_LOG_LEVEL_UNSPECIFIED, pb.LogLevel_LOG_LEVEL_INFO, pb.LogLevel_LOG_LEVEL_NOTICE:
		}
		line := c.log.WithLevel(level)
		if level < c.log.GetLevel() {
			return nil // WithLevel ignores the log's own level
		}
		if name := e.Log.GetLogger(); name != "" {
			line = line.Str("logger", terminal.Escape(name))
		}
		line.Msg(terminal.Escape(signature.Value(rawjson.AsBytes(e.Log.GetData()))))
	}
	return nil
}
