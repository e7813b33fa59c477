package mcpclient

import "testing"

// A request that waits when the server is lost is not sent any more, for its caller makes it again, and none whose
// caller was told that it was not; what has no answer still is.
func TestQueuedCallsAreNotSentAfterDisconnect(t *testing.T) {
	gone, here := &peer{shutdown: shutdown{gone: make(chan struct{})}},
		&peer{shutdown: shutdown{gone: make(chan struct{})}}
	close(gone.gone)
	left := &exchange{p: here}
	if left.sent.settle() {
		t.Error("what nobody has sent was sent")
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
