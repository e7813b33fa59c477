package mcpserver

import (
	"bytes"
	"net/http"
	"sync"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
)

// postBatch handles several messages in one POST, which only clients of the first two revisions may send (2025-03-26:
// basic, batching).
func (s *Server) postBatch(w http.ResponseWriter, r *http.Request, body []byte, modern bool) {
	if isSSEPost(r) {
		texts, err := jsonrpc.ParseBatch(body, &s.opts.Limits)
		if err == nil {
			_, err = s.sortBatch(texts, bridge.Rev20241105)
		}
		if err != nil {
			rejectMalformed(w, modern, err) // not on the stream, where it would not refer to a request
			return
		}
		s.postSSE(w, r, body)
		return
	}
	if modern {
		rejectMalformed(w, modern, errBatch)
		return
	}
	ss := s.sessionOf(w, r)
	if ss == nil {
		return
	}
	if !ss.rev.AllowsBatches() {
		rejectMalformed(w, modern, errBatch)
		return
	}
	texts, err := jsonrpc.ParseBatch(body, &s.opts.Limits)
	if err != nil {
		rejectMalformed(w, modern, err)
		return
	}
	b, err := s.sortBatch(texts, ss.rev)
	if err != nil {
		rejectMalformed(w, modern, err)
		return
	}
	for i := range b.responses {
		ss.handleResponse(&b.responses[i])
	}
	for i := range b.notifications {
		ss.handleNotification(&b.notifications[i])
	}
	if len(b.requests) == 0 && len(b.refused) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	ss.serveBatch(w, r, b.requests, b.refused)
}

// A sortedBatch has the messages of a batch by kind.
type sortedBatch struct {
	requests, notifications, responses []jsonrpc.Message
	// refused are the error responses for invalid messages.
	refused [][]byte
}

// sortBatch sorts the messages of a batch. It rejects a batch with both responses and requests, or with two requests of
// the same id.
func (s *Server) sortBatch(texts [][]byte, rev bridge.Revision) (*sortedBatch, error) {
	b := &sortedBatch{}
	ids := map[string]bool{}
	for _, text := range texts {
		msg, err := jsonrpc.Parse(text, &s.opts.Limits)
		switch {
		case err != nil:
			e := asParseError(err)
			if e.OfNotification() {
				continue
			}
			b.refused = append(b.refused, jsonrpc.AppendError(nil, e.ID, e.RPC, rev.OmitsUnknownErrorID()))
		case msg.IsResponse():
			b.responses = append(b.responses, msg)
		case msg.IsNotification():
			b.notifications = append(b.notifications, msg)
		case ids[string(jsonrpc.Key(msg.ID))]:
			return nil, &jsonrpc.Error{RPC: invalidRequest("the batch has two requests with id " + string(msg.ID))}
		default:
			ids[string(jsonrpc.Key(msg.ID))] = true
			b.requests = append(b.requests, msg)
		}
	}
	if len(b.responses) > 0 && len(b.requests) > 0 {
		return nil, &jsonrpc.Error{RPC: invalidRequest("the batch has both requests and responses: send them apart")}
	}
	return b, nil
}

// serveBatch handles the requests of a batch concurrently. The responses are one JSON array, unless another message
// must be sent before they are complete: then each is an event of a stream.
func (ss *session) serveBatch(w http.ResponseWriter, r *http.Request, requests []jsonrpc.Message, answers [][]byte) {
	out := ss.reply(w)
	out.start()
	defer out.stop()
	b := &batch{out: out, answers: answers}
	var wg sync.WaitGroup
	for i := range requests {
		wg.Go(func() {
			ctx, to, done, err := ss.begin(&requests[i], batchSink{b})
			if err != nil {
				ss.s.refuse(ss.rev, &requests[i], batchSink{b}, err)
				return
			}
			defer done()
			ss.request(ctx, &requests[i], ss.s.origin(r), to)
		})
	}
	wg.Wait()
	out.finishBatch(b.answers)
}

// A batch collects the responses to several requests.
type batch struct {
	out     *reply
	mu      sync.Mutex
	answers [][]byte
}

// batchSink receives the messages for one request of a batch.
type batchSink struct{ b *batch }

func (o batchSink) send(msg []byte) error { return o.b.out.send(msg) }

func (o batchSink) finish(_ head, msg []byte) {
	if msg == nil {
		return
	}
	o.b.mu.Lock()
	defer o.b.mu.Unlock()
	o.b.answers = append(o.b.answers, msg)
}

// finishBatch ends the HTTP response with all responses.
func (r *reply) finishBatch(answers [][]byte) {
	r.mu.Lock()
	stream := r.stream
	r.mu.Unlock()
	if !stream && len(answers) > 0 {
		r.finish(head{}, array(answers))
		return
	}
	for len(answers) > 1 {
		_ = r.send(answers[0]) // a legacy stream keeps unsent messages
		answers = answers[1:]
	}
	if len(answers) == 1 {
		r.finish(head{}, answers[0])
		return
	}
	r.finish(head{}, nil)
}

// array returns messages as one JSON array.
func array(msgs [][]byte) []byte {
	out := append([]byte{'['}, bytes.Join(msgs, []byte{','})...)
	return append(out, ']')
}
