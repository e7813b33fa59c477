// Package mcpclient connects the bridge to one MCP server: a program that it starts and uses over stdio, or an endpoint
// of Streamable HTTP or HTTP+SSE, of any revision. It translates bridge.Calls to MCP requests, and responses and
// notifications back.
//
// A probe determines the server's era (probe.go), which is cached. If a server supports both eras, each caller is
// served in its own era (eras.go). To a modern server (2026-07-28) every request is self-contained. A legacy server
// receives the capabilities of its client once, in initialize. So a caller with capabilities has sessions of its own
// (lease.go), one for each call in flight, and a call during which the server sends a request is suspended until its
// caller sends the responses (pending.go). All callers without capabilities share one session. State that a program
// keeps between calls is kept per session.
//
// The delivery law holds for every call, as in package plugin: a call that was sent is sent again only if it is
// read-only by protocol, and every error reports whether the call may have been executed.
package mcpclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/child"
	"github.com/mcpbridge/mcpbridge/internal/contain"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/supervise"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Options configure the server and the connection to it. Exactly one of Command and URL must be set.
type Options struct {
	// Name is the server's name in logs and errors. If empty, it is the program, or the URL without its query.
	Name string

	// Command is the program and its arguments. No shell is involved.
	Command []string
	// Dir is the program's working directory. If empty, the current one is used.
	Dir string
	// Env has additional environment variables, as "K=V". They override those that are passed on.
	Env []string
	// PassEnv names environment variables that are passed on, in addition to those that every child process gets
	// (internal/child, env.go). A trailing * matches any suffix.
	PassEnv []string
	// Machine limits the memory and processors of the program and its children.
	Machine limits.Machine
	// StartTimeout is the maximum time until the first response of the server. If it, ProbeTimeout or HangTimeout is
	// zero, the default of limits.Timeouts is used.
	StartTimeout time.Duration
	// StopTimeout is the maximum time for a program to exit before it is killed: half of it after its standard input is
	// closed, half after SIGTERM. If zero, limits.StopTimeout is used.
	StopTimeout time.Duration

	// URL is the http or https endpoint of Streamable HTTP, or the event stream of HTTP+SSE.
	URL string
	// Transport sends the HTTP requests and adds credentials. If nil, one with the environment's proxy settings is
	// used.
	Transport http.RoundTripper
	// Header is sent with every HTTP request.
	Header http.Header

	// Revision is the only revision to use. If NoRevision, the server is probed, and if it supports both eras, each
	// caller is served in its own.
	Revision bridge.Revision
	// InvalidLine receives every line on standard output that is not MCP. Unexpected lines are logged as well: the
	// program may not be an MCP server. InvalidLine must not block or retain the line. It may be nil.
	InvalidLine func(line []byte) (expected bool)

	// ClientInfo is sent to the server for callers without client info. If nil, it describes mcpbridge.
	ClientInfo *pb.Implementation
	// Log receives the server's output and the events of the connection. The zero value logs nothing.
	Log zerolog.Logger
	// Panics counts panics. If nil, those of this package are counted separately.
	Panics *contain.Panics
	// Limits apply to calls, messages and output. Defaults replace zero fields. CallTotal does not count the time
	// during which a call waits for its caller's responses to input requests.
	Limits limits.Limits

	// ProbeTimeout is the maximum time for a response to server/discover before initialize is sent as well. A later
	// response still counts. With a Transport, which may have to obtain credentials first, StartTimeout is used.
	ProbeTimeout time.Duration
	// HangTimeout is the maximum time without output, while calls wait and a ping is unanswered, before a program is
	// killed and restarted.
	HangTimeout time.Duration
	// MaxCalls is the maximum number of calls in flight, and of subscriptions. If zero, limits.UpstreamCalls is used.
	MaxCalls int
	// MaxSessions is the maximum number of sessions with a legacy server for callers with capabilities. Over stdio,
	// each is a process. A call has its session exclusively, so this is the maximum of concurrent calls. A session is
	// never shared between callers: if there are more callers, idle programs are stopped and new ones started. If zero,
	// the default of limits.Pool is used, which is enough for ten callers that request three lists at once, as editors
	// do at startup.
	MaxSessions int
	// SessionIdle is how long an unused session is kept. If zero, the default of limits.Pool is used.
	SessionIdle time.Duration
}

func (o Options) withDefaults() Options {
	usual := limits.Pool{}.OrDefaults()
	sessions := usual.Remote
	if len(o.Command) > 0 {
		sessions = usual.Processes
	}
	o.Limits = o.Limits.OrDefaults()
	t := limits.Timeouts{Start: o.StartTimeout, Probe: o.ProbeTimeout, Hang: o.HangTimeout}.OrDefaults()
	o.StartTimeout, o.ProbeTimeout, o.HangTimeout = t.Start, t.Probe, t.Hang
	o.StopTimeout = cmp.Or(o.StopTimeout, limits.StopTimeout)
	o.MaxCalls = cmp.Or(o.MaxCalls, limits.UpstreamCalls)
	o.MaxSessions = cmp.Or(o.MaxSessions, sessions)
	o.SessionIdle = cmp.Or(o.SessionIdle, usual.Idle)
	return o
}

// intervals has the intervals of a Client. Tests use shorter ones.
type intervals struct {
	supervise.Intervals
	stableAfter  time.Duration // a subscription that lasted this long resets the backoff
	restartAfter time.Duration // a program that has responded to a call and ran this long is restarted at once
	collectTime  time.Duration // requests of the server within this time are sent to the caller together
	processTime  time.Duration // time for the server to process notifications before a call
	sweep        time.Duration // interval between checks for expired calls and sessions
	hangCheck    time.Duration // interval between checks for hanging programs
	pingAfter    time.Duration // a program that was silent for this long while a call waited is pinged
	stopped      int           // number of consecutive checks after which a stopped process counts as hanging
}

var defaultIntervals = intervals{
	Intervals: supervise.Intervals{
		Backoff: 100 * time.Millisecond, MaxBackoff: 10 * time.Second, Crashes: 5, CrashWindow: time.Minute,
		ShortageDelay: 200 * time.Millisecond, CallWait: 10 * time.Second, FailFast: 2 * time.Second,
	},
	stableAfter: 30 * time.Second, restartAfter: 100 * time.Millisecond,
	collectTime: 20 * time.Millisecond, processTime: 100 * time.Millisecond, sweep: time.Second,
	hangCheck: time.Second, pingAfter: 2 * time.Second, stopped: 3,
}

// A Client is a bridge.Handler for one MCP server.
type Client struct {
	o         Options
	log       zerolog.Logger
	panics    *contain.Panics
	url       *url.URL
	http      *http.Client
	intervals intervals
	info      *pb.Implementation

	unreadWarnings rate.Sometimes // limits the rate of these warnings
	super          *supervise.Supervisor[*connection]

	// ctx ends when Run is about to return. The contexts of background work derive from it.
	ctx    context.Context
	cancel context.CancelFunc
	// work are the goroutines that outlive a call.
	work sync.WaitGroup
	// spawn runs a function that starts a program on a thread that lives as long as the program.
	spawn chan func()
	// launch starts the program. Tests replace it.
	launch func(*peer) error

	// calls and listening are the numbers of calls and subscriptions in flight.
	calls, listening atomic.Int64
	params           paramTable
	pending          pendingCalls
	pool             pool
	eras             eras
	isLegacyClient   bool // this is the legacy Client of another Client

	mu       sync.Mutex // guards the rest
	era      era        // what is known about the server
	stopping bool       // no more background work starts
}

var _ bridge.Handler = (*Client)(nil)

// A connection is a connection to the server, from its first response to its loss. It implements supervise.Connection.
type connection struct {
	// peer receives the calls of callers without capabilities, and in the modern era all calls.
	peer *peer
	// declared is the server's declaration. It is replaced, never modified.
	declared   atomic.Pointer[pb.DiscoverResponse]
	refreshing atomic.Bool  // a refresh of declared is in progress
	called     atomic.Bool  // the server has responded to a call
	receivedAt atomic.Int64 // when declared was received, in nanoseconds of the Unix epoch
	expiresAt  atomic.Int64 // when declared expires

	began, ready time.Time // when connecting began, and when the server had responded

	once sync.Once
	done chan struct{} // closed when the connection is lost
}

// newConnection returns the connection to a server with the declaration d.
func newConnection(p *peer, d *pb.DiscoverResponse) *connection {
	l := &connection{peer: p, done: make(chan struct{})}
	l.setDeclaration(d)
	return l
}

// The declaration of a modern server is refreshed when its TTL has expired, after maxTTL at the latest, and after
// defaultTTL if it has no TTL or a refresh failed. A legacy server declares itself once.
const (
	defaultTTL = time.Minute
	maxTTL     = time.Hour
	// refreshTimeout is the maximum time of a refresh. After that, the previous declaration is used.
	refreshTimeout = 3 * time.Second
)

// setDeclaration replaces the server's declaration.
func (l *connection) setDeclaration(d *pb.DiscoverResponse) {
	ttl := defaultTTL
	if d.TtlMs != nil {
		ttl = time.Duration(min(max(d.GetTtlMs(), 0), maxTTL.Milliseconds())) * time.Millisecond
	}
	now := time.Now()
	l.peer.tasks.Store(bridge.ServesTasks(d.GetCapabilities()))
	l.declared.Store(mcpjson.Clone(d)) // does not retain the message
	l.receivedAt.Store(now.UnixNano())
	l.expiresAt.Store(now.Add(ttl).UnixNano())
}

// declaration returns a copy of the server's declaration with the remaining TTL.
func (l *connection) declaration() *pb.DiscoverResponse {
	d := proto.CloneOf(l.declared.Load())
	if d.GetTtlMs() > 0 {
		age := (time.Now().UnixNano() - l.receivedAt.Load()) / int64(time.Millisecond)
		d.TtlMs = proto.Int64(max(d.GetTtlMs()-max(age, 0), 0))
	}
	return d
}

// Lost implements supervise.Connection.
func (l *connection) Lost() <-chan struct{} { return l.done }

// end closes the connection for new calls, so that the server is probed again.
func (l *connection) end() { l.once.Do(func() { close(l.done) }) }

// warnUnread logs, at most once a minute, that the server does not read its input.
func (c *Client) warnUnread() {
	c.unreadWarnings.Do(func() { c.log.Warn().Msg("server is not reading responses; dropping messages") })
}

// New returns a Client. It starts nothing.
func New(o Options) (*Client, error) {
	c := &Client{
		o: o.withDefaults(), intervals: defaultIntervals, info: o.ClientInfo,
		unreadWarnings: rate.Sometimes{First: 1, Interval: time.Minute},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.spawn = make(chan func())
	c.launch = c.launchChild
	switch {
	case len(o.Command) == 0 && o.URL == "":
		return nil, fmt.Errorf("server %q: neither a command to launch nor a url", o.Name)
	case len(o.Command) > 0 && o.URL != "":
		return nil, fmt.Errorf("server %q: both a command (%s) and a url", o.Name, o.Command[0])
	case len(o.Command) > 0 && o.Command[0] == "":
		return nil, fmt.Errorf("server %q: the command's first word is empty", o.Name)
	case o.StartTimeout < 0 || o.StopTimeout < 0 || o.ProbeTimeout < 0 || o.Limits.CallTotal < 0 ||
		o.Limits.Message < 0 ||
		o.HangTimeout < 0 || o.MaxCalls < 0 || o.MaxSessions < 0 || o.SessionIdle < 0 || o.Limits.LegacyStateTTL < 0 ||
		o.Limits.AnswerTime < 0 ||
		o.Machine.Memory < 0 || o.Machine.Processes < 0 || o.Machine.Files < 0:
		return nil, fmt.Errorf("server %q: a limit or timeout is negative", o.Name)
	}
	if o.URL != "" {
		u, err := parseURL(o.URL)
		if err != nil {
			return nil, fmt.Errorf("server %q: %w", o.Name, err)
		}
		c.url, c.http = u, newHTTPClient(o.Transport)
	}
	if c.o.Name == "" {
		if c.url != nil {
			c.o.Name = c.url.Scheme + "://" + c.url.Host + c.url.Path
		} else {
			c.o.Name = o.Command[0]
		}
	}
	for _, kv := range o.Env {
		if !child.ValidEnv(kv) {
			return nil, fmt.Errorf("server %q: environment entry %q is not K=V", c.o.Name, kv)
		}
	}
	if c.info == nil {
		c.info = &pb.Implementation{Name: "mcpbridge", Version: "1"}
	}
	c.log = o.Log.With().Str("backend", c.o.Name).Logger()
	c.panics = o.Panics.With(c.log)
	if o.URL != "" {
		c.intervals.Crashes = 0
	}
	c.super = supervise.New[*connection](connector{c}, supervise.Options{
		Name: c.o.Name, Noun: "server", IsProgram: o.URL == "", Log: c.log, Panics: c.panics,
		Intervals: &c.intervals.Intervals,
	})
	c.pool = pool{c: c, idle: map[string][]*peer{}, unclaimed: map[string][]*opening{}, changed: make(chan struct{})}
	c.pending = pendingCalls{c: c, calls: map[string]*pendingCall{}}
	c.eras.created = make(chan struct{})
	return c, nil
}

// Ready waits for the first response of the server. It returns an error if Run has returned or ctx has ended before.
func (c *Client) Ready(ctx context.Context) error { return c.super.Ready(ctx) }

// Started waits while the program for clients of an era starts. It returns nil when the program has responded or failed
// to start, and an error if ctx ends before. For a server with a URL it returns nil at once.
func (c *Client) Started(ctx context.Context, era bridge.Era) error {
	if err := c.super.Started(ctx); err != nil {
		return err
	}
	l := c.super.Live()
	if l == nil || !l.peer.rev().Modern() || era != bridge.LegacyEra {
		return nil
	}
	t, err := c.getLegacyClient(l)
	if t == nil || err != nil {
		return nil //nolint:nilerr // a call returns the error
	}
	return t.Started(ctx, era)
}

// Run connects to the server until ctx ends, then stops it and returns nil. A lost server is restarted or reconnected.
// Run returns an error only if a program fails to start the first time. When Run returns, nothing that it started is
// left. Run must be called once.
func (c *Client) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, c.cancel)
	defer stop()
	end := make(chan struct{})
	var threads sync.WaitGroup
	threads.Go(func() { c.spawner(end) })
	c.work.Go(c.sweep)
	err := c.super.Run(c.ctx)
	c.cancel()
	c.pending.empty()
	c.pool.empty()
	c.mu.Lock()
	c.stopping = true
	c.mu.Unlock()
	c.work.Wait()
	close(end)
	threads.Wait()
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	return err
}

// A connector implements supervise.Backend.
type connector struct{ *Client }

func (c connector) Connect(ctx context.Context) (*connection, error) {
	began := time.Now()
	l, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	l.began, l.ready = began, time.Now()
	c.log.Info().Stringer("revision", l.peer.rev()).Dur("took", l.ready.Sub(began)).Msg("the server is ready")
	if !l.peer.rev().Modern() {
		c.endLegacyClient()
	}
	return l, nil
}

func (c connector) IsFinal(err error, first bool) bool {
	return first && (c.url == nil || c.isLegacyClient) || c.isLegacyClient && rejectsInitialize(err)
}

func (connector) Watch(ctx context.Context, l *connection) bool {
	select {
	case <-l.done:
	case <-l.peer.done:
	case <-ctx.Done():
	}
	return false
}

// Release releases a lost connection. It reports whether the loss is no sign of an unhealthy server: the connection had
// lasted for a while, or the program had been useful.
func (c connector) Release(ctx context.Context, l *connection) bool {
	l.end()
	if ctx.Err() != nil {
		l.peer.close()
		return false
	}
	c.log.Warn().AnErr("why", l.peer.why()).Dur("lived", time.Since(l.began)).Msg("the server was lost")
	if l.peer.isLost() {
		l.peer.close()
	} else {
		c.background(l.peer.closeWhenUnused)
	}
	if c.url != nil {
		return time.Since(l.began) > c.intervals.Backoff
	}
	return l.called.Load() && time.Since(l.ready) >= c.intervals.restartAfter &&
		!errors.Is(l.peer.why(), errInvalidLines)
}

// background runs f in a goroutine, unless the client is stopping.
func (c *Client) background(f func(context.Context)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopping {
		c.work.Go(func() {
			defer c.panics.Recover("background work", nil)
			f(c.ctx)
		})
	}
}

// sweep periodically ends expired calls and sessions.
func (c *Client) sweep() {
	tick := time.NewTicker(c.intervals.sweep)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			c.sweepOnce(now)
		case <-c.ctx.Done():
			return
		}
	}
}

func (c *Client) sweepOnce(now time.Time) {
	defer c.panics.Recover("ending expired calls and sessions", nil)
	c.pending.sweep(now)
	c.pool.sweep(now)
}

// discovery returns the server's declaration. During a refresh by another caller, it returns the previous one.
func (c *Client) discovery(ctx context.Context, l *connection) *bridge.Result {
	if l.peer.rev().Modern() && time.Now().UnixNano() >= l.expiresAt.Load() &&
		l.refreshing.CompareAndSwap(false, true) {
		defer l.refreshing.Store(false)
		limited, cancel := context.WithTimeout(ctx, refreshTimeout)
		defer cancel()
		d, err := c.discover(limited, l.peer)
		switch {
		case err == nil:
			l.setDeclaration(d)
		case ctx.Err() != nil: // the next caller retries
		default: // the previous declaration may still be valid
			c.log.Debug().Err(err).Msg("cannot refresh the declaration of the server; using the previous one")
			l.expiresAt.Store(time.Now().Add(defaultTTL).UnixNano())
		}
	}
	return &bridge.Result{Complete: l.declaration()}
}
