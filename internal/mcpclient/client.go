// Package mcpclient is the back that is one MCP server: a program that it launches and talks to over stdio, or one that
// is reached over Streamable HTTP or HTTP+SSE, of any revision. It makes MCP of bridge.Calls, and tells what the server
// answers.
//
// Which era the server is of is found out by asking it (probe.go) and remembered. One that offers both is spoken to in
// the era of each caller (eras.go). To a server of the modern era (2026-07-28) every call goes by itself, with all that
// it needs. A server of the legacy era is told once, in initialize, what its client can do: so a caller with
// capabilities has sessions of its own (lease.go), one for each call that goes on, and a call in the middle of which
// the server asks is suspended until its caller comes back with the answers (pending.go). All callers without
// capabilities share one session. What a program remembers from call to call it remembers for those of one session
// only.
//
// What it promises of every call is the delivery law, as package plugin does: a call that was sent is never sent again
// unless it is read-only by protocol, and every failure says whether the call may have been executed.
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

// Options say which server it is and how to keep it. Exactly one of Command and URL is set.
type Options struct {
	// Name is the server's name in logs and errors. Empty: the program, or the URL without its query.
	Name string

	// Command is the program to launch and its arguments. No shell is involved.
	Command []string
	// Dir is the directory it runs in. Empty: ours.
	Dir string
	// Env is what its environment has besides, as "K=V". It wins over what is passed on.
	Env []string
	// PassEnv names variables of our environment that are passed on, besides those that every child gets
	// (internal/child, env.go). A trailing * stands for any ending.
	PassEnv []string
	// Machine is how much of the machine it may take, with all that it starts.
	Machine limits.Machine
	// StartTimeout is the maximum time until the server has answered for the first time. If it is zero, or ProbeTimeout or
	// HangTimeout is, the default of limits.Timeouts is used.
	StartTimeout time.Duration
	// StopTimeout is the maximum time for a program to exit before it is killed: half of it after its standard input was
	// closed, half after SIGTERM. If zero, limits.StopTimeout is used.
	StopTimeout time.Duration

	// URL is the server's endpoint, http or https: of Streamable HTTP, or the event stream of HTTP+SSE.
	URL string
	// Transport makes the HTTP requests, and adds the credentials. Nil: one that follows the environment's proxy settings.
	Transport http.RoundTripper
	// Header is sent with every HTTP request.
	Header http.Header

	// Revision is the only revision to speak. If NoRevision, the server is probed, and if it offers both eras, a caller is served in
	// its own.
	Revision bridge.Revision
	// Stray gets every line that the program prints and that is no MCP. One that it does not expect is logged: perhaps the program is
	// something else than a server. It must not block, nor keep the line. Nil: nobody is told.
	Stray func(line []byte) (expected bool)

	// ClientInfo is what the server is told we are, where a caller does not say what it is. Nil: mcpbridge.
	ClientInfo *pb.Implementation
	// Log is where the server's own output and what happens to it goes. The zero value logs nothing.
	Log zerolog.Logger
	// Panics counts the panics of the whole process. If nil, those of this package are counted alone.
	Panics *contain.Panics
	// Limits are the limits of calls, messages and output. Zero fields are the defaults. The time of a call with its
	// caller, while the caller answers what the server asks, does not count for CallTotal.
	Limits limits.Limits

	// ProbeTimeout is how long a server may take to answer server/discover before initialize is sent as well; a later answer still
	// counts. With a Transport, which may have to get credentials first, StartTimeout is used.
	ProbeTimeout time.Duration
	// HangTimeout is how long a program may print nothing while calls wait, and leave a ping unanswered, until it is killed and started
	// again.
	HangTimeout time.Duration
	// MaxCalls is the maximum number of calls in flight, and of subscriptions. If zero, limits.UpstreamCalls is used.
	MaxCalls int
	// MaxSessions is how many sessions with a legacy server there may be for callers with capabilities: programs of
	// their own, if it is one. A call has a session to itself, so this many can go on at a time; and a session is only
	// ever one caller's, so that when more callers take turns, programs are ended and started. If zero, the default of
	// limits.Pool is used, which is enough for ten callers that ask for three lists at once, as editors do at their
	// start.
	MaxSessions int
	// SessionIdle is how long such a session is kept that nobody uses. If zero, the default of limits.Pool is used.
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

// pace is how fast things happen. Tests are faster.
type pace struct {
	supervise.Intervals
	settled time.Duration // a subscription that lasted so long begins with the first backoff again
	useful  time.Duration // a program that lived so long and has answered a call is wanted back at once
	gather  time.Duration // what a server asks within so long of one another is asked of the caller at once
	digest  time.Duration // what a server is told before a call, it has so long to take in
	sweep   time.Duration // between looks at what has waited too long
	look    time.Duration // between looks at whether a program hangs
	quiet   time.Duration // one that has been silent for so long while a call waited is asked whether it is there
	stopped int           // one that somebody has stopped hangs, if it is so in as many looks in a row
}

var usualPace = pace{
	Intervals: supervise.Intervals{
		Backoff: 100 * time.Millisecond, MaxBackoff: 10 * time.Second, Crashes: 5, CrashWindow: time.Minute,
		Shortage: 200 * time.Millisecond, Patience: 10 * time.Second, Hopeless: 2 * time.Second,
	},
	settled: 30 * time.Second, useful: 100 * time.Millisecond,
	gather: 20 * time.Millisecond, digest: 100 * time.Millisecond, sweep: time.Second,
	look: time.Second, quiet: 2 * time.Second, stopped: 3,
}

// A Client is one MCP server. It implements bridge.Handler.
type Client struct {
	o      Options
	log    zerolog.Logger
	panics *contain.Panics
	url    *url.URL
	http   *http.Client
	pace   pace
	info   *pb.Implementation

	unreadWarnings rate.Sometimes // paces what is logged of it
	super          *supervise.Supervisor[*connection]

	// ctx ends when Run is to; everything that outlives a call is derived from it.
	ctx    context.Context
	cancel context.CancelFunc
	// work are the goroutines that outlive a call.
	work sync.WaitGroup
	// spawn passes what starts a program to the thread that lives as long as they do.
	spawn chan func()
	// launch starts the program; tests have another one.
	launch func(*peer) error

	// calls and listening are how many calls and subscriptions are going on.
	calls, listening atomic.Int64
	params           paramTable
	pending          pendingCalls
	pool             pool
	eras             eras
	isTwin           bool // this is the twin of another Client

	mu   sync.Mutex // guards the rest
	era  era        // what is remembered of the server
	over bool       // nothing more is begun in the background
}

var _ bridge.Handler = (*Client)(nil)

// A connection is an established connection to the server, from its first answer to its loss. It implements
// supervise.Connection.
type connection struct {
	// peer is what calls are sent to whose callers have no capabilities, and in the modern era all calls.
	peer *peer
	// known is what the server says it is. It is not changed, but replaced.
	known  atomic.Pointer[pb.DiscoverResponse]
	asking atomic.Bool  // somebody asks what it is now
	called atomic.Bool  // it has answered a call
	came   atomic.Int64 // when it said what it is, in nanoseconds of the Unix epoch
	until  atomic.Int64 // when that is to be asked again

	began, ready time.Time // when it was begun to connect, and when the server had answered

	once sync.Once
	gone chan struct{} // closed at its loss
}

// newConnection returns the connection to a server whose discovery is d.
func newConnection(p *peer, d *pb.DiscoverResponse) *connection {
	l := &connection{peer: p, gone: make(chan struct{})}
	l.learn(d)
	return l
}

// A server of the modern era is asked again what it is when that has ceased to be true, and after maxKnown if that is earlier. One
// that does not say for how long it is true, or does not answer, is asked again after unsaid. One of the legacy era says it once.
const (
	unsaid   = time.Minute
	maxKnown = time.Hour
	// replyTimeout is how long it may take to answer; after that, the previous answer is used.
	replyTimeout = 3 * time.Second
)

// learn replaces what the server says it is.
func (l *connection) learn(d *pb.DiscoverResponse) {
	ttl := unsaid
	if d.TtlMs != nil {
		ttl = time.Duration(min(max(d.GetTtlMs(), 0), maxKnown.Milliseconds())) * time.Millisecond
	}
	now := time.Now()
	l.known.Store(mcpjson.Clone(d)) // and not the text that it came in
	l.came.Store(now.UnixNano())
	l.until.Store(now.Add(ttl).UnixNano())
}

// tell returns what the server says it is, for a caller that may change it: with what is left of the time for which that is true.
func (l *connection) tell() *pb.DiscoverResponse {
	d := proto.CloneOf(l.known.Load())
	if d.GetTtlMs() > 0 {
		age := (time.Now().UnixNano() - l.came.Load()) / int64(time.Millisecond)
		d.TtlMs = proto.Int64(max(d.GetTtlMs()-max(age, 0), 0))
	}
	return d
}

// Gone implements supervise.Connection.
func (l *connection) Gone() <-chan struct{} { return l.gone }

// end closes the connection for new calls: the server is to be found again.
func (l *connection) end() { l.once.Do(func() { close(l.gone) }) }

// warnUnread logs, once a minute at most, that the server does not read what it is sent.
func (c *Client) warnUnread() {
	c.unreadWarnings.Do(func() { c.log.Warn().Msg("server is not reading responses; dropping messages") })
}

// New returns the Client that o describes. It starts nothing.
func New(o Options) (*Client, error) {
	c := &Client{o: o.withDefaults(), pace: usualPace, info: o.ClientInfo, unreadWarnings: rate.Sometimes{First: 1, Interval: time.Minute}}
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
	case o.StartTimeout < 0 || o.StopTimeout < 0 || o.ProbeTimeout < 0 || o.Limits.CallTotal < 0 || o.Limits.Message < 0 ||
		o.HangTimeout < 0 || o.MaxCalls < 0 || o.MaxSessions < 0 || o.SessionIdle < 0 || o.Limits.LegacyStateTTL < 0 || o.Limits.AnswerTime < 0 ||
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
		c.pace.Crashes = 0
	}
	c.super = supervise.New[*connection](connector{c}, supervise.Options{
		Name: c.o.Name, Noun: "server", IsProgram: o.URL == "", Log: c.log, Panics: c.panics, Intervals: &c.pace.Intervals,
	})
	c.pool = pool{c: c, idle: map[string][]*peer{}, deserted: map[string][]*opening{}, changed: make(chan struct{})}
	c.pending = pendingCalls{c: c, calls: map[string]*pendingCall{}}
	c.eras.created = make(chan struct{})
	return c, nil
}

// Ready waits until the server has answered. It returns an error if Run has returned, or ctx ends, before.
func (c *Client) Ready(ctx context.Context) error { return c.super.Ready(ctx) }

// Started waits while the program that serves clients of an era starts, and returns nil when it answers or its start
// has failed. It returns an error if ctx ends before. A server that is reached by a URL does not start.
func (c *Client) Started(ctx context.Context, era bridge.Era) error {
	if err := c.super.Started(ctx); err != nil {
		return err
	}
	l := c.super.Live()
	if l == nil || !l.peer.rev().Modern() || era != bridge.LegacyEra {
		return nil
	}
	t, err := c.getTwin(l)
	if t == nil || err != nil {
		return nil //nolint:nilerr // a call says why
	}
	return t.Started(ctx, era)
}

// Run launches or finds the server and keeps it until ctx ends, and then stops it and returns nil. A server that is lost is
// launched or found again; only if a program does not start the first time does Run return why. Nothing that it started is
// left when it returns. Run is to be called once.
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
	c.over = true
	c.mu.Unlock()
	c.work.Wait()
	close(end)
	threads.Wait()
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
	return err
}

// A connector connects a Client to its server. It implements supervise.Backend.
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
		c.endTwin()
	}
	return l, nil
}

func (c connector) IsFinal(err error, first bool) bool {
	return first && (c.url == nil || c.isTwin) || c.isTwin && refusesInitialize(err)
}

func (connector) Watch(ctx context.Context, l *connection) bool {
	select {
	case <-l.gone:
	case <-l.peer.gone:
	case <-ctx.Done():
	}
	return false
}

// Release returns true for a session that has ended, which is no sign that a server is unwell, and for a program that
// was of use.
func (c connector) Release(ctx context.Context, l *connection) bool {
	l.end()
	if ctx.Err() != nil {
		l.peer.close()
		return false
	}
	c.log.Warn().AnErr("why", l.peer.why()).Dur("lived", time.Since(l.began)).Msg("the server was lost")
	if l.peer.isGone() {
		l.peer.close()
	} else {
		c.background(l.peer.leave)
	}
	if c.url != nil {
		return time.Since(l.began) > c.pace.Backoff
	}
	return l.called.Load() && time.Since(l.ready) >= c.pace.useful && !errors.Is(l.peer.why(), errTrash)
}

// background runs f beside everything else, unless the client is at its end.
func (c *Client) background(f func(context.Context)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		c.work.Go(func() {
			defer c.panics.Recover("what goes on beside calls", nil)
			f(c.ctx)
		})
	}
}

// sweep ends what has waited too long, from time to time.
func (c *Client) sweep() {
	tick := time.NewTicker(c.pace.sweep)
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
	defer c.panics.Recover("ending what has waited too long", nil)
	c.pending.sweep(now)
	c.pool.sweep(now)
}

// discovery returns what the server says it is. Whoever wants to know it while it is being asked is told what it was.
func (c *Client) discovery(ctx context.Context, l *connection) *bridge.Result {
	if l.peer.rev().Modern() && time.Now().UnixNano() >= l.until.Load() && l.asking.CompareAndSwap(false, true) {
		defer l.asking.Store(false)
		limited, cancel := context.WithTimeout(ctx, replyTimeout)
		defer cancel()
		d, err := c.discover(limited, l.peer)
		switch {
		case err == nil:
			l.learn(d)
		case ctx.Err() != nil: // whoever comes next asks
		default: // what it said before may still be so
			c.log.Debug().Err(err).Msg("the server does not say again what it is")
			l.until.Store(time.Now().Add(unsaid).UnixNano())
		}
	}
	return &bridge.Result{Complete: l.tell()}
}
