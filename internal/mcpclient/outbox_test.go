package mcpclient

import "testing"

// When the connection is lost, queued requests are not sent any more: their callers retry them, or were told that they
// were not executed. Other queued messages are still sent.
func TestQueuedCallsAreNotSentAfterDisconnect(t *testing.T) {
	gone, here := &peer{shutdown: shutdown{gone: make(chan struct{})}},
		&peer{shutdown: shutdown{gone: make(chan struct{})}}
	close(gone.gone)
	left := &exchange{p: here}
	if left.sent.settle() {
		t.Error("settle reported an unqueued request as sent")
	}
	var sent []string
	o := newOutbox(func(m outgoing) error { sent = append(sent, string(m.msg)); return nil }, func(error) {}, func() {})
	o.add(outgoing{msg: []byte("lost"), x: &exchange{p: gone}})
	o.add(outgoing{msg: []byte("left"), x: left})
	o.add(outgoing{msg: []byte("told")})
	o.add(outgoing{msg: []byte("asked"), x: &exchange{p: here}})
	o.close()
	o.run()
	if len(sent) != 2 || sent[0] != "told" || sent[1] != "asked" {
		t.Errorf("sent %q", sent)
	}
}
