package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// declareLogging adds logging to a server's declaration. Many servers send log messages without declaring it; the
// bridge filters them by the caller's level.
func declareLogging(d *pb.DiscoverResponse) {
	if d.Capabilities == nil {
		d.Capabilities = &pb.ServerCapabilities{}
	}
	if d.Capabilities.Logging == nil {
		d.Capabilities.Logging = &pb.Capability{}
	}
}

// rejectsInitialize reports whether a server has rejected the method initialize itself. Another failure does not
// determine the era.
func rejectsInitialize(err error) bool {
	if l, ok := errors.AsType[*lostError](err); ok {
		return l.refused
	}
	e, ok := errors.AsType[*refusal](err)
	return ok && slices.Contains([]int32{
		codeInvalidRequest, codeMethodNotFound, codeInvalidParams, codeHeaderMismatch,
		bridge.CodeMissingCapability, codeUnsupportedVersion,
	}, e.rpc.GetCode())
}

// beginLegacy starts a session without client capabilities.
func (c *Client) beginLegacy(ctx context.Context, p *peer) (*connection, error) {
	d, err := c.initialize(ctx, p, c.legacyRev())
	if err != nil {
		p.close()
		return nil, c.withOutput(p, err)
	}
	return c.legacyConnection(p, d), nil
}

func (c *Client) legacyConnection(p *peer, d *pb.DiscoverResponse) *connection {
	_, sse := p.wire.(*sse2024)
	c.setEra(era{legacy: true, rev: p.rev(), sse: sse, crashesOnDiscover: c.getEra().crashesOnDiscover})
	return newConnection(p, d)
}

// startInitialize sends initialize, with the client's capabilities.
func (c *Client) startInitialize(p *peer, rev bridge.Revision) (*exchange, error) {
	params := []byte(`{"protocolVersion":"` + rev.String() + `","capabilities":`)
	params, err := mcpjson.Append(params, p.clientCapabilities, rev)
	if err == nil {
		params, err = mcpjson.Append(append(params, `,"clientInfo":`...), c.info, rev)
	}
	if err != nil {
		return nil, err
	}
	x, err := p.begin(methodInitialize, purpose{})
	if err != nil {
		return nil, err
	}
	p.setRev(bridge.NoRevision) // the revision is not negotiated yet, so no header has it
	x.body = jsonrpc.AppendRequest(nil, []byte(x.id), methodInitialize, append(params, '}'))
	p.start(x)
	return x, nil
}

// initialize starts the session of p.
func (c *Client) initialize(ctx context.Context, p *peer, rev bridge.Revision) (*pb.DiscoverResponse, error) {
	for again := false; ; again = true {
		x, err := c.startInitialize(p, rev)
		if err != nil {
			return nil, err
		}
		msg, err := x.await(ctx)
		p.end(x)
		if err != nil {
			return nil, fmt.Errorf("initialize: %w", err)
		}
		if msg.Error == nil {
			return c.initialized(ctx, p, msg.Result)
		}
		// A server may reject the revision and name those that it supports (every legacy revision: basic/lifecycle,
		// error handling).
		older, ok := newestLegacy(rawjson.AsBytes(msg.Error.GetData()))
		if again || !ok {
			return nil, asError(methodInitialize, msg)
		}
		rev = older
	}
}

// newestLegacy returns the newest legacy revision in the data of an error.
func newestLegacy(data []byte) (bridge.Revision, bool) {
	names := map[string]bool{}
	for v := range rawjson.Elements(rawjson.Get(data, "supported")) {
		name, _ := rawjson.String(v)
		names[name] = true
	}
	newest := bridge.NoRevision
	for _, rev := range bridge.Revisions() {
		if names[rev.String()] && !rev.Modern() {
			newest = rev
		}
	}
	return newest, newest != bridge.NoRevision
}

// initialized handles the result of initialize, and completes the start of the session.
func (c *Client) initialized(ctx context.Context, p *peer, result []byte) (*pb.DiscoverResponse, error) {
	name, _ := rawjson.String(rawjson.Get(result, "protocolVersion"))
	rev, ok := bridge.ParseRevision(name)
	if !ok || rev.Modern() {
		return nil, fmt.Errorf("initialize: the server responded with revision %s, which initialize cannot "+
			"negotiate", rawjson.ShortenTo(name, 50))
	}
	d := &pb.DiscoverResponse{}
	if err := mcpjson.Unmarshal(result, d, rev); err != nil {
		return nil, fmt.Errorf("initialize: %w", err)
	}
	d.ServerInfo = &pb.Implementation{}
	if err := mcpjson.Unmarshal(rawjson.Get(result, "serverInfo"), d.ServerInfo, rev); err != nil {
		d.ServerInfo = nil // a server without valid serverInfo is accepted
	}
	if can := d.GetCapabilities(); !rev.DeclaresCompletions() &&
		(can.GetPrompts() != nil || can.GetResources() != nil) && can.Completions == nil {
		can.Completions = &pb.Capability{} // servers of 2024-11-05 do not declare completions
	}
	d.Meta = withoutHop(d.GetMeta())
	p.setRev(rev)
	p.tasks.Store(readTasks(d, rev))
	p.logs = d.GetCapabilities().GetLogging() != nil
	declareLogging(d)
	if err := p.wire.notify(ctx, jsonrpc.AppendNotification(nil, notifyInitialized, nil)); err != nil {
		return nil, fmt.Errorf("initialized: %w", err)
	}
	p.wire.open(ctx)
	return d, nil
}

// secondProgramFailed returns the error of a call whose program does not start. A retry is useless.
func (c *Client) secondProgramFailed(p *peer, err error) error {
	if p.isLost() {
		p.close() // it soon ends, and then the reason is known
	}
	e := bridge.Failed(codes.Unavailable, bridge.OutcomeNotExecuted, "BACKEND_UNAVAILABLE",
		"server %q: cannot start a second instance of the program, for a caller with capabilities; the call was "+
			"not executed. "+
			"If it cannot run twice at a time, call it without elicitation, sampling, roots and extensions", c.o.Name)
	e.Cause = errors.New(c.withOutput(p, err).Error()) // without the wrapped errors, which do not concern the call
	c.log.Error().Err(e.Cause).Msg("cannot start a second instance of the program")
	return e
}

// openSession starts a session of a legacy server for callers with the given capabilities. With an error, it returns
// the peer to close, or nil.
func (c *Client) openSession(ctx context.Context, can *pb.ClientCapabilities, key string) (p *peer, err error) {
	defer c.panics.Recover("starting a session", func(e *bridge.Error) { err = e })
	ctx, cancel := context.WithTimeout(ctx, c.o.StartTimeout)
	defer cancel()
	known := c.getEra()
	if !known.legacy {
		return nil, &lostError{err: errors.New("the server is being probed again")}
	}
	p = c.newPeer()
	p.clientCapabilities, p.key, p.exclusive = can, key, true
	if err := c.connectTo(ctx, p, known); err != nil {
		return nil, err
	}
	if _, err := c.initialize(ctx, p, known.rev); err != nil {
		if c.url == nil && ctx.Err() == nil {
			err = c.secondProgramFailed(p, err)
		}
		return p, err
	}
	if can.GetRoots() != nil {
		// Servers request the roots as soon as a session has started. When the server has responded to a ping, that
		// request has arrived, and its response can be sent before the first call, which may need the roots.
		c.awaitInputRead(ctx, p)
	}
	return p, nil
}

// awaitInputRead waits until a server has read its input. If it does not respond, the call that follows reports it.
func (c *Client) awaitInputRead(ctx context.Context, p *peer) {
	ctx, cancel := context.WithTimeout(ctx, c.o.ProbeTimeout)
	defer cancel()
	_, _ = p.do(ctx, "ping", nil)
}
