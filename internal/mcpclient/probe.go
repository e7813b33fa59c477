package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/child"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// An era is what is known about how to connect to a server. The zero value means that nothing is known.
type era struct {
	// legacy means that the server requires initialize, and rev is the negotiated revision.
	legacy bool
	rev    bridge.Revision
	// sse means HTTP+SSE.
	sse bool
	// crashesOnDiscover means that server/discover crashed the program: it must not be sent again.
	crashesOnDiscover bool
}

func (c *Client) setEra(e era) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.era = e
}

func (c *Client) getEra() era {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.era
}

// modernRev is the supported modern revision.
const modernRev = bridge.Rev20260728

// legacyRev returns the revision to request in initialize.
func (c *Client) legacyRev() bridge.Revision {
	if c.o.Revision != bridge.NoRevision {
		return c.o.Revision
	}
	return bridge.LatestLegacy
}

// configuredEra reports whether the configuration sets the legacy era, or the modern one.
func (c *Client) configuredEra() (legacy, modern bool) {
	if c.o.Revision == bridge.NoRevision {
		return false, false
	}
	return !c.o.Revision.Modern(), c.o.Revision.Modern()
}

// connect probes the server and connects to it.
func (c *Client) connect(ctx context.Context) (l *connection, err error) {
	defer c.panics.Recover("probing the server", func(e *bridge.Error) { l, err = nil, e })

	ctx, cancel := context.WithTimeout(ctx, c.o.StartTimeout)
	defer cancel()
	known := c.getEra()
	if legacy, _ := c.configuredEra(); legacy {
		known.legacy = true
	}
	l, err = c.connectEra(ctx, known)
	if err != nil && known.legacy && ctx.Err() == nil {
		// it may have been replaced: probe again the next time
		c.setEra(era{crashesOnDiscover: known.crashesOnDiscover})
	}
	if err != nil {
		return nil, fmt.Errorf("server %q: %w", c.o.Name, err)
	}
	return l, nil
}

func (c *Client) connectEra(ctx context.Context, known era) (*connection, error) {
	if c.url != nil {
		return c.connectHTTP(ctx, known)
	}
	return c.connectStdio(ctx, known)
}

// dial returns a new peer with a wire to the server.
func (c *Client) dial(ctx context.Context, e era) (*peer, error) {
	p := c.newPeer()
	return p, c.connectTo(ctx, p, e)
}

// connectTo sets the wire of a peer.
func (c *Client) connectTo(ctx context.Context, p *peer, e era) (err error) {
	switch {
	case c.url == nil:
		err = c.launch(p)
	case e.sse:
		err = c.dialSSE(ctx, p)
	default:
		c.newStreamable(p)
	}
	return err
}

// connectStdio probes a program (2026-07-28: stdio, backward compatibility).
func (c *Client) connectStdio(ctx context.Context, known era) (*connection, error) {
	p, err := c.dial(ctx, known)
	if err != nil {
		return nil, err
	}
	if known.legacy || known.crashesOnDiscover {
		return c.beginLegacy(ctx, p)
	}
	if _, modern := c.configuredEra(); modern {
		return c.beginModern(ctx, p)
	}
	l, err := c.probeStdio(ctx, p)
	if err == nil {
		return l, nil
	}
	p.close()
	if ctx.Err() != nil || !errors.Is(err, errDied) {
		return nil, c.withOutput(p, err)
	}
	// Some old servers exit on unknown messages.
	c.log.Debug().Err(err).Msg("the server exited on server/discover; restarting it and sending initialize")
	c.setEra(era{crashesOnDiscover: true})
	if p, err = c.dial(ctx, known); err != nil {
		return nil, err
	}
	return c.beginLegacy(ctx, p)
}

// errDied means that a program exited or became unresponsive during the probe.
var errDied = errors.New("the program exited before it responded")

// withOutput adds the last output of the program to err.
func (c *Client) withOutput(p *peer, err error) error {
	if s, ok := p.wire.(*stdio); ok {
		return fmt.Errorf("it did not start: %w\n  command: %s%s", err, child.Quote(c.o.Command), s.exitReport())
	}
	return err
}

// probeStdio probes a program with server/discover, and if that fails with initialize.
func (c *Client) probeStdio(ctx context.Context, p *peer) (*connection, error) {
	p.setRev(modernRev)
	first, err := c.startDiscover(p)
	if err != nil {
		return nil, err
	}
	defer p.end(first)
	initialize := func(ctx context.Context) (*connection, error) {
		d, err := c.initialize(ctx, p, c.legacyRev())
		if err != nil {
			return nil, err
		}
		return c.legacyConnection(p, d), nil
	}
	limited, cancel := context.WithTimeout(ctx, c.o.ProbeTimeout)
	msg, err := first.await(limited)
	cancel()
	var l *connection
	switch {
	case msg != nil:
		var again bool
		if l, again, err = c.readProbe(p, msg); l != nil || err != nil {
			return l, err
		} else if again {
			return c.beginModern(ctx, p)
		}
		l, err = initialize(ctx)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		l, _, err = c.probeSlow(ctx, p, first, initialize)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("neither server/discover nor initialize was answered within %s", c.o.StartTimeout)
	}
	if _, gone := errors.AsType[*lostError](err); gone {
		return nil, fmt.Errorf("%w: %w", errDied, err)
	}
	return l, err
}

// probeSlow completes a probe without a timely response to server/discover. A server that does not support the method
// may never respond, so late sends initialize (2026-07-28: stdio, backward compatibility); a slow modern server
// responds to server/discover in the meantime. After a result of initialize, late waits for a tenth of the probe
// timeout for the other response, because a server of both eras sends both. After an error, it waits for the probe
// timeout, or for the rest of the start timeout if only a modern server returns this error. unknown means that the
// server rejected server/discover as an unknown method.
func (c *Client) probeSlow(ctx context.Context, p *peer, first *exchange,
	initialize func(context.Context) (*connection, error),
) (l *connection, unknown bool, err error) {
	trying, stop := context.WithCancel(ctx)
	defer stop()
	waiting, enough := context.WithCancel(ctx)
	defer enough()
	tried := make(chan struct{})
	var legacy *connection
	var failed error
	go func() {
		defer close(tried)
		legacy, failed = initialize(trying)
		e, _ := errors.AsType[*refusal](failed)
		moment := c.o.ProbeTimeout
		switch {
		case failed == nil:
			moment /= 10
		case e != nil && e.isModern():
			return
		}
		time.AfterFunc(moment, enough)
	}()
	msg, _ := first.await(waiting) // initialize reports the same error
	if msg == nil {
		<-tried
		return legacy, false, failed
	}
	l, again, err := c.readProbe(p, msg)
	if l == nil && !again && err == nil {
		<-tried
		return legacy, msg.Error.GetCode() == codeMethodNotFound, failed
	}
	if c.url == nil {
		select { // whether initialize was rejected decides whether the connection can be used
		case <-tried:
		case <-time.After(c.o.ProbeTimeout):
		case <-ctx.Done():
		}
	}
	stop()
	<-tried
	if legacy != nil && legacy.peer != p {
		c.background(legacy.peer.closeWhenUnused)
	}
	switch {
	case err != nil:
		return nil, false, err
	case c.url == nil && !rejectsInitialize(failed):
		// A server of both eras that has read initialize may serve the connection in the legacy era from then on.
		c.log.Info().Msg("restarting the server in 2026-07-28: it responded to server/discover after the probe " +
			"timeout, " +
			"when initialize had been sent")
		p.close()
		if p, err = c.dial(ctx, era{}); err != nil {
			return nil, false, err
		}
		ctx, cancel := context.WithTimeout(c.ctx, c.o.StartTimeout) // the same time again
		defer cancel()
		l, err = c.beginModern(ctx, p)
		return l, false, err
	case again:
		l, err = c.beginModern(ctx, p)
		return l, false, err
	}
	// set the revision again, which initialize has reset
	return c.modernConnection(p, l.declared.Load()), false, nil
}

// startDiscover sends server/discover.
func (c *Client) startDiscover(p *peer) (*exchange, error) {
	x, err := p.beginRequest(bridge.Discover, &pb.DiscoverRequest{}, purpose{})
	if err == nil {
		p.start(x)
	}
	return x, err
}

// readProbe interprets the response to server/discover. It returns a connection to a modern server, or an error if no
// revision is supported in common; again means that the request must be repeated. If it returns none of these, the
// server is not a modern one.
func (c *Client) readProbe(p *peer, msg *jsonrpc.Message) (l *connection, again bool, err error) {
	if e := msg.Error; e != nil {
		switch e.GetCode() {
		case codeUnsupportedVersion:
			supported, legacy := supportedBy(e)
			switch {
			case supported:
				return nil, true, nil
			case legacy:
				return nil, false, nil
			}
			return nil, false, fmt.Errorf("it supports no revision that the bridge supports: %s",
				rawjson.ShortenTo(e.GetData(), 300))
		case codeHeaderMismatch, bridge.CodeMissingCapability:
			return nil, false, asError(bridge.Discover.Name, msg)
		}
		return nil, false, nil
	}
	d, err := readDiscover(msg.Result)
	if err != nil {
		c.log.Debug().Err(err).Msg("the response to server/discover is invalid; treating the server as a legacy one")
		return nil, false, nil
	}
	supported := false
	for _, name := range d.GetSupportedVersions() {
		rev, known := bridge.ParseRevision(name)
		supported = supported || known && rev.Modern()
	}
	if !supported {
		return nil, false, nil
	}
	d.SupportedVersions = nil // the bridge's own server supports all of them
	return c.modernConnection(p, d), false, nil
}

// supportedBy reports whether the data of an unsupported version error contains the modern revision, or a legacy one.
func supportedBy(e *pb.JsonRpcError) (modern, legacy bool) {
	for v := range rawjson.Elements(rawjson.Get(rawjson.AsBytes(e.GetData()), "supported")) {
		name, _ := rawjson.String(v)
		if rev, ok := bridge.ParseRevision(name); ok {
			modern, legacy = modern || rev.Modern(), legacy || !rev.Modern()
		}
	}
	return modern, legacy
}

// readDiscover reads the result of server/discover.
func readDiscover(result []byte) (*pb.DiscoverResponse, error) {
	d := &pb.DiscoverResponse{}
	if err := mcpjson.Unmarshal(result, d, modernRev); err != nil {
		return nil, err
	}
	if info := rawjson.Get(rawjson.Get(result, "_meta"), metaServerInfo); info != nil {
		d.ServerInfo = &pb.Implementation{}
		if err := mcpjson.Unmarshal(info, d.ServerInfo, modernRev); err != nil {
			d.ServerInfo = nil // a server without valid serverInfo is accepted
		}
	}
	d.Meta = withoutHop(d.GetMeta())
	declareLogging(d)
	return d, nil
}

func (c *Client) modernConnection(p *peer, d *pb.DiscoverResponse) *connection {
	p.setRev(modernRev)
	c.setEra(era{rev: modernRev})
	return newConnection(p, d)
}

// beginModern connects to a modern server. It closes p if that fails.
func (c *Client) beginModern(ctx context.Context, p *peer) (l *connection, err error) {
	defer func() {
		if err != nil {
			p.close()
			err = c.withOutput(p, err)
		}
	}()
	p.setRev(modernRev)
	d, err := c.discover(ctx, p)
	if err != nil {
		return nil, err
	}
	return c.modernConnection(p, d), nil
}

// discover sends server/discover to a modern server.
func (c *Client) discover(ctx context.Context, p *peer) (*pb.DiscoverResponse, error) {
	x, err := c.startDiscover(p)
	if err != nil {
		return nil, err
	}
	defer p.end(x)
	msg, err := x.await(ctx)
	if err != nil {
		return nil, err
	}
	if msg.Error != nil {
		return nil, asError(bridge.Discover.Name, msg)
	}
	d, err := readDiscover(msg.Result)
	if err != nil {
		return nil, fmt.Errorf("server/discover: %w", err)
	}
	d.SupportedVersions = nil // the bridge's own server supports all of them
	return d, nil
}

// connectHTTP probes an endpoint (2026-07-28: basic/versioning, backward compatibility; 2025-11-25: basic/transports,
// the same).
func (c *Client) connectHTTP(ctx context.Context, known era) (*connection, error) {
	if known.legacy && known.rev != bridge.NoRevision {
		p, err := c.dial(ctx, known)
		if err != nil {
			return nil, err
		}
		return c.beginLegacy(ctx, p)
	}
	if known.legacy {
		return c.initializeHTTP(ctx, false)
	}
	p, err := c.dial(ctx, known)
	if err != nil {
		return nil, err
	}
	if _, modern := c.configuredEra(); modern {
		return c.beginModern(ctx, p)
	}
	l, modern, err := c.probeHTTP(ctx, p)
	if l == nil || l.peer != p {
		p.close()
	}
	if l != nil || err != nil {
		return l, err
	}
	return c.initializeHTTP(ctx, modern)
}

// initializeHTTP starts a session with initialize, over Streamable HTTP or else HTTP+SSE. modern means that an endpoint
// that rejects initialize is modern.
func (c *Client) initializeHTTP(ctx context.Context, modern bool) (*connection, error) {
	p, err := c.dial(ctx, era{})
	if err != nil {
		return nil, err
	}
	l, failed := c.beginLegacy(ctx, p)
	if failed == nil {
		return l, nil
	}
	if modern && p.rev() == bridge.NoRevision && rejectsInitialize(failed) {
		// It is a modern server that does not implement server/discover.
		p, err := c.dial(ctx, era{})
		if err != nil {
			return nil, err
		}
		c.log.Warn().Msg("the server does not implement server/discover; assuming all capabilities")
		return c.modernConnection(p, &pb.DiscoverResponse{Capabilities: &pb.ServerCapabilities{
			Tools: &pb.ToolsCapability{}, Resources: &pb.ResourcesCapability{}, Prompts: &pb.PromptsCapability{},
			Completions: &pb.Capability{},
		}}), nil
	}
	if l, ok := errors.AsType[*lostError](failed); ctx.Err() != nil || !ok || !l.refused {
		return nil, failed
	}
	p, err = c.dial(ctx, era{sse: true})
	if err != nil {
		return nil, fmt.Errorf("it is neither Streamable HTTP (%w) nor HTTP+SSE (%w)", failed, err)
	}
	return c.beginLegacy(ctx, p)
}

// probeHTTP sends server/discover to an endpoint. It returns neither a connection nor an error if initialize has to
// decide; modern means that the endpoint is modern if initialize fails too.
func (c *Client) probeHTTP(ctx context.Context, p *peer) (l *connection, modern bool, err error) {
	p.setRev(modernRev)
	for range 2 {
		x, err := c.startDiscover(p)
		if err != nil {
			return nil, false, err
		}
		limit := c.o.ProbeTimeout
		if c.o.Transport != nil {
			limit = c.o.StartTimeout
		}
		limited, cancel := context.WithTimeout(ctx, limit)
		msg, err := x.await(limited)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			l, modern, err := c.probeSlow(ctx, p, x,
				func(ctx context.Context) (*connection, error) { return c.initializeHTTP(ctx, false) })
			p.end(x)
			if modern && l == nil && ctx.Err() == nil {
				return nil, true, nil
			}
			return l, false, err
		}
		p.end(x)
		switch {
		case ctx.Err() != nil:
			return nil, false, ctx.Err()
		case err != nil:
			return nil, false, probeFailed(err)
		}
		l, again, err := c.readProbe(p, msg)
		if !again {
			return l, msg.Error.GetCode() == codeMethodNotFound, err
		}
	}
	return nil, false, errors.New("server/discover: the server rejects a revision that it declares as supported")
}

// probeFailed returns err if the server is unreachable or requires credentials. It returns nil if the server has
// rejected the probe, so that initialize determines the era.
func probeFailed(err error) error {
	if l, ok := errors.AsType[*lostError](err); ok {
		if l.refused {
			return nil
		}
		return err
	}
	if e, ok := errors.AsType[*bridge.Error](err); ok && e.Code == codes.Internal {
		return nil // its response is not MCP of this era
	}
	return err
}
