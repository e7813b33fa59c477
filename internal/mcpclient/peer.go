package mcpclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// The keys of `_meta` that MCP itself uses, and the methods that are ours and the server's own business.
const (
	metaProgressToken  = "progressToken"
	metaVersion        = bridge.MetaVersion
	metaCapabilities   = bridge.MetaCapabilities
	metaClientInfo     = bridge.MetaClientInfo
	metaLogLevel       = bridge.MetaLogLevel
	metaServerInfo     = bridge.MetaServerInfo
	metaSubscriptionID = bridge.MetaSubscriptionID

	methodInitialize  = "initialize"
	methodSetLevel    = "logging/setLevel"
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"

	notifyProgress    = "notifications/progress"
	notifyMessage     = "notifications/message"
	notifyCancelled   = "notifications/cancelled"
	methodRoots       = "roots/list"
	notifyInitialized = "notifications/initialized"
)

// The JSON-RPC codes that decide about more than the error itself.
const (
	codeInvalidRequest     = -32600
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeInternal           = -32603
	codeRefused            = -1
	codeHeaderMismatch     = -32020
	codeUnsupportedVersion = -32022
)

// A wire carries messages to a server, and gives its peer what comes back. Its methods may be called concurrently.
type wire interface {
	// start sends the request of x. What comes of it is put into x. It does not wait.
	start(x *exchange)
	// stop tells the server that nobody wants the answer of x any more, which has been started. It does not wait.
	stop(x *exchange)
	// notify sends a message that has no response before any request that is started later.
	notify(ctx context.Context, msg []byte) error
	// open begins to listen to what the server says besides its answers, once the session has begun. It returns when
	// the server is heard, or when that cannot be known; or ctx has ended.
	open(ctx context.Context)
	// close ends the connection, and returns when nothing is left of it.
	close()
}

// A peer is a server as one connection sees it: a session in the legacy era, or nothing but a way to it in the modern.
type peer struct {
	c    *Client
	wire wire
	out  *outbox // the wire's, for messages that have no response
	// revision is what is spoken, as far as that is known.
	revision atomic.Uint32
	// can is what the server has been told that its client can do, in the legacy era.
	can *pb.ClientCapabilities
	tenancy
	subs subscriptions
	ids  atomic.Int64

	mu      sync.Mutex // guards the rest
	running map[string]*exchange
	orphans map[string]orphan // by their ids
	held    []jsonrpc.Message // what the server has asked and only the next call can be asked
	shutdown
	logging
	refusals
}

// A tenancy says whose calls a peer is used for. The pool sets it.
type tenancy struct {
	// key identifies those who can have the session, if not everybody can.
	key string
	// exclusive says that one call at a time has the peer to itself, and owner whose call that is.
	exclusive bool
	owner     string
	// anonymous says that the peer is used for a caller of whom nothing is known, and informed that the server has
	// learned something from it.
	anonymous, informed bool
	// began is when its session was begun, and idle since when nobody uses it.
	began, idle time.Time
}

// A shutdown is how far a peer is from its end. The peer's lock guards leaving and reason.
type shutdown struct {
	leaving bool          // no exchange begins any more
	drained chan struct{} // closed when the peer is leaving and has no exchange any more
	drain   func()        // closes drained
	reason  error         // why the server was lost
	gone    chan struct{} // closed when the server cannot be reached by it any more
	lost    sync.Once
	closed  sync.Once
}

// A logging is what a server of the legacy era logs. The peer's lock guards the levels.
type logging struct {
	logs   bool        // the server has log messages
	level  pb.LogLevel // what the server has set
	wanted pb.LogLevel // what it is to set, if that is less severe
}

// refusals bound what is answered and logged of requests and notifications that no call gets. The peer's lock guards
// them.
type refusals struct {
	refused int       // how many requests were refused in this second
	second  int64     // of the Unix epoch
	ignored time.Time // when it was last logged that something was ignored
}

func (c *Client) newPeer() *peer {
	drained := make(chan struct{})
	return &peer{
		c: c,
		shutdown: shutdown{
			gone: make(chan struct{}), drained: drained, drain: sync.OnceFunc(func() { close(drained) }),
		},
		running: map[string]*exchange{}, orphans: map[string]orphan{}, can: &pb.ClientCapabilities{},
	}
}

func (p *peer) rev() bridge.Revision { return bridge.Revision(p.revision.Load()) }

func (p *peer) setRev(r bridge.Revision) { p.revision.Store(uint32(r)) }

// keep runs a loop of the connection. A bug in it is the end of the connection, and not of the bridge.
func (p *peer) keep(loop func()) {
	defer p.c.panics.Recover("the connection to the server", func(e *bridge.Error) { p.lose(e) })
	loop()
}

// lose says that the server cannot be reached any more. Whoever waits learns it.
func (p *peer) lose(err error) {
	p.shutdown.lost.Do(func() {
		p.mu.Lock()
		p.reason = err
		running := make([]*exchange, 0, len(p.running))
		for _, x := range p.running {
			running = append(running, x)
		}
		p.mu.Unlock()
		close(p.gone)
		for _, x := range running {
			x.fail(&lost{err: err})
			x.cancel()
		}
	})
}

// isGone reports whether the peer has been lost.
func (p *peer) isGone() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// why says why the peer was lost.
func (p *peer) why() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reason
}

// expire has the peer left, whose session the server does not know any more: it may still answer what it was asked
// there.
func (p *peer) expire() {
	if l := p.c.super.Live(); l != nil && l.peer == p {
		l.end() // whoever keeps it leaves it
		return
	}
	p.c.background(p.leave)
}

// isOver reports whether the peer has been lost, or is to be left: nothing more is begun.
func (p *peer) isOver() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leaving || p.reason != nil
}

// leave closes the peer once nobody uses it any more: what is wrong with it for one call need not be for another.
func (p *peer) leave(ctx context.Context) {
	p.mu.Lock()
	p.leaving = true
	if len(p.running) == 0 {
		p.drain()
	}
	p.mu.Unlock()
	select {
	case <-p.drained:
	case <-p.gone:
	case <-ctx.Done():
	}
	p.close()
}

// close ends the connection, and returns when nothing is left of it.
func (p *peer) close() {
	p.closed.Do(func() {
		defer p.c.panics.Recover("closing a connection to the server", nil)
		p.lose(errClosed)
		if p.wire != nil {
			p.wire.close()
		}
	})
}

var errClosed = errors.New("the connection was closed")

// A lost is why an exchange has no answer: the connection broke or could not be made, or the server said so by a status
// alone.
type lost struct {
	err error
	// answered says that err is what the server has answered, by a status that no other field is about.
	answered bool
	// gateway says that it was a gateway that has answered, behind which the server may be at work.
	gateway bool
	// refused says that the server does not take the request, by the status of its response.
	refused bool
	// forgot says that the status is the one of a session that is not known, which proves that the request was not
	// executed.
	forgot bool
	// renew says that the server is to be found again: what is known of it does not fit any more.
	renew bool
	// unanswered says that the server has not got an answer that it waits for, of which err says why.
	unanswered bool
}

func (l *lost) Error() string { return l.err.Error() }

func (l *lost) Unwrap() error { return l.err }

// A use says what a request is for, as far as what the server says besides the answer depends on it.
type use struct {
	// canAsk says that the caller can be asked: what the server asks belongs to this exchange.
	canAsk bool
	// logs says that the caller wants log messages.
	logs bool
	// listens says that it is a subscription, which is told what changes.
	listens bool
	// owner is whose call it is, or empty if that is not known.
	owner string
}

// begin returns an exchange for a request, which is yet to be given a body and to be started.
func (p *peer) begin(method string, u use) (*exchange, error) {
	x := &exchange{
		p: p, id: strconv.FormatInt(p.ids.Add(1), 10), method: method, use: u, progress: noProgress,
		inbox: inbox{ready: make(chan struct{}, 1), room: make(chan struct{}, 1)},
	}
	x.ctx, x.cancel = context.WithCancel(p.c.ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.leaving || p.reason != nil {
		x.cancel()
		return nil, &lost{err: cmp.Or(p.reason, errClosed)}
	}
	p.running[x.id] = x
	return x, nil
}

// start sends the request of an exchange.
func (p *peer) start(x *exchange) {
	x.move(idle, inFlight)
	p.wire.start(x)
}

// end forgets an exchange. If it has not been answered, the server is told that nobody waits any more.
func (p *peer) end(x *exchange) {
	p.mu.Lock()
	delete(p.running, x.id)
	if p.leaving && len(p.running) == 0 {
		p.drain()
	}
	was := x.abandon(nil)
	refused := was == failed && isRefusal(x.failure())
	if x.sent.settle() && !was.isAnswered() && !refused {
		p.orphan(x)
	}
	p.mu.Unlock()
	if was != idle && !was.isAnswered() && !p.isGone() {
		p.wire.stop(x)
	}
	if was != answered {
		x.cancel()
	}
}

// An orphan is a call that was given up and that the server may still work at.
type orphan struct {
	owner string // as in use
	since time.Time
}

// maxOrphans is how many calls that were given up are told apart.
const maxOrphans = 1024

// orphan keeps in mind that the server may still work at a call that was given up, and say something about it. An
// exclusive peer is not used again after that. The caller holds mu.
func (p *peer) orphan(x *exchange) {
	if call := x.each != nil && !x.listens; !call || p.exclusive {
		return
	}
	id, owner := x.id, x.owner
	if len(p.orphans) >= maxOrphans {
		maps.DeleteFunc(p.orphans, func(_ string, s orphan) bool { return p.isOld(s) })
	}
	if len(p.orphans) >= maxOrphans {
		id, owner = "", "" // which no answer has: it stands for all that there is no room for, whosever they are
	}
	p.orphans[id] = orphan{owner, time.Now()}
}

// hasOrphans reports whether the server may still work at a call that was given up and that is not the owner's, as far
// as is known: it has not answered it, and no call takes as long. The caller holds mu.
func (p *peer) hasOrphans(owner string) bool {
	for id, s := range p.orphans {
		switch {
		case p.isOld(s):
			delete(p.orphans, id)
		case owner == "" || s.owner != owner:
			return true
		}
	}
	return false
}

// isOld reports whether no call takes as long as an orphan is ago.
func (p *peer) isOld(s orphan) bool { return time.Since(s.since) >= p.c.o.Limits.CallTotal }

// do makes a request of our own and returns the response, which may be an error.
func (p *peer) do(ctx context.Context, method string, params []byte) (*jsonrpc.Message, error) {
	x, err := p.begin(method, use{})
	if err != nil {
		return nil, err
	}
	defer p.end(x)
	x.body = jsonrpc.AppendRequest(nil, []byte(x.id), method, params)
	p.start(x)
	return x.await(ctx)
}

// setLevel has a legacy server log what a caller wants to see. The level is the session's, so it only ever grows; what
// is less severe than a caller wants is dropped here.
func (p *peer) setLevel(ctx context.Context, level pb.LogLevel) error {
	p.mu.Lock()
	enough := level == pb.LogLevel_LOG_LEVEL_UNSPECIFIED || p.level != pb.LogLevel_LOG_LEVEL_UNSPECIFIED && p.level <= level
	if !enough && (p.wanted == pb.LogLevel_LOG_LEVEL_UNSPECIFIED || level < p.wanted) {
		p.wanted = level
	}
	level = p.wanted // which somebody else may be telling the server just now
	p.mu.Unlock()
	if enough {
		return nil
	}
	msg, err := p.do(ctx, methodSetLevel, []byte(`{"level":"`+levelName(level)+`"}`))
	if err != nil {
		return err
	}
	if msg.Error != nil {
		p.c.log.Debug().Str("error", rawjson.ShortenTo(msg.Error.GetMessage(), 500)).Msg("the server does not take a log level")
	}
	p.mu.Lock()
	p.level = level
	p.mu.Unlock()
	return nil
}

// asError says what a server answered to a request of our own.
func asError(method string, m *jsonrpc.Message) error { return &refusal{method, m.Error} }

// A refusal is the error that a server answers a request of our own with.
type refusal struct {
	method string
	rpc    *pb.JsonRpcError
}

func (r *refusal) Error() string {
	return fmt.Sprintf("%s: the server answers with error %d: %s", r.method, r.rpc.GetCode(), rawjson.ShortenTo(r.rpc.GetMessage(), 500))
}

// isModern reports whether only a server of the modern era says so.
func (r *refusal) isModern() bool {
	switch r.rpc.GetCode() {
	case codeHeaderMismatch, bridge.CodeMissingCapability:
		return true
	case codeUnsupportedVersion:
		modern, _ := supportedBy(r.rpc)
		return modern
	}
	return false
}
