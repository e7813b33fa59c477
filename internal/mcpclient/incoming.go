package mcpclient

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/feed"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// receive takes a text that the server sent: a message, or in 2025-03-26 several, each of which is for itself (JSON-RPC
// 2.0, 6). Via is the exchange whose stream it came on, or nil where everything comes on one. The error is about what
// is no message, if nobody who waits was told.
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

// receiveAll receives what comes as events until there are no more. The error says why.
func (p *peer) receiveAll(events *eventReader) error {
	for {
		data, err := events.message()
		if err != nil {
			return err
		}
		if err := p.receive(data, nil); err != nil {
			p.c.log.Debug().Err(err).Msg("ignored an event that is not MCP")
		}
	}
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
	x := p.exchangeOf(rawjson.Get(text, "id"), via)
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
		x := p.exchangeOf(m.ID, via)
		switch {
		case via != nil && x != nil:
			x.putOwn(m)
		case x != nil:
			x.put(m)
		}
		if via == nil {
			p.mu.Lock()
			delete(p.orphans, string(m.ID)) // it may have been given up since
			p.mu.Unlock()
		}
	case m.IsRequest():
		p.requested(m, via)
	default:
		p.notified(m, via)
	}
}

// exchangeOf returns the exchange with the given id. On a stream of its own no other can be meant: who answers there to
// the id of another request must not be believed.
func (p *peer) exchangeOf(id []byte, via *exchange) *exchange {
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

// exclusiveCall returns the call that has the peer to itself, if there is one.
func (p *peer) exclusiveCall() *exchange {
	if !p.exclusive {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.running {
		if x.canAsk {
			return x
		}
	}
	return nil
}

// logReceiver returns the call that a log message without any sign of whose it is may be shown to: the only one that
// the server can be at work at, but for those that its caller has given up.
func (p *peer) logReceiver() *exchange {
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
	if only == nil || !only.logs || p.hasOrphans(only.owner) {
		return nil
	}
	return only
}

// requested takes a request of the server. Only the call that has the peer to itself is asked; over stdio nothing says
// which call a request is about.
func (p *peer) requested(m *jsonrpc.Message, via *exchange) {
	if p.rev().Modern() {
		p.ignored("a request", m) // 2026-07-28: servers never send any, and clients never responses
		return
	}
	if m.Method == "ping" {
		p.out.post(jsonrpc.AppendResult(nil, m.ID, nil), nil)
		return
	}
	x := via
	if x == nil {
		x = p.exclusiveCall()
	}
	if x != nil && x.canAsk && askable(m.Method) && x.put(m) || p.hold(m) {
		return
	}
	p.refuse(m)
}

// hold keeps what is not about a call, so that the next one is asked before it is sent: servers ask for the roots when
// a session begins. It reports false for what no call can be asked.
func (p *peer) hold(m *jsonrpc.Message) bool {
	if !p.exclusive || m.Method != methodRoots || p.can.GetRoots() == nil {
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

// takeHeld returns what was held, and forgets it.
func (p *peer) takeHeld() []jsonrpc.Message {
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

// refuse answers a request that nobody can be asked: a session has a client that can do what it was told in initialize,
// but between calls there is nobody there.
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
		p.out.post(jsonrpc.AppendResult(nil, m.ID, []byte(`{"roots":[]}`)), nil)
	case m.Method == "elicitation/create" && p.can.GetElicitation() != nil:
		p.out.post(jsonrpc.AppendResult(nil, m.ID, []byte(`{"action":"cancel"}`)), nil)
	case m.Method == "sampling/createMessage" && p.can.GetSampling() != nil:
		p.answerError(m.ID, codeRefused, "nobody is there to be asked: no call is going on")
	default:
		p.answerError(m.ID, codeMethodNotFound, "this client does not have "+rawjson.Shorten(m.Method))
	}
}

// answerError answers a request of the server with an error.
func (p *peer) answerError(id []byte, code int64, message string) {
	p.out.post(jsonrpc.AppendError(nil, id, &pb.JsonRpcError{Code: code, Message: &message}, false), nil)
}

// ignored logs what is ignored, but not each time.
func (p *peer) ignored(what string, m *jsonrpc.Message) {
	p.mu.Lock()
	now := time.Now()
	quiet := now.Sub(p.refusals.ignored) < time.Second
	if !quiet {
		p.refusals.ignored = now
	}
	p.mu.Unlock()
	if !quiet {
		p.c.log.Debug().Str("method", rawjson.Shorten(m.Method)).Bytes("id", m.ID).Msg("ignored " + what + " of the server")
	}
}

// notified takes a notification of the server.
func (p *peer) notified(m *jsonrpc.Message, via *exchange) {
	x := via
	switch m.Method {
	case notifyProgress:
		x = p.exchangeOf(rawjson.Get(m.Params, metaProgressToken), via)
	case notifyMessage:
		if x == nil {
			x = p.exclusiveCall()
		}
		if x == nil {
			x = p.logReceiver()
		}
		if x == nil {
			p.logged(m)
			return
		}
	case notifyCancelled:
		if x == nil {
			p.withdrawn(m)
			x = p.exchangeOf(rawjson.Get(m.Params, "requestId"), nil)
		}
		if x == nil {
			x = p.exclusiveCall()
		}
	default:
		if !p.rev().Modern() {
			p.changed(m)
			return
		}
		if x == nil {
			x = p.exchangeOf(rawjson.Get(m.Meta, metaSubscriptionID), nil)
		}
		if x != nil && !x.listens {
			return
		}
	}
	switch {
	case x == nil:
	case via != nil:
		x.putOwn(m)
	case !x.put(m) && x.listens: // others share the connection, and must not be kept waiting by one slow caller
		x.fail(&lost{err: errBehind})
	}
}

// withdrawn takes back what the server asked and nobody was asked yet.
func (p *peer) withdrawn(m *jsonrpc.Message) {
	id := jsonrpc.Key(rawjson.Get(m.Params, "requestId"))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = slices.DeleteFunc(p.held, func(h jsonrpc.Message) bool { return bytes.Equal(jsonrpc.Key(h.ID), id) })
}

// changed tells those who listen, who do so to the session that is nobody's in particular. Of the others, programs may
// each have lists of their own; the sessions of one HTTP server all say the same, except that a visit to a web page has
// ended.
func (p *peer) changed(m *jsonrpc.Message) {
	h := &p.subs
	if p.exclusive {
		l := p.c.super.Live()
		if l == nil || m.Method != feed.NotifyElicitation && p.c.url != nil {
			return
		}
		h = &l.peer.subs
	}
	h.report(m, p.rev())
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
