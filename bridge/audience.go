package bridge

import (
	"crypto/sha256"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// An Audience is callers for whom lists are the same. Scopes are part of it: they say what a principal may see. So are capabilities:
// servers before 2026-07-28, which are told once what their client can do, have other tools for those that can do more.
type Audience struct {
	// Version is the revision that they call in.
	Version string

	authenticated           bool
	issuer, subject, scopes string
	can                     fingerprint
}

// AudienceOf returns the audience that a caller is of.
func AudienceOf(cc *pb.CallContext) Audience {
	p := cc.GetPrincipal()
	return Audience{
		Version: cc.GetProtocolVersion(), authenticated: p != nil, issuer: p.GetIssuer(), subject: p.GetSubject(),
		scopes: strings.Join(p.GetScopes(), " "), can: fingerprintOf(cc.GetClientCapabilities()),
	}
}

// A fingerprint stands for capabilities: what they are in the contract, or if that is long, its hash.
type fingerprint struct {
	size int
	text [sha256.Size]byte
}

// fingerprintOf returns the fingerprint of capabilities. It is made for every call, so without allocations.
func fingerprintOf(can *pb.ClientCapabilities) fingerprint {
	buf := fingerprinting.Get().(*[]byte)
	defer fingerprinting.Put(buf)
	text, _ := proto.MarshalOptions{Deterministic: true}.MarshalAppend(*buf, can) // there is nothing in it that cannot be written
	f := fingerprint{size: len(text)}
	if f.size > len(f.text) {
		f.text = sha256.Sum256(text)
	} else {
		copy(f.text[:], text)
	}
	return f
}

// fingerprinting has buffers, which are empty, for capabilities of the usual length.
var fingerprinting = sync.Pool{New: func() any {
	buf := make([]byte, 0, 256)
	return &buf
}}
