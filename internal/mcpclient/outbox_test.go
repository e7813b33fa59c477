package mcpclient

import (
	"errors"
	"slices"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/jsonrpc"
)

// When the connection is lost, queued requests are not sent any more: their callers retry them, or have an error with
// the outcome not_executed. Other queued messages are still sent.
func TestQueuedCallsAreNotSentAfterDisconnect(t *testing.T) {
	closed, open := &peer{shutdown: shutdown{done: make(chan struct{})}},
		&peer{shutdown: shutdown{done: make(chan struct{})}}
	close(closed.done)
	left := &exchange{p: open}
	if left.sent.settle() {
		t.Error("settle reported an unqueued request as sent")
	}
	var sent []string
	o := newOutbox(func(m outgoing) error { sent = append(sent, string(m.msg)); return nil }, func(error) {}, func() {})
	o.add(outgoing{msg: []byte("request of a lost peer"), x: &exchange{p: closed}})
	o.add(outgoing{msg: []byte("canceled request"), x: left})
	o.add(outgoing{msg: []byte("notification")})
	o.add(outgoing{msg: []byte("request"), x: &exchange{p: open}})
	o.close()
	o.run()
	if len(sent) != 2 || sent[0] != "notification" || sent[1] != "request" {
		t.Errorf("sent %q", sent)
	}
}

// A program that has exited may have written progress and the response before. If the response counts, all progress
// before it does.
func TestProgressBeforeALateResponseIsDelivered(t *testing.T) {
	var got []string
	x := &exchange{each: func(m *jsonrpc.Message) error {
		got = append(got, string(m.Params))
		return nil
	}}
	x.state, x.ready, x.room = inFlight, make(chan struct{}, 1), make(chan struct{}, 1)
	x.put(&jsonrpc.Message{Method: "notifications/progress", Params: []byte("1")})
	x.fail(errors.New("the program exited"))
	x.put(&jsonrpc.Message{Method: "notifications/progress", Params: []byte("2")})
	x.put(&jsonrpc.Message{ID: []byte("7"), Result: []byte("{}")})
	m, err := x.deliver()
	if err != nil || m == nil || string(m.ID) != "7" || !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("got progress %q, response %v, %v", got, m, err)
	}
}
