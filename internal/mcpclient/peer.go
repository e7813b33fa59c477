package mcpclient

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
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

	notifyProgress      = "notifications/progress"
	notifyMessage       = "notifications/message"
	notifyCancelled     = "notifications/cancelled"
	methodRoots         = "roots/list"
	notifyInitialized   = "notifications/initialized"
	notifyAcknowledged  = "notifications/subscriptions/acknowledged"
	notifyElicitation   = "notifications/elicitation/complete"
	notifyUpdated       = "notifications/resources/updated"
	notifyToolsList     = "notifications/tools/list_changed"
	notifyPromptsList   = "notifications/prompts/list_changed"
	notifyResourcesList = "notifications/resources/list_changed"
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
	// tell sends a message that has no answer, or drops it if too many are waiting already. It does not wait.
	tell(msg []byte)
	// reply is tell for the answer to what the server has asked in the middle of x. If the server cannot get it, x fails: nothing more
	// may come of it.
	reply(x *exchange, msg []byte)
	// say sends a message that has no answer before any request that is started later.
	say(ctx context.Context, msg []byte) error
	// open begins to listen to what the server says besides its answers, once the session has begun. It returns when the server
	// is heard, or when that cannot be known; or ctx has ended.
	open(ctx context.Context)
	// close ends the connection, and returns when nothing is left of it.
	close()
}

// A peer is a server as one connection sees it: a session in the legacy era, or nothing but a way to it in the modern.
type peer struct {
	c    *Client
	wire wire
	// revision is what is spoken, as far as that is known.
	revision atomic.Uint32
	// can is what the server has been told that its client can do, in the legacy era.
	can *pb.ClientCapabilities
	// key says whose session it is, if it is somebody's.
	key string
	// owner says whose call it is lent for.
	owner string
	// lent says that one call at a time has the peer to itself.
	lent bool
	// nobodys says that the peer is lent to a caller of whom nothing is known, and told that the server has learned something from it.
	nobodys, told bool
	// logs says that the server has log messages, in the legacy era.
	logs bool
	hub  hub

	gone   chan struct{} // closed when the server cannot be reached by it any more
	once   sync.Once
	reason error
	closed sync.Once

	ids atomic.Int64
	// began is when its session was begun, and idle since when nobody uses it; for the pool.
	began, idle time.Time

	drained chan struct{} // closed when it is to be left and nobody uses it any more
	drain   func()        // closes drained

	mu       sync.Mutex // guards the rest
	running  map[string]*exchange
	strays   map[string]stray // by their ids
	leaving  bool
	level    pb.LogLevel       // what the server was told
	wanted   pb.LogLevel       // what it is to be told, if that is less severe
	held     []jsonrpc.Message // what the server has asked and only the next call can be asked
	refused  int               // how many of its requests were refused in this second
	second   int64
	listLogs time.Time // when it was last logged that something was ignored
}

func (c *Client) newPeer() *peer {
	drained := make(chan struct{})
	return &peer{
		c: c, gone: make(chan struct{}), drained: drained, drain: sync.OnceFunc(func() { close(drained) }),
		running: map[string]*exchange{}, strays: map[string]stray{}, can: &pb.ClientCapabilities{},
	}
}

func (p *peer) rev() bridge.Revision     { return bridge.Revision(p.revision.Load()) }
func (p *peer) setRev(r bridge.Revision) { p.revision.Store(uint32(r)) }

// keep runs a loop of the connection. A bug in it is the end of the connection, and not of the bridge.
func (p *peer) keep(loop func()) {
	defer p.c.panics.Recover("the connection to the server", func(e *bridge.Error) { p.lose(e) })
	loop()
}

// lose says that the server cannot be reached any more. Whoever waits learns it.
func (p *peer) lose(err error) {
	p.once.Do(func() {
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

// expire has the peer left, whose session the server does not know any more: it may still answer what it was asked there.
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

// A lost is why an exchange has no answer: the connection broke or could not be made, or the server said so by a status alone.
type lost struct {
	err error
	// answered says that err is what the server has answered, by a status that no other field is about.
	answered bool
	// gateway says that it was a gateway that has answered, behind which the server may be at work.
	gateway bool
	// refused says that the server does not take the request, by the status of its response.
	refused bool
	// forgot says that the status is the one of a session that is not known, which proves that the request was not executed.
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
	// mine says that the caller can be asked: what the server asks belongs to this exchange.
	mine bool
	// logs says that the caller wants log messages, and progresses that it wants progress.
	logs, progresses bool
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

// startCall is start for a goroutine that waits for the response until ctx ends. If all that the call wants comes in the response to its POST,
// this goroutine reads it: in the modern era there is no other way, and in the legacy era, that is so for a call without questions, logs and
// progress.
func (p *peer) startCall(ctx context.Context, x *exchange) {
	w, ok := p.wire.(*streamable)
	if !ok || !p.rev().Modern() && (x.mine || x.logs || x.progresses) {
		p.start(x)
		return
	}
	x.mu.Lock()
	x.direct = true
	x.mu.Unlock()
	x.move(idle, inFlight)
	defer context.AfterFunc(ctx, x.cancel)()
	w.post(x)
}

// end forgets an exchange. If it has not been answered, the server is told that nobody waits any more.
func (p *peer) end(x *exchange) {
	p.mu.Lock()
	delete(p.running, x.id)
	if p.leaving && len(p.running) == 0 {
		p.drain()
	}
	was := x.abandon(nil)
	if x.sent.settle() && !was.isAnswered() && !(was == failed && isRefusal(x.failure())) {
		p.stray(x)
	}
	p.mu.Unlock()
	if was != idle && !was.isAnswered() && !p.isGone() {
		p.wire.stop(x)
	}
	if was != answered {
		x.cancel()
	}
}

// A stray is a call that was given up and that the server may still work at.
type stray struct {
	owner string // as in use
	since time.Time
}

// maxStrays is how many calls that were given up are told apart.
const maxStrays = 1024

// stray keeps in mind that the server may still work at a call that was given up, and say something about it. A peer that is lent is not
// used again after that. The caller holds mu.
func (p *peer) stray(x *exchange) {
	if call := x.each != nil && !x.listens; !call || p.lent {
		return
	}
	id, owner := x.id, x.owner
	if len(p.strays) >= maxStrays {
		maps.DeleteFunc(p.strays, func(_ string, s stray) bool { return p.isOld(s) })
	}
	if len(p.strays) >= maxStrays {
		id, owner = "", "" // which no answer has: it stands for all that there is no room for, whosever they are
	}
	p.strays[id] = stray{owner, time.Now()}
}

// works reports whether the server may still work at a call that was given up and that is not the owner's, as far as is known: it has not
// answered it, and no call takes as long. The caller holds mu.
func (p *peer) works(owner string) bool {
	for id, s := range p.strays {
		switch {
		case p.isOld(s):
			delete(p.strays, id)
		case owner == "" || s.owner != owner:
			return true
		}
	}
	return false
}

// isOld reports whether no call takes as long as a stray is ago.
func (p *peer) isOld(s stray) bool { return time.Since(s.since) >= p.c.o.Limits.CallTotal }

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

// receive takes a text that the server sent: a message, or in 2025-03-26 several, each of which is for itself (JSON-RPC 2.0, 6). Via is
// the exchange whose stream it came on, or nil where everything comes on one. The error is about what is no message, if nobody who waits
// was told.
func (p *peer) receive(data []byte, via *exchange) error {
	if !jsonrpc.IsBatch(data) {
		return p.receiveOne(data, via)
	}
	var first error
	none := true
	for text := range rawjson.Elements(data) {
		err := p.receiveOne(text, via)
		first, none = cmp.Or(first, err), false
	}
	if none {
		return errors.New("a batch has at least one message")
	}
	return first
}

// receiveOne takes a message. If what is none was to be a response, nobody shall wait for another one.
func (p *peer) receiveOne(text []byte, via *exchange) error {
	msg, err := jsonrpc.Parse(text, &p.c.o.Limits)
	if err == nil {
		p.incoming(&msg, via)
		return nil
	}
	if rawjson.Get(text, "method") != nil {
		return err
	}
	x := p.whose(rawjson.Get(text, "id"), via)
	if x == nil {
		return err
	}
	x.fail(p.c.misbehaved("answered with what is not MCP: %v", err))
	return nil
}

// incoming passes a message on to those it is for.
func (p *peer) incoming(m *jsonrpc.Message, via *exchange) {
	switch {
	case m.IsResponse():
		x := p.whose(m.ID, via)
		switch {
		case via != nil && x != nil:
			x.putOwn(m)
		case x != nil:
			x.put(m)
		}
		if via == nil {
			p.mu.Lock()
			delete(p.strays, string(m.ID)) // it may have been given up since
			p.mu.Unlock()
		}
	case m.IsRequest():
		p.requested(m, via)
	default:
		p.noticed(m, via)
	}
}

// whose returns the exchange with the given id. On a stream of its own no other can be meant: who answers there to the id of
// another request must not be believed.
func (p *peer) whose(id []byte, via *exchange) *exchange {
	if via != nil {
		if string(id) == via.id {
			return via
		}
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running[string(id)]
}

// sole returns the call that has the peer to itself, if there is one.
func (p *peer) sole() *exchange {
	if !p.lent {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.running {
		if x.mine {
			return x
		}
	}
	return nil
}

// listenerOfLogs returns the call that a log message without any sign of whose it is may be shown to: the only one that the server can
// be at work at, but for those that its caller has given up.
func (p *peer) listenerOfLogs() *exchange {
	p.mu.Lock()
	defer p.mu.Unlock()
	var only *exchange
	for _, x := range p.running {
		if x.listens {
			continue
		}
		if only != nil {
			return nil
		}
		only = x
	}
	if only == nil || !only.logs || p.works(only.owner) {
		return nil
	}
	return only
}

// requested takes a request of the server. Only the call that has the peer to itself is asked; over stdio nothing says which
// call a request is about.
func (p *peer) requested(m *jsonrpc.Message, via *exchange) {
	if p.rev().Modern() {
		p.ignored("a request", m) // 2026-07-28: servers never send any, and clients never responses
		return
	}
	if m.Method == "ping" {
		p.wire.tell(jsonrpc.AppendResult(nil, m.ID, nil))
		return
	}
	x := via
	if x == nil {
		x = p.sole()
	}
	if x != nil && x.mine && askable(m.Method) && x.put(m) || p.hold(m) {
		return
	}
	p.refuse(m)
}

// hold keeps what is not about a call, so that the next one is asked before it is sent: servers ask for the roots when a session begins.
// It reports false for what no call can be asked.
func (p *peer) hold(m *jsonrpc.Message) bool {
	if !p.lent || m.Method != methodRoots || p.can.GetRoots() == nil {
		return false
	}
	p.mu.Lock()
	size := len(m.Params)
	for i := range p.held {
		size += len(p.held[i].Params)
	}
	fits := p.fits(len(p.held), size)
	if fits {
		p.held = append(p.held, kept(m))
	}
	p.mu.Unlock()
	if !fits {
		p.asksTooMuch(m)
	}
	return true
}

// unhold returns what was held, and forgets it.
func (p *peer) unhold() []jsonrpc.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := p.held
	p.held = nil
	return held
}

func askable(method string) bool {
	return method == "elicitation/create" || method == "sampling/createMessage" || method == methodRoots
}

// maxAsks is how much a server can ask at a time. All of that together has as many bytes as one message may have.
const maxAsks = 32

// fits reports whether one more request fits those that wait to be answered, so that they have size bytes.
func (p *peer) fits(waiting, size int) bool { return waiting < maxAsks && size <= p.c.o.Limits.Message }

// asksTooMuch answers a request that does not fit.
func (p *peer) asksTooMuch(m *jsonrpc.Message) {
	p.answerError(m.ID, codeInternal, fmt.Sprintf(
		"%s: too much is asked at once: %d requests of together %d bytes can wait for their answers; ask again when some are answered",
		m.Method, maxAsks, p.c.o.Limits.Message))
}

// maxRefusals is how many requests a second are answered by an error. A server that sends more gets no answer.
const maxRefusals = 10

// refuse answers a request that nobody can be asked: a session has a client that can do what it was told in initialize, but
// between calls there is nobody there.
func (p *peer) refuse(m *jsonrpc.Message) {
	p.mu.Lock()
	if now := time.Now().Unix(); now != p.second {
		p.second, p.refused = now, 0
	}
	p.refused++
	flood := p.refused > maxRefusals
	p.mu.Unlock()
	if flood {
		p.ignored("too many requests", m)
		return
	}
	switch {
	case m.Method == methodRoots && p.can.GetRoots() != nil:
		p.wire.tell(jsonrpc.AppendResult(nil, m.ID, []byte(`{"roots":[]}`)))
	case m.Method == "elicitation/create" && p.can.GetElicitation() != nil:
		p.wire.tell(jsonrpc.AppendResult(nil, m.ID, []byte(`{"action":"cancel"}`)))
	case m.Method == "sampling/createMessage" && p.can.GetSampling() != nil:
		p.answerError(m.ID, codeRefused, "nobody is there to be asked: no call is going on")
	default:
		p.answerError(m.ID, codeMethodNotFound, "this client does not have "+rawjson.Shorten(m.Method))
	}
}

// answerError answers a request of the server with an error.
func (p *peer) answerError(id []byte, code int64, message string) {
	p.wire.tell(jsonrpc.AppendError(nil, id, &pb.JsonRpcError{Code: code, Message: &message}, false))
}

// ignored logs what is ignored, but not each time.
func (p *peer) ignored(what string, m *jsonrpc.Message) {
	p.mu.Lock()
	now := time.Now()
	quiet := now.Sub(p.listLogs) < time.Second
	if !quiet {
		p.listLogs = now
	}
	p.mu.Unlock()
	if !quiet {
		p.c.log.Debug().Str("method", rawjson.Shorten(m.Method)).Bytes("id", m.ID).Msg("ignored " + what + " of the server")
	}
}

// noticed takes a notification of the server.
func (p *peer) noticed(m *jsonrpc.Message, via *exchange) {
	x := via
	switch m.Method {
	case notifyProgress:
		x = p.whose(rawjson.Get(m.Params, metaProgressToken), via)
	case notifyMessage:
		if x == nil {
			x = p.sole()
		}
		if x == nil {
			x = p.listenerOfLogs()
		}
		if x == nil {
			p.logged(m)
			return
		}
	case notifyCancelled:
		if x == nil {
			p.withdrawn(m)
			x = p.whose(rawjson.Get(m.Params, "requestId"), nil)
		}
		if x == nil {
			x = p.sole()
		}
	default:
		if !p.rev().Modern() {
			p.changed(m)
			return
		}
		if x == nil {
			x = p.whose(rawjson.Get(m.Meta, metaSubscriptionID), nil)
		}
		if x != nil && !x.listens {
			return
		}
	}
	switch {
	case x == nil:
	case via != nil:
		x.putOwn(m)
	default:
		x.putShared(m)
	}
}

// withdrawn takes back what the server asked and nobody was asked yet.
func (p *peer) withdrawn(m *jsonrpc.Message) {
	id := jsonrpc.Key(rawjson.Get(m.Params, "requestId"))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = slices.DeleteFunc(p.held, func(h jsonrpc.Message) bool { return bytes.Equal(jsonrpc.Key(h.ID), id) })
}

// changed tells those who listen, who do so to the session that is nobody's in particular. Of the others, programs may each
// have lists of their own; the sessions of one HTTP server all say the same, except that a visit to a web page has ended.
func (p *peer) changed(m *jsonrpc.Message) {
	h := &p.hub
	if p.lent {
		l := p.c.super.Live()
		if l == nil || m.Method != notifyElicitation && p.c.url != nil {
			return
		}
		h = &l.peer.hub
	}
	h.noticed(m, p.rev())
}

// logged logs what the server logs and no call can be shown.
func (p *peer) logged(m *jsonrpc.Message) {
	var l pb.LogMessage
	if err := mcpjson.Unmarshal(m.Params, &l, p.rev()); err != nil {
		return
	}
	p.c.log.Debug().Str("stream", "notifications").Stringer("level", l.GetLevel()).Str("logger", l.GetLogger()).
		Str("data", rawjson.ShortenTo(l.GetData(), 8<<10)).Msg("the server logs")
}

// setLevel has a legacy server log what a caller wants to see. The level is the session's, so it only ever grows; what is less
// severe than a caller wants is dropped here.
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
		modern, _ := supportedBy(r.rpc.GetData())
		return modern
	}
	return false
}
