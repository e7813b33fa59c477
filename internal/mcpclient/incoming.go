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
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// receive handles a text from the server: a message, or in 2025-03-26 a batch of independent ones (JSON-RPC 2.0, 6).
// via is the exchange of the stream, or nil if the stream is not for one exchange. receive returns an error for an
// invalid message, unless it was a response whose exchange failed with that error.
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

// receiveAll receives events until the stream ends. The error reports why.
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

// receiveOne handles a message. An invalid response ends its exchange.
func (p *peer) receiveOne(text []byte, via *exchange) error {
	msg, err := jsonrpc.Parse(text, &p.c.o.Limits)
	if err == nil {
		p.dispatch(&msg, via)
		return nil
	}
	if rawjson.Get(text, "method") != nil {
		return err
	}
	x := p.exchangeOf(rawjson.Get(text, "id"), via)
	if x == nil {
		return err
	}
	x.fail(p.c.protocolViolation("responded with invalid MCP: %v", err))
	return nil
}

// dispatch passes a message to its receiver.
func (p *peer) dispatch(m *jsonrpc.Message, via *exchange) {
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
			delete(p.canceled, string(m.ID)) // the call may have been canceled meanwhile
			p.mu.Unlock()
		}
	case m.IsRequest():
		p.handleRequest(m, via)
	default:
		p.handleNotification(m, via)
	}
}

// exchangeOf returns the exchange with the id, or nil. On the stream of an exchange it can only be that exchange:
// responses to others are not trusted there.
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

// exclusiveCall returns the call that uses the peer exclusively, or nil.
func (p *peer) exclusiveCall() *exchange {
	if !p.exclusive {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.running {
		if x.acceptsRequests {
			return x
		}
	}
	return nil
}

// logReceiver returns the call that may receive a log message without a reference to a call, or nil. It is the only
// call that the server can be executing, apart from canceled ones of the same owner.
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
	if only == nil || !only.logs || p.hasCanceledOfOthers(only.owner) {
		return nil
	}
	return only
}

// handleRequest handles a request of the server. Only a call that uses the peer exclusively receives it: over stdio, a
// request does not refer to its call.
func (p *peer) handleRequest(m *jsonrpc.Message, via *exchange) {
	if p.rev().Modern() {
		p.logIgnored("a request", m) // 2026-07-28: servers send no requests, and clients no responses
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
	if x != nil && x.acceptsRequests && isInputMethod(m.Method) && x.put(m) || p.store(m) {
		return
	}
	p.refuse(m)
}

// store stores a request that arrives between calls, for the next call: servers request the roots when a session
// starts. It returns false for all other requests.
func (p *peer) store(m *jsonrpc.Message) bool {
	if !p.exclusive || m.Method != methodRoots || p.clientCapabilities.GetRoots() == nil {
		return false
	}
	p.mu.Lock()
	size := len(m.Params)
	for i := range p.stored {
		size += len(p.stored[i].Params)
	}
	fits := p.fits(len(p.stored), size)
	if fits {
		p.stored = append(p.stored, retainedCopy(m))
	}
	p.mu.Unlock()
	if !fits {
		p.rejectExcess(m)
	}
	return true
}

// takeStored removes and returns the stored requests.
func (p *peer) takeStored() []jsonrpc.Message {
	p.mu.Lock()
	defer p.mu.Unlock()
	stored := p.stored
	p.stored = nil
	return stored
}

func isInputMethod(method string) bool {
	return method == "elicitation/create" || method == "sampling/createMessage" || method == methodRoots
}

// fits reports whether one more pending request is allowed, for a total of size bytes.
func (p *peer) fits(waiting, size int) bool {
	return waiting < limits.ServerRequests && size <= p.c.o.Limits.Message
}

// rejectExcess rejects a request above these limits.
func (p *peer) rejectExcess(m *jsonrpc.Message) {
	p.answerError(m.ID, codeInternal, fmt.Sprintf(
		"%s: too many pending requests: at most %d with %d bytes in total are allowed; try again "+
			"after some responses",
		m.Method, limits.ServerRequests, p.c.o.Limits.Message))
}

// refuse rejects a request to which no caller can respond: between the calls of a session there is no caller.
func (p *peer) refuse(m *jsonrpc.Message) {
	p.mu.Lock()
	if now := time.Now().Unix(); now != p.refusalSecond {
		p.refusalSecond, p.refused = now, 0
	}
	p.refused++
	flood := p.refused > limits.ServerRefusals
	p.mu.Unlock()
	if flood {
		p.logIgnored("too many requests", m)
		return
	}
	switch {
	case m.Method == methodRoots && p.clientCapabilities.GetRoots() != nil:
		p.out.post(jsonrpc.AppendResult(nil, m.ID, []byte(`{"roots":[]}`)), nil)
	case m.Method == "elicitation/create" && p.clientCapabilities.GetElicitation() != nil:
		p.out.post(jsonrpc.AppendResult(nil, m.ID, []byte(`{"action":"cancel"}`)), nil)
	case m.Method == "sampling/createMessage" && p.clientCapabilities.GetSampling() != nil:
		p.answerError(m.ID, codeRefused, "no caller can answer: no call is in flight")
	default:
		p.answerError(m.ID, codeMethodNotFound, "this client does not have "+rawjson.Shorten(m.Method))
	}
}

// answerError responds to a request of the server with an error.
func (p *peer) answerError(id []byte, code int32, message string) {
	p.out.post(jsonrpc.AppendError(nil, id, &pb.JsonRpcError{Code: code, Message: message}, false), nil)
}

// logIgnored logs an ignored message, at a limited rate.
func (p *peer) logIgnored(what string, m *jsonrpc.Message) {
	p.mu.Lock()
	now := time.Now()
	quiet := now.Sub(p.refusals.ignored) < time.Second
	if !quiet {
		p.refusals.ignored = now
	}
	p.mu.Unlock()
	if !quiet {
		p.c.log.Debug().Str("method", rawjson.Shorten(m.Method)).Bytes("id", m.ID).
			Msg("ignored " + what + " of the server")
	}
}

// handleNotification handles a notification of the server.
func (p *peer) handleNotification(m *jsonrpc.Message, via *exchange) {
	x := via
	switch m.Method {
	case notifyProgress:
		x = p.ofProgress(rawjson.Get(m.Params, metaProgressToken), via)
	case notifyMessage:
		if x == nil {
			x = p.exclusiveCall()
		}
		if x == nil {
			x = p.logReceiver()
		}
		if x == nil {
			p.logMessage(m)
			return
		}
	case notifyCancelled:
		if x == nil {
			p.removeCanceled(m)
			x = p.exchangeOf(rawjson.Get(m.Params, "requestId"), nil)
		}
		if x == nil {
			x = p.exclusiveCall()
		}
	default:
		if !p.rev().Modern() {
			p.reportChange(m)
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
	case !x.put(m) && x.listens: // the connection is shared: a slow caller must not block the others
		x.fail(&lostError{err: errBehind})
	}
}

// removeCanceled removes a canceled request of the server that was not passed on yet.
func (p *peer) removeCanceled(m *jsonrpc.Message) {
	id := jsonrpc.Key(rawjson.Get(m.Params, "requestId"))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stored = slices.DeleteFunc(p.stored, func(h jsonrpc.Message) bool { return bytes.Equal(jsonrpc.Key(h.ID), id) })
}

// reportChange reports a change to the listeners of the shared session. All sessions of an HTTP server report the same
// changes, so those of other sessions are ignored, except the completion of a URL elicitation. Separate programs may
// have separate lists, so the changes of all of them are reported.
func (p *peer) reportChange(m *jsonrpc.Message) {
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

// logMessage logs a log message that no call may receive.
func (p *peer) logMessage(m *jsonrpc.Message) {
	var l pb.LogMessage
	if err := mcpjson.Unmarshal(m.Params, &l, p.rev()); err != nil {
		return
	}
	p.c.log.Debug().Str("stream", "notifications").Stringer("level", l.GetLevel()).Str("logger", l.GetLogger()).
		Str("data", rawjson.ShortenTo(l.GetData(), 8<<10)).Msg("log message of the server")
}
