package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
	"github.com/mcpbridge/mcpbridge/internal/limit"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcphttp"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// ServeHTTP implements http.Handler for the MCP endpoint: Streamable HTTP of all its revisions, and the HTTP+SSE of
// 2024-11-05 for a client that opens the endpoint with a GET and without a session. A mcphttp.Guard in front of it
// handles CORS and DNS rebinding.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 {
		w = http2Writer{w}
	}
	modern := isModern(r.Header)
	if !modern { // otherwise the response to the request reports it
		if why := checkRepeated(r.Header); why != "" {
			refuse(w, http.StatusBadRequest, why)
			return
		}
	}
	switch r.Method {
	case http.MethodPost:
	case http.MethodGet:
		s.get(w, r, modern)
		return
	case http.MethodDelete:
		s.delete(w, r, modern)
		return
	default:
		notAllowed(w, "the MCP endpoint supports POST, GET and DELETE")
		return
	}
	var msg jsonrpc.Message
	defer s.panics.Recover("a message", func(e *bridge.Error) { rejectPanic(w, msg.ID, e) })
	reserved, body, ok := s.receive(w, r)
	defer s.opts.Memory.ReleaseBody(reserved)
	if !ok {
		return
	}
	if jsonrpc.IsBatch(body) {
		s.postBatch(w, r, body, modern)
		return
	}
	var err error
	if msg, err = jsonrpc.Parse(body, &s.opts.Limits); err != nil {
		rejectMalformed(w, modern, err)
		return
	}
	switch sse := isSSEPost(r); {
	case modern || !sse && rawjson.Get(msg.Meta, metaVersion) != nil:
		if out := s.modernReply(w, r, &msg); out != nil {
			defer out.stop()
			s.modern(r.Context(), &msg, s.origin(r), out)
		}
	case sse: // also a client that tries server/discover first, and falls back to initialize
		s.postSSE(w, r, body)
	case msg.Method == "initialize" && msg.IsRequest() &&
		s.session(r.Header.Get(mcphttp.HeaderSession), s.origin(r)) == nil:
		s.postInitialize(w, r, &msg)
	default:
		ss, out := s.legacyReply(w, r, &msg)
		if out == nil {
			return
		}
		defer out.stop()
		ctx, to, done, err := ss.begin(&msg, out)
		if err != nil {
			s.refuse(ss.rev, &msg, out, err)
			return
		}
		if out.interrupted != nil {
			out.runUntilInterrupted(func() {
				defer done()
				ss.request(ctx, &msg, s.origin(r), to)
			})
			return
		}
		defer done()
		ss.request(ctx, &msg, s.origin(r), to)
	}
}

// refuse responds with an error without a request id.
func refuse(w http.ResponseWriter, status int, why string) {
	refuseFor(w, status, invalidRequest(why))
}

func refuseFor(w http.ResponseWriter, status int, why *pb.JsonRpcError) {
	body := jsonrpc.AppendError(nil, nil, why, true)
	w.Header()["Content-Type"] = contentTypeJSON
	w.WriteHeader(status)
	_ = writeBody(w, body, limits.RefusalTimeout) // a write error does not matter
}

func notAllowed(w http.ResponseWriter, why string) {
	w.Header().Set("Allow", "POST, GET, DELETE")
	mcphttp.Refuse(w, http.StatusMethodNotAllowed, why)
}

// isModern reports whether a header has a modern revision.
func isModern(h http.Header) bool {
	return slices.ContainsFunc(h[mcphttp.HeaderVersion], func(v string) bool {
		rev, ok := bridge.ParseRevision(v)
		return ok && rev.Modern()
	})
}

// checkRepeated returns an error text if an MCP header is repeated, because intermediaries may read another of its
// values than the server. Otherwise it returns "".
func checkRepeated(h http.Header) string {
	for name, v := range h {
		if len(v) > 1 && (strings.HasPrefix(name, "Mcp-") || name == mcphttp.HeaderLastEvent) {
			return "header " + rawjson.Shorten(name) + " occurs " + strconv.Itoa(len(v)) + " times: send it once"
		}
	}
	return ""
}

func isRevision(name string) bool {
	_, ok := bridge.ParseRevision(name)
	return ok
}

// receive returns the body of a POST: one message, or a batch. If ok is false, receive has rejected the request. In any
// case the caller must release taken bytes of Memory.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) (reserved int64, body []byte, ok bool) {
	if status, why := checkMedia(r); why != "" {
		mcphttp.Refuse(w, status, why)
		return 0, nil, false
	}
	if why := s.checkPassHeaders(r.Header); why != "" {
		mcphttp.Refuse(w, http.StatusBadRequest, why)
		return 0, nil, false
	}
	if err := s.admitUnread(r); err != nil {
		s.refuseUnread(w, r, err)
		return 0, nil, false
	}
	reserved, body, err := s.readBody(w, r)
	if err == nil {
		return reserved, body, true
	}
	if bridge.AsError(err).Reason == bridge.ReasonOverloaded {
		s.opts.Memory.ReleaseBody(reserved)
		s.refuseUnread(w, r, err)
		return 0, nil, false
	}
	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
		mcphttp.Refuse(w, http.StatusRequestEntityTooLarge,
			"the request body exceeds "+strconv.FormatInt(tooLong.Limit, 10)+
				" bytes (limits.body): send less, or raise the limit")
	} else {
		s.refuseBody(w, err)
	}
	return reserved, nil, false
}

// rejectMalformed responds to an invalid message.
func rejectMalformed(w http.ResponseWriter, modern bool, err error) {
	e := asParseError(err)
	status := http.StatusBadRequest
	if e.RPC.GetCode() == codeInvalidParams && !modern && !e.OfNotification() {
		status = http.StatusOK // it is a request, and legacy clients treat another status as the end of the connection
	}
	w.Header()["Content-Type"] = contentTypeJSON
	w.WriteHeader(status)
	body := jsonrpc.AppendError(nil, e.ID, e.RPC, true)
	_ = writeBody(w, body, limits.RefusalTimeout) // a write error does not matter
}

// rejectPanic responds to a request whose handler panicked before its response.
func rejectPanic(w http.ResponseWriter, id []byte, e *bridge.Error) {
	w.Header()["Content-Type"] = contentTypeJSON
	w.WriteHeader(http.StatusOK) // several clients treat another status as the end of the connection
	body := jsonrpc.AppendError(nil, id, e.JSONRPC(bridge.LatestLegacy, nil), true)
	_ = writeBody(w, body, limits.RefusalTimeout) // a write error does not matter
}

func asParseError(err error) *jsonrpc.Error {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e
	}
	why := err.Error()
	return &jsonrpc.Error{RPC: invalidRequest(why)}
}

// checkMedia returns the status and the error text for the media types of a POST, or "". The client must accept both
// forms of a response (2025-03-26 to 2026-07-28: basic/transports, sending messages to the server); in HTTP+SSE the
// response has no body.
func checkMedia(r *http.Request) (status int, why string) {
	h := r.Header
	if v := h.Values("Content-Type"); len(v) != 1 || !isMedia(v[0], mcphttp.JSON) {
		return http.StatusUnsupportedMediaType, "Content-Type must be " + mcphttp.JSON
	}
	if enc := strings.Join(h["Content-Encoding"], ", "); enc != "" && !strings.EqualFold(enc, "identity") {
		return http.StatusUnsupportedMediaType,
			"Content-Encoding " + strconv.Quote(enc) + " is not supported: send the body as it is"
	}
	if !isSSEPost(r) && (len(h["Accept"]) == 0 || !accepts(h, mcphttp.JSON) || !accepts(h, mcphttp.EventStream)) {
		return http.StatusBadRequest, "Accept must have both " + mcphttp.JSON + " and " + mcphttp.EventStream
	}
	return 0, ""
}

func isMedia(value, want string) bool {
	if value == want {
		return true
	}
	media, params, err := mime.ParseMediaType(value)
	if err != nil || media != want || !mcphttp.IsText(value) { // mime reads İ as i
		return false
	}
	charset, ok := params["charset"]
	return !ok || strings.EqualFold(charset, "utf-8")
}

// accepts reports whether the Accept header allows the media type. Without the header every type is allowed. If several
// ranges match, the most specific one counts (RFC 9110, 12.5.1).
func accepts(h http.Header, media string) bool {
	values := h["Accept"]
	if len(values) == 0 {
		return true
	}
	class, _, _ := strings.Cut(media, "/")
	best, ok := 0, false
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			name, params, _ := strings.Cut(part, ";")
			precedence := 0
			switch strings.ToLower(strings.TrimSpace(name)) {
			case media:
				precedence = 3
			case class + "/*":
				precedence = 2
			case "*/*":
				precedence = 1
			}
			if precedence > 0 && precedence >= best {
				ok = !hasZeroWeight(params) || precedence == best && ok
				best = precedence
			}
		}
	}
	return ok
}

// hasZeroWeight reports whether the parameters of a media range exclude it: q=0, or 0.0 and so on.
func hasZeroWeight(params string) bool {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(param, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			value = strings.TrimSpace(value)
			return strings.HasPrefix(value, "0") && strings.Trim(value, "0.") == ""
		}
	}
	return false
}

// admitUnread returns an error if memory is low and the request can be rejected before its body is read: its Mcp-Method
// header (since 2026-07-28) names a call, or its body is long. Another message may be the response or the cancellation
// that a call waits for, so it is read; if it is a call, the handler rejects it.
func (s *Server) admitUnread(r *http.Request) error {
	if r.ContentLength >= 0 && r.ContentLength <= maxInitialBuffer &&
		bridge.MethodByName(r.Header.Get(mcphttp.HeaderMethod)) == nil {
		return nil
	}
	return s.opts.Memory.Admit(limit.NewCalls)
}

// readBody returns the body of a request, and how many bytes of Memory the caller must release. The client must send
// the body in time. The buffer grows as the body arrives, whatever its Content-Length.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (reserved int64, body []byte, err error) {
	n := r.ContentLength
	if n > int64(s.opts.Limits.Body) {
		return 0, nil, &http.MaxBytesError{Limit: int64(s.opts.Limits.Body)}
	}
	rc := http.NewResponseController(w)
	timed := &timedBody{ReadCloser: r.Body, rc: rc, start: time.Now(), opts: &s.opts}
	var from io.ReadCloser = timed
	if err := timed.wait(); err != nil {
		return 0, nil, err
	}
	switch {
	case n > maxInitialBuffer:
		if err := s.opts.Memory.ReserveBody(n); err != nil {
			return 0, nil, err
		}
		reserved = n
	case n < 0:
		long := &longBody{ReadCloser: from, memory: s.opts.Memory}
		from = long
		defer func() {
			if reserved = long.reserved; reserved <= maxInitialBuffer { // as with a Content-Length
				s.opts.Memory.ReleaseBody(reserved)
				reserved = 0
			}
		}()
	}
	body, err = s.readAll(w, from, n)
	if clearErr := rc.SetReadDeadline(time.Time{}); err == nil && !errors.Is(clearErr, http.ErrNotSupported) {
		err = clearErr
	}
	return reserved, body, err
}

// A timedBody is a body with a minimum rate: a client that sends a byte per second would occupy a connection and
// memory.
type timedBody struct {
	io.ReadCloser
	rc    *http.ResponseController
	start time.Time
	opts  *Options
	n     int64
}

// wait sets the deadline for more data, which depends on the number of received bytes.
func (b *timedBody) wait() error {
	within := min(limits.BodyGrace+time.Duration(b.n)*time.Second/time.Duration(b.opts.Limits.BodyRate),
		b.opts.Limits.BodyTime)
	if err := b.rc.SetReadDeadline(b.start.Add(within)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	if b.n > 0 {
		if err := b.wait(); err != nil {
			return 0, err
		}
	}
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	return n, err
}

// refuseBody responds to a request whose body could not be read.
func (s *Server) refuseBody(w http.ResponseWriter, err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		mcphttp.Refuse(w, http.StatusRequestTimeout,
			fmt.Sprintf("the request body did not arrive in time: start sending at once, send %d bytes per second "+
				"or more "+
				"after 5 s, and finish within %s",
				s.opts.Limits.BodyRate, s.opts.Limits.BodyTime))
		return
	}
	mcphttp.Refuse(w, http.StatusBadRequest, "cannot read the request body: "+err.Error())
}

// refuseUnread rejects a request with an unread body, and discards the rest: a client that is still sending when the
// connection ends does not read the response. With Expect: 100-continue, reading would request the body.
func (s *Server) refuseUnread(w http.ResponseWriter, r *http.Request, err error) {
	if r.Header.Get("Expect") == "" {
		rc := http.NewResponseController(w)
		_ = rc.SetReadDeadline(time.Now().Add(s.opts.Limits.BodyTime)) // it fails without a connection
		// a client that does not send the rest does not read the response either
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, int64(s.opts.Limits.Body)))
		_ = rc.SetReadDeadline(time.Time{})
	}
	refuseFull(w, err)
}

// maxInitialBuffer is the maximum size of the initial buffer for a body. Longer bodies are reserved in Memory, and so
// are bodies without a Content-Length while they are read.
const maxInitialBuffer = 128 << 10

// A longBody is a body without a Content-Length. It reserves memory for the bytes that are read.
type longBody struct {
	io.ReadCloser
	memory   *limit.Memory
	reserved int64
}

// Read implements io.Reader.
func (b *longBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if full := b.memory.ReserveBody(int64(n)); full != nil {
		return 0, full // callers could ignore an error that comes with bytes
	}
	b.reserved += int64(n)
	return n, err
}

func (s *Server) readAll(w http.ResponseWriter, from io.ReadCloser, n int64) ([]byte, error) {
	if n < 0 {
		return io.ReadAll(http.MaxBytesReader(w, from, int64(s.opts.Limits.Body)))
	}
	body := make([]byte, 0, min(n, maxInitialBuffer))
	for int64(len(body)) < n {
		// Doubling the buffer copies, in total, at most as many bytes as the body has.
		body = slices.Grow(body, int(min(n-int64(len(body)), max(int64(len(body)), maxInitialBuffer))))
		part := body[len(body):min(int64(cap(body)), n)]
		got, err := io.ReadFull(from, part)
		body = body[:len(body)+got]
		if err != nil {
			return nil, err
		}
	}
	return body, nil
}

const (
	// maxGetBody is the maximum size of the body of a GET, in bytes.
	maxGetBody = 4 << 10
)

// modernReply returns the response to a modern request, which the caller must stop. If the message is not a request,
// modernReply responds and returns nil.
func (s *Server) modernReply(w http.ResponseWriter, r *http.Request, msg *jsonrpc.Message) *reply {
	switch {
	case msg.IsResponse():
		refuse(w, http.StatusBadRequest,
			"since 2026-07-28 clients send no responses: repeat the request with inputResponses")
	case msg.IsNotification() && bridge.MethodByName(msg.Method) != nil:
		refuse(w, http.StatusBadRequest, msg.Method+" without an id is a notification: send it with an id")
	case msg.IsNotification():
		w.WriteHeader(http.StatusAccepted)
	default:
		out := s.reply(w)
		out.server = hijackable(r)
		out.start()
		return out
	}
	return nil
}

// reply returns the response to a POST without a session.
func (s *Server) reply(w http.ResponseWriter) *reply {
	return &reply{s: s, w: w}
}

// postInitialize starts a session.
func (s *Server) postInitialize(w http.ResponseWriter, r *http.Request, msg *jsonrpc.Message) {
	// The revision is not negotiated yet, but the header must be valid (2025-06-18: basic/transports, protocol version
	// header).
	if v := r.Header[mcphttp.HeaderVersion]; len(v) > 0 && !isRevision(v[0]) {
		refuse(w, http.StatusBadRequest, mcphttp.HeaderVersion+" is "+strconv.Quote(rawjson.Shorten(v[0]))+
			", which is not a revision: omit it from initialize")
		return
	}
	if err := s.opts.Memory.Admit(limit.NewSessions); err != nil {
		refuseFull(w, err)
		return
	}
	out := s.reply(w)
	out.start()
	defer out.stop()

	ss, result, err := s.initialize(r.Context(), msg, s.origin(r))
	if err != nil {
		x := &exchange{s: s, rev: bridge.LatestLegacy, id: msg.ID, out: out}
		x.refuse(nil, err)
		return
	}
	ss.network = networkOf(r)
	if err = s.newSession(ss); err != nil {
		ss.cancel(err)
		refuseFull(w, err)
		return
	}
	_, _ = ss.listen() // changes from now on are kept until the client opens a stream
	w.Header().Set(mcphttp.HeaderSession, ss.id)
	out.finish(head{}, jsonrpc.AppendResult(nil, msg.ID, result))
}

// legacyReply returns the session of a request and its response, which the caller must stop. If the message is not a
// request, or the session does not exist, it responds and returns no response.
func (s *Server) legacyReply(w http.ResponseWriter, r *http.Request, msg *jsonrpc.Message) (*session, *reply) {
	ss := s.sessionOf(w, r)
	switch {
	case ss == nil:
	case msg.IsResponse():
		ss.handleResponse(msg) // late responses are dropped
		w.WriteHeader(http.StatusAccepted)
	case msg.IsNotification():
		ss.handleNotification(msg)
		w.WriteHeader(http.StatusAccepted)
	default:
		out := ss.reply(w)
		if ss.rev.PrimesSSE() {
			out.pollAfter = s.opts.PollAfter
		}
		out.start()
		return ss, out
	}
	return nil, nil
}

// reply returns the response to a POST of the session.
func (ss *session) reply(w http.ResponseWriter) *reply {
	r := ss.s.reply(w)
	r.open, r.prime = ss.newLog, ss.rev.PrimesSSE()
	return r
}

// sessionOf returns the session of a request. If there is none, it responds with an error.
func (s *Server) sessionOf(w http.ResponseWriter, r *http.Request) *session {
	id := r.Header.Get(mcphttp.HeaderSession)
	if id == "" {
		refuse(w, http.StatusBadRequest,
			"header "+mcphttp.HeaderSession+" is missing: send initialize first, and then the header of its response")
		return nil
	}
	ss := s.session(id, s.origin(r))
	if ss == nil {
		refuse(w, http.StatusNotFound,
			"there is no such session: it has ended, or the bridge has restarted; send initialize again")
		return nil
	}
	// Any supported revision is accepted (2025-06-18: basic/transports, protocol version header): some clients send
	// their latest one. The session's own revision applies nevertheless, and modern requests do not get here.
	if v := r.Header[mcphttp.HeaderVersion]; len(v) > 0 && !isRevision(v[0]) {
		refuse(w, http.StatusBadRequest, mcphttp.HeaderVersion+" is "+strconv.Quote(rawjson.Shorten(v[0]))+
			", but the session's revision is "+ss.rev.String()+": send that one")
		return nil
	}
	return ss
}

// delete ends a session.
func (s *Server) delete(w http.ResponseWriter, r *http.Request, modern bool) {
	if modern {
		notAllowed(w, "since 2026-07-28 there are no sessions to end")
		return
	}
	if ss := s.sessionOf(w, r); ss != nil {
		s.endSession(ss.id)
		w.WriteHeader(http.StatusNoContent)
	}
}

// get opens the standalone stream, or the stream of HTTP+SSE, or resumes a stream if the request has a Last-Event-ID.
func (s *Server) get(w http.ResponseWriter, r *http.Request, modern bool) {
	switch {
	case modern:
		notAllowed(w, "since 2026-07-28 there are no streams to open: use subscriptions/listen")
		return
	case !accepts(r.Header, mcphttp.EventStream):
		refuse(w, http.StatusNotAcceptable, "Accept must have "+mcphttp.EventStream)
		return
	}
	// A body has no meaning. It is read to its end, because a stream has no read timeout that would limit the rest.
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxGetBody)); err != nil {
		s.refuseBody(w, err)
		return
	}
	var end cleanup
	defer func() { end.run() }() // what a hijacked stream has not taken over
	done, err := s.opts.Streams.Open(s.origin(r).principal)
	if err != nil {
		refuseFull(w, err)
		return
	}
	end.add(done)
	if r.Header.Get(mcphttp.HeaderSession) == "" && r.Header.Get(mcphttp.HeaderVersion) == "" {
		s.serveSSE(w, r, &end)
		return
	}
	ss := s.sessionOf(w, r)
	if ss == nil {
		return
	}
	if done, err = ss.streams.Open(nil); err != nil {
		refuseFull(w, err)
		return
	}
	end.add(done)
	last := r.Header.Get(mcphttp.HeaderLastEvent)
	if last == "" {
		ss.openStandalone(w, r, &end)
		return
	}
	l, n := ss.resumable(last)
	if l == nil {
		refuseFor(w, http.StatusBadRequest, errEventsDropped(last)) // 404 would mean that the session has ended
		return
	}
	if l.id != standaloneID { // it ends with the response, and the client can reuse its connection
		if beginStream(w, s.opts.Limits.WriteTime) == nil {
			ss.copyLog(r.Context(), w, l, n+1)
		}
		return
	}
	end.add(ss.attach(l.push))
	ss.respondStandalone(w, r, &end, l, n+1)
}

// openStandalone opens the standalone stream. There is at most one: a message is sent on exactly one stream (2025-03-26
// to 2025-11-25: basic/transports, multiple connections).
func (ss *session) openStandalone(w http.ResponseWriter, r *http.Request, end *cleanup) {
	l := ss.standaloneLog()
	detach := ss.attachIfFree(r.Context(), l.push)
	if detach == nil {
		refuse(w, http.StatusConflict,
			"the session has an open standalone stream: close it first, or resume it with Last-Event-ID")
		return
	}
	end.add(detach)
	ss.respondStandalone(w, r, end, l, l.firstUnsent())
}

// respondStandalone responds with the events of the standalone stream, from number n on, while the caller has access.
func (ss *session) respondStandalone(w http.ResponseWriter, r *http.Request, end *cleanup, l *eventLog, n int) {
	until := ss.s.accessExpiry(ss.s.origin(r).principal)
	ss.s.respondStream(w, r, end, func(ctx context.Context, w http.ResponseWriter) {
		expired, stop := ss.s.accessContext(until)
		defer stop()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(expired, cancel)()
		ss.copyLog(ctx, w, l, n)
	})
}

// copyLog writes the events of a log, from number n on, until it is complete, the client disconnects, or another
// response takes over.
func (ss *session) copyLog(ctx context.Context, w http.ResponseWriter, l *eventLog, n int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ss.ctx, cancel)()
	reader, leave := l.claimFrom(n)
	defer leave()
	for l.id != standaloneID || ctx.Err() == nil { // the rest of a call's events is still copied
		waitCtx, stop := context.WithTimeout(ctx, keepaliveEvery)
		events, more := l.wait(waitCtx, reader, n)
		idle := !more && waitCtx.Err() != nil && ctx.Err() == nil
		stop()
		switch {
		case idle:
			if writeStream(w, []byte(mcphttp.Comment), ss.s.opts.Limits.WriteTime) != nil {
				return
			}
			continue
		case !more:
			return
		}
		var out []byte
		from := n
		for _, msg := range events {
			if msg == nil {
				out = append(out, primingEvent(l, n)...)
			} else {
				out = mcphttp.AppendEvent(out, l.eventID(n), "", msg)
			}
			n++
		}
		if writeStream(w, out, ss.s.opts.Limits.WriteTime) != nil {
			l.markUnsent(from)
			return
		}
	}
}
