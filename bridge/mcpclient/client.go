// Package mcpclient is the back that is one MCP server: a program that it launches and talks to over stdio, or one that is
// reached over Streamable HTTP or HTTP+SSE, of any revision. It makes MCP of bridge.Calls, and tells what the server answers.
//
// Which era the server is of is found out by asking it (probe.go) and remembered. One that offers both is spoken to in the era of each
// caller (eras.go). To a server of the modern era (2026-07-28)
// every call goes by itself, with all that it needs. A server of the legacy era is told once, in initialize, what its client
// can do: so a caller with capabilities has sessions of its own (lease.go), one for each call that goes on, and a call in the
// middle of which the server asks is parked until its caller comes back with the answers (park.go). All callers without
// capabilities share one session. What a program remembers from call to call it remembers for those of one session only.
//
// What it promises of every call is the delivery law, as package plugin does: a call that was sent is never sent again unless
// it is read-only by protocol, and every failure says whether the call may have been executed.
package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/bridge/child"
	"github.com/mcpbridge/mcpbridge/bridge/contain"
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
	// PassEnv names variables of our environment that are passed on, besides those that every child gets (bridge/child,
	// env.go). A trailing * stands for any ending.
	PassEnv []string
	// Limits are how much of the machine it may take, with all that it starts.
	Limits child.Limits
	// StartTimeout is how long it may take until the server has answered for the first time. 0: 30 s.
	StartTimeout time.Duration
	// StopTimeout is how long a program may take to end before it is killed: half of it after its standard input has been
	// closed, half after SIGTERM. 0: 5 s.
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
	// LogLimits are how much of the server's own output is logged.
	LogLimits child.LogLimits

	// ProbeTimeout is how long a server may take to answer server/discover before initialize is sent as well; a later answer still
	// counts. With a Transport, which may have to get credentials first, StartTimeout is used. If zero, half of StartTimeout.
	ProbeTimeout time.Duration
	// CallTimeout is the most that a call may take, whatever its progress. Its time with the caller, while the caller answers
	// what the server asks, does not count. 0: 15 minutes.
	CallTimeout time.Duration
	// HangTimeout is how long a program may print nothing while calls wait, and leave a ping unanswered, until it is killed and started
	// again. If zero, 60 s.
	HangTimeout time.Duration
	// MaxMessage is how many bytes one message of the server may have. 0: 16 MiB.
	MaxMessage int
	// MaxCalls is how many calls may be going on at a time. Further ones are refused. 0: 1024.
	MaxCalls int
	// MaxSessions is how many sessions with a legacy server there may be for callers with capabilities: programs of their own,
	// if it is one. A call has a session to itself, so this many can go on at a time; and a session is only ever one caller's,
	// so that when more callers take turns, programs are ended and started. 0: 32 programs, which is enough for ten callers that ask for
	// three lists at once, as editors do at their start, or 64 HTTP sessions.
	MaxSessions int
	// SessionIdle is how long such a session is kept that nobody uses. 0: 5 minutes.
	SessionIdle time.Duration
	// ParkTTL is how long a caller may take to come back with the answers to what a legacy server asks. 0: 5 minutes.
	ParkTTL time.Duration
	// AskTimeout is how long a legacy caller is waited for; then its call comes back to say that there is no answer, for which it waits
	// at least so long, and a little longer. 0: 5 minutes.
	AskTimeout time.Duration
}

func (o Options) withDefaults() Options {
	sessions := 64
	if len(o.Command) > 0 {
		sessions = 32
	}
	or(&o.StartTimeout, 30*time.Second)
	or(&o.StopTimeout, 5*time.Second)
	or(&o.ProbeTimeout, o.StartTimeout/2)
	or(&o.CallTimeout, 15*time.Minute)
	or(&o.HangTimeout, 60*time.Second)
	or(&o.MaxMessage, 16<<20)
	or(&o.MaxCalls, 1024)
	or(&o.MaxSessions, sessions)
	or(&o.SessionIdle, 5*time.Minute)
	or(&o.ParkTTL, 5*time.Minute)
	or(&o.AskTimeout, 5*time.Minute)
	return o
}

// or sets *v to def if it is zero.
func or[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// pace is how fast things happen. Tests are faster.
type pace struct {
	backoff, maxBackoff time.Duration // between a loss and the next start: the first time, and at most
	starved             time.Duration // until the next start of one for which there were no descriptors
	settled             time.Duration // a server that lived so long begins with the first backoff again
	useful              time.Duration // a program that lived so long and has answered a call is wanted back at once
	patience            time.Duration // the most that a call waits for a server
	hopeless            time.Duration // a backoff longer than this is not waited for
	gather              time.Duration // what a server asks within so long of one another is asked of the caller at once
	digest              time.Duration // what a server is told before a call, it has so long to take in
	sweep               time.Duration // between looks at what has waited too long
	look                time.Duration // between looks at whether a program hangs
	quiet               time.Duration // one that has been silent for so long while a call waited is asked whether it is there
	stopped             int           // one that somebody has stopped hangs, if it is so in as many looks in a row
}

var usualPace = pace{
	backoff: 100 * time.Millisecond, maxBackoff: 10 * time.Second, settled: 30 * time.Second, useful: 100 * time.Millisecond,
	patience: 10 * time.Second, hopeless: 2 * time.Second, gather: 20 * time.Millisecond, digest: 100 * time.Millisecond, sweep: time.Second,
	starved: 200 * time.Millisecond, look: time.Second, quiet: 2 * time.Second, stopped: 3,
}

// A Client is one MCP server. It implements bridge.Handler.
type Client struct {
	o      Options
	log    zerolog.Logger
	panics contain.Panics
	url    *url.URL
	http   *http.Client
	pace   pace
	info   *pb.Implementation

	deafness rate.Sometimes // paces what is logged of it
	retries  bridge.RetryBudget

	// ctx ends when Run is to; everything that outlives a call is derived from it.
	ctx    context.Context
	cancel context.CancelFunc
	// work are the goroutines that outlive a call.
	work sync.WaitGroup
	// spawn passes what starts a program to the thread that lives as long as they do.
	spawn chan func()
	// launch starts the program; tests have another one.
	launch func(*peer) error

	live atomic.Pointer[life] // the same as state.life, for those in a hurry
	// calls and listening are how many calls and subscriptions are going on.
	calls, listening atomic.Int64
	params           paramTable
	lot              lot
	pool             pool
	eras             eras
	isTwin           bool // this is the twin of another Client

	mu    sync.Mutex // guards the rest
	state state
	era   era  // what is remembered of the server
	over  bool // nothing more is begun in the background
}

var _ bridge.Handler = (*Client)(nil)

// A life of a server is the time from its first answer to its loss.
type life struct {
	// peer is what calls are sent to whose callers have no capabilities, and in the modern era all calls.
	peer *peer
	// known is what the server says it is. It is not changed, but replaced.
	known  atomic.Pointer[pb.DiscoverResponse]
	asking atomic.Bool  // somebody asks what it is now
	called atomic.Bool  // it has answered a call
	came   atomic.Int64 // when it said what it is, in nanoseconds of the Unix epoch
	until  atomic.Int64 // when that is to be asked again

	once sync.Once
	gone chan struct{} // closed at its loss
}

// newLife returns the life of a server that says that it is d.
func newLife(p *peer, d *pb.DiscoverResponse) *life {
	l := &life{peer: p, gone: make(chan struct{})}
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
func (l *life) learn(d *pb.DiscoverResponse) {
	ttl := unsaid
	if d.TtlMs != nil {
		ttl = time.Duration(min(max(d.GetTtlMs(), 0), maxKnown.Milliseconds())) * time.Millisecond
	}
	now := time.Now()
	l.known.Store(proto.CloneOf(d)) // and not the text that it came in
	l.came.Store(now.UnixNano())
	l.until.Store(now.Add(ttl).UnixNano())
}

// tell returns what the server says it is, for a caller that may change it: with what is left of the time for which that is true.
func (l *life) tell() *pb.DiscoverResponse {
	d := proto.CloneOf(l.known.Load())
	if d.GetTtlMs() > 0 {
		age := (time.Now().UnixNano() - l.came.Load()) / int64(time.Millisecond)
		d.TtlMs = proto.Int64(max(d.GetTtlMs()-max(age, 0), 0))
	}
	return d
}

// over reports whether the server has to be found again.
func (l *life) over() bool {
	select {
	case <-l.gone:
		return true
	default:
		return l.peer.isGone()
	}
}

// end makes it known that the life is over: the server is to be found again.
func (l *life) end() { l.once.Do(func() { close(l.gone) }) }

// state is what there is to know while there is no life.
type state struct {
	life    *life
	down    time.Time     // since when there has been none
	retryAt time.Time     // when the next start is, if it is not going on now
	lived   bool          // there has been one
	starts  bool          // while there is no life, a program is started, and the last one did not fail to start
	ended   bool          // there will be none any more
	err     error         // why, if that is not because Run's context ended; or why the last start failed
	changed chan struct{} // closed when any of this changes
}

// deaf logs that the server does not take what it is answered. One that asks without end and does not read is not logged without end.
func (c *Client) deaf() {
	c.deafness.Do(func() { c.log.Warn().Msg("the server does not take what it is answered; some of it is left out") })
}

// New returns the Client that o describes. It starts nothing.
func New(o Options) (*Client, error) {
	c := &Client{o: o.withDefaults(), pace: usualPace, info: o.ClientInfo, deafness: rate.Sometimes{First: 1, Interval: time.Minute}}
	c.state = state{down: time.Now(), starts: len(o.Command) > 0, changed: make(chan struct{})}
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
	case o.StartTimeout < 0 || o.StopTimeout < 0 || o.ProbeTimeout < 0 || o.CallTimeout < 0 || o.MaxMessage < 0 ||
		o.HangTimeout < 0 || o.MaxCalls < 0 || o.MaxSessions < 0 || o.SessionIdle < 0 || o.ParkTTL < 0 || o.AskTimeout < 0 ||
		o.Limits.Memory < 0 || o.Limits.Processes < 0 || o.Limits.Files < 0:
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
	c.panics.Log = c.log
	c.pool = pool{c: c, idle: map[string][]*peer{}, deserted: map[string][]*opening{}, changed: make(chan struct{})}
	c.lot = lot{c: c, cars: map[string]*parked{}}
	c.eras.created = make(chan struct{})
	return c, nil
}

// errStopped is what Ready returns when Run has ended because it was told to.
var errStopped = errors.New("the server has been stopped")

// Ready waits until the server has answered. It returns an error if Run has returned, or ctx ends, before.
func (c *Client) Ready(ctx context.Context) error {
	for {
		s := c.look()
		switch {
		case s.life != nil:
			return nil
		case s.ended && s.err != nil:
			return s.err
		case s.ended:
			return errStopped
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			if s.err != nil {
				return s.err
			}
			return fmt.Errorf("server %q: waiting until it answers: %w", c.o.Name, ctx.Err())
		}
	}
}

// Started waits while the program that serves clients of an era starts, and returns nil when it answers or its start has failed. It returns
// an error if ctx ends before. A server that is reached by a URL does not start.
func (c *Client) Started(ctx context.Context, era bridge.Era) error {
	for {
		s := c.look()
		switch {
		case s.life != nil && s.life.peer.rev().Modern() && era == bridge.LegacyEra:
			if t, err := c.getTwin(s.life); t != nil && err == nil {
				return t.Started(ctx, era)
			}
			return nil
		case s.life != nil || !s.starting(&c.pace):
			return nil
		}
		select {
		case <-s.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// starting reports whether a program starts, or is about to: a call waits for it, however long that takes.
func (s *state) starting(p *pace) bool {
	return s.starts && !s.ended && time.Until(s.retryAt) <= p.hopeless
}

// look returns the state as it is now.
func (c *Client) look() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// change changes the state and tells everybody who waits.
func (c *Client) change(f func(*state)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.state)
	c.live.Store(c.state.life)
	close(c.state.changed)
	c.state.changed = make(chan struct{})
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
	err := c.keep()
	c.cancel()
	c.change(func(s *state) { s.ended, s.life, s.err = true, nil, err })
	c.lot.empty()
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

// keep finds the server, again and again.
func (c *Client) keep() error {
	delay := c.pace.backoff
	for first, starved := true, false; c.ctx.Err() == nil; first = false {
		began := time.Now()
		l, err := c.connect(c.ctx)
		again := starved
		shortage := child.ShortageOf(err)
		starved = shortage != nil
		switch {
		case err != nil && c.ctx.Err() != nil:
			return nil //nolint:nilerr // it was told to end
		case err != nil && (first && (c.url == nil || c.isTwin) || c.isTwin && refusesInitialize(err)):
			return err
		case starved:
			c.change(func(s *state) { s.err, s.starts = err, false })
			if !again {
				c.log.Error().Err(err).Str("fix", shortage.Fix).Msgf("the server is not reached, because the bridge has no %s left", shortage.Resource)
			}
			c.pause(c.pace.starved) // that says nothing of the server
			continue
		case err != nil:
			c.log.Error().Err(err).Msg("the server does not answer")
			c.change(func(s *state) { s.err, s.starts = err, false })
		default:
			c.log.Info().Stringer("revision", l.peer.rev()).Dur("took", time.Since(began)).Msg("the server is ready")
			ready := time.Now()
			if !l.peer.rev().Modern() {
				c.endTwin()
			}
			c.change(func(s *state) { s.life, s.lived, s.retryAt, s.err = l, true, time.Time{}, nil })
			select {
			case <-l.gone:
			case <-l.peer.gone:
				l.end()
			case <-c.ctx.Done():
			}
			c.change(func(s *state) { s.life, s.down, s.starts = nil, time.Now(), c.url == nil })
			l.end()
			if c.ctx.Err() == nil {
				c.log.Warn().AnErr("why", l.peer.why()).Dur("lived", time.Since(began)).Msg("the server was lost")
			}
			if c.ctx.Err() != nil {
				l.peer.close()
				return nil //nolint:nilerr // err is nil here
			}
			if l.peer.isGone() {
				l.peer.close()
			} else {
				c.background(l.peer.leave)
			}
			if c.wanted(l, began, ready) {
				delay = c.pace.backoff
				continue
			}
			if c.url != nil {
				delay = c.pace.backoff // it has just answered: if it is unwell, then not so that it has to be spared
			}
		}
		if time.Since(began) >= c.pace.settled {
			delay = c.pace.backoff
		}
		c.pause(delay/2 + rand.N(delay/2+1))
		delay = min(2*delay, c.pace.maxBackoff)
	}
	return nil
}

// wanted reports whether a server that was lost is wanted back at once: a session that has ended is no sign that a server is unwell,
// and a program that was of use is missed. One that began at that time was ready then.
func (c *Client) wanted(l *life, began, ready time.Time) bool {
	if c.url != nil {
		return time.Since(began) > c.pace.backoff
	}
	return l.called.Load() && time.Since(ready) >= c.pace.useful && !errors.Is(l.peer.why(), errTrash)
}

// pause waits for d, and lets calls know when the next start is.
func (c *Client) pause(d time.Duration) {
	c.change(func(s *state) { s.retryAt = time.Now().Add(d) })
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ctx.Done():
	}
	c.change(func(s *state) { s.retryAt = time.Time{} })
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
	c.lot.sweep(now)
	c.pool.sweep(now)
}

// discovery returns what the server says it is. Whoever wants to know it while it is being asked is told what it was.
func (c *Client) discovery(ctx context.Context, l *life) *bridge.Result {
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
