// Package seal protects the state that a backend gives a client to bring back. Both fronts use it: a client must neither read
// nor change the state, whichever protocol it speaks, because backends rely on it.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	// MaxRounds bounds how often one call may ask.
	MaxRounds = 10
)

// A Sealer protects a backend's state on its way through the client, which must neither read nor change it (2026-07-28:
// basic/patterns/mrtr, requestState). What is sealed can be opened only together with the same principal, method, target
// and arguments, and only for a while. Replicas that share keys open what any of them sealed. It may be used concurrently.
type Sealer struct {
	// aeads are the keys: the first seals, all of them open.
	aeads []cipher.AEAD
	ids   [][keyIDLen]byte
	ttl   time.Duration
	most  int
	// whose is the backend whose state it is, where there are several.
	whose string
}

const (
	keyIDLen  = 4
	headerLen = 8 + 1 // when it ends, in Unix seconds, and the round
)

// New returns a Sealer with the given 32-byte keys, the first of which seals and all of which open, or with a key of its own if
// there are none. What it seals can be opened for ttl. A requestState has at most so many bytes.
func New(keys [][32]byte, ttl time.Duration, most int) *Sealer {
	if len(keys) == 0 {
		var key [32]byte
		rand.Read(key[:]) // never fails
		keys = [][32]byte{key}
	}
	s := &Sealer{ttl: ttl, most: most}
	for _, key := range keys {
		block, err := aes.NewCipher(key[:])
		if err != nil {
			panic(err) // a 32-byte key is always valid
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			panic(err) // so is AES in GCM
		}
		sum := sha256.Sum256(append([]byte("mcpbridge state key id"), key[:]...))
		s.aeads = append(s.aeads, aead)
		s.ids = append(s.ids, [keyIDLen]byte(sum[:]))
	}
	return s
}

// Of returns a Sealer with the keys of s for one of several backends: what is sealed for one cannot be opened for another.
func (s *Sealer) Of(backend string) *Sealer {
	of := *s
	of.whose = backend
	return &of
}

// Open puts the state of a call that is made again in place of what was sealed, and returns how many rounds the call has been
// through. The call's request is changed.
func (s *Sealer) Open(call *bridge.Call) (round byte, err error) {
	sealed := bridge.State(call.Request)
	if sealed == nil {
		return 0, nil
	}
	state, round, err := s.open(call, sealed)
	if err != nil {
		return 0, err
	}
	bridge.SetState(call.Request, state)
	return round, nil
}

// Needs returns what the client is told when a call needs input, after so many rounds. It is an error to ask for what the
// client cannot do (2026-07-28: basic/patterns/mrtr, server requirements).
func (s *Sealer) Needs(call *bridge.Call, needs *pb.InputRequired, round byte) (*pb.InputRequired, error) {
	if err := Check(call, needs); err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(needs.GetRequests())) {
		missing := bridge.MissingCapabilities(call.Context().GetClientCapabilities(), needs.GetRequests()[key])
		if missing == nil {
			continue
		}
		data, err := mcpjson.Append([]byte(`{"requiredCapabilities":`), missing, bridge.Rev20260728)
		if err != nil {
			return nil, err
		}
		return nil, &bridge.Error{
			Code: codes.FailedPrecondition, Message: call.Method.Name + ": the client must be able to answer " + strconv.Quote(key),
			RPC: &pb.JsonRpcError{Code: bridge.CodeMissingCapability, Data: append(data, '}')},
		}
	}
	if needs.State == nil {
		return needs, nil
	}
	if round > MaxRounds {
		return nil, TooManyRounds(call)
	}
	if n := len(needs.GetState()); n > s.most/2 {
		return nil, bridge.ProtocolViolation(pb.CallFailure_OUTCOME_UNKNOWN, "%s: the backend's state has %d bytes; at most %d are allowed",
			call.Method.Name, n, s.most/2)
	}
	out := bridge.ShallowCopy(needs)
	out.State = []byte(s.seal(call, needs.GetState(), round))
	return out, nil
}

// Check returns an error if a backend asks where it cannot, or for nothing.
func Check(call *bridge.Call, needs *pb.InputRequired) error {
	if !call.Method.MayRequireInput {
		return bridge.ProtocolViolation(pb.CallFailure_OUTCOME_UNKNOWN, "%s: the backend asks for input, which this method cannot", call.Method.Name)
	}
	if len(needs.GetRequests()) == 0 && needs.State == nil {
		return bridge.ProtocolViolation(pb.CallFailure_OUTCOME_UNKNOWN, "%s: the backend needs input and does not say what: it must send requests or a state", call.Method.Name)
	}
	return nil
}

// TooManyRounds is the error of a call that asks more than MaxRounds times.
func TooManyRounds(call *bridge.Call) error {
	return bridge.ProtocolViolation(pb.CallFailure_OUTCOME_UNKNOWN, "%s: the backend asked more than %d times", call.Method.Name, MaxRounds)
}

// binding returns what a state can only be opened with.
func (s *Sealer) binding(call *bridge.Call) []byte { return append(call.Binding(), s.whose...) }

// seal returns the requestState that stands for state after the given round of call.
func (s *Sealer) seal(call *bridge.Call, state []byte, round byte) string {
	aead := s.aeads[0]
	prefix := keyIDLen + aead.NonceSize()
	out := make([]byte, prefix, prefix+headerLen+len(state)+aead.Overhead())
	copy(out, s.ids[0][:])
	rand.Read(out[keyIDLen:])
	plain := binary.BigEndian.AppendUint64(make([]byte, 0, headerLen+len(state)), uint64(time.Now().Add(s.ttl).Unix()))
	plain = append(append(plain, round), state...)
	return base64.RawURLEncoding.EncodeToString(aead.Seal(out, out[keyIDLen:], plain, s.binding(call)))
}

// open returns what a requestState stands for.
func (s *Sealer) open(call *bridge.Call, sealed []byte) (state []byte, round byte, err error) {
	bad := bridge.Errorf(codes.InvalidArgument, "requestState was not issued for this request: "+
		"send back exactly the one that came with the inputRequests, with the same method and arguments")
	if len(sealed) > s.most {
		return nil, 0, bad
	}
	raw, err := bridge.DecodeBase64(base64.RawURLEncoding, sealed)
	if err != nil || len(raw) < keyIDLen {
		return nil, 0, bad
	}
	for i, aead := range s.aeads {
		prefix := keyIDLen + aead.NonceSize()
		if [keyIDLen]byte(raw) != s.ids[i] || len(raw) < prefix {
			continue
		}
		plain, err := aead.Open(nil, raw[keyIDLen:prefix], raw[prefix:], s.binding(call))
		if err != nil || len(plain) < headerLen {
			return nil, 0, bad
		}
		if uint64(time.Now().Unix()) > binary.BigEndian.Uint64(plain) {
			return nil, 0, bridge.Errorf(codes.InvalidArgument, "requestState has expired: make the call again without it")
		}
		return plain[headerLen:], plain[headerLen-1], nil
	}
	return nil, 0, bad
}
