package bridge

import (
	"crypto/sha256"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// An Audience identifies the callers that see the same lists. Scopes limit what a principal sees, and servers
// before 2026-07-28 may show more tools to clients with more capabilities.
type Audience struct {
	// Version is the revision of the calls.
	Version string

	authenticated           bool
	issuer, subject, scopes string
	capabilities            fingerprint
}

// AudienceOf returns the caller's audience.
func AudienceOf(cc *pb.CallContext) Audience {
	v := cc.GetVerified()
	p := v.GetPrincipal()
	return Audience{
		Version: v.GetProtocolVersion(), authenticated: p != nil, issuer: p.GetIssuer(), subject: p.GetSubject(),
		scopes: strings.Join(p.GetScopes(), " "), capabilities: fingerprintOf(cc.GetClientCapabilities()),
	}
}

// A fingerprint identifies capabilities by their encoding, or if that is long, by its hash.
type fingerprint struct {
	size int
	text [sha256.Size]byte
}

// fingerprintOf is called for every call, and does not allocate.
func fingerprintOf(capabilities *pb.ClientCapabilities) fingerprint {
	buf := encodingBuffers.Get().(*[]byte)
	defer encodingBuffers.Put(buf)
	text, _ := proto.MarshalOptions{Deterministic: true}.MarshalAppend(*buf, capabilities) // cannot fail
	f := fingerprint{size: len(text)}
	if f.size > len(f.text) {
		f.text = sha256.Sum256(text)
	} else {
		copy(f.text[:], text)
	}
	return f
}

var encodingBuffers = sync.Pool{New: func() any {
	buf := make([]byte, 0, 256)
	return &buf
}}
