// Package seal encrypts and authenticates the request state that a client carries between rounds, in every protocol,
// because backends rely on it.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A Sealer encrypts and authenticates a backend's request state, which clients must not read or modify (2026-07-28:
// basic/patterns/mrtr, requestState). Sealed state can be opened only with the same principal, method, target and
// arguments, and until it expires. Replicas that share keys open each other's states. It may be used concurrently.
type Sealer struct {
	// aeads are the keys: the first seals, all of them open.
	aeads   []cipher.AEAD
	ids     [][keyIDLen]byte
	ttl     time.Duration
	maxSize int
	// backend is the name of the backend, if there are several.
	backend string
}

const (
	keyIDLen  = 4
	headerLen = 8 + 1 // expiry in Unix seconds, round
)

// New returns a Sealer that seals with the first of the 32-byte keys and opens with all of them, or uses a random key
// if there are none. Sealed state expires after ttl, and has at most maxSize bytes.
func New(keys [][32]byte, ttl time.Duration, maxSize int) *Sealer {
	if len(keys) == 0 {
		var key [32]byte
		rand.Read(key[:]) // never fails
		keys = [][32]byte{key}
	}
	s := &Sealer{ttl: ttl, maxSize: maxSize}
	for _, key := range keys {
		block, err := aes.NewCipher(key[:])
		if err != nil {
			panic(err) // a 32-byte key is always valid
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			panic(err) // AES has the block size of GCM
		}
		sum := sha256.Sum256(append([]byte("mcpbridge state key id"), key[:]...))
		s.aeads = append(s.aeads, aead)
		s.ids = append(s.ids, [keyIDLen]byte(sum[:]))
	}
	return s
}

// ForBackend returns a Sealer with the same keys whose states are not valid for other backends.
func (s *Sealer) ForBackend(backend string) *Sealer {
	of := *s
	of.backend = backend
	return &of
}

// Open replaces the sealed state in the call's request by the backend's state, and returns the number of rounds so
// far.
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

// Seal returns the input requests with sealed state. It returns an error if the client lacks a capability that they
// need.
func (s *Sealer) Seal(call *bridge.Call, needs *pb.InputRequired, round byte) (*pb.InputRequired, error) {
	if err := Check(call, needs); err != nil {
		return nil, err
	}
	if err := CheckCapabilities(call, needs); err != nil {
		return nil, err
	}
	if needs.RequestState == nil {
		return needs, nil
	}
	if round > limits.Rounds {
		return nil, TooManyRounds(call)
	}
	if n := len(needs.GetRequestState()); n > s.maxSize/2 {
		return nil, bridge.ProtocolViolation(bridge.OutcomeUnknown,
			"%s: the backend's state has %d bytes; at most %d are allowed", call.Method.Name, n, s.maxSize/2)
	}
	out := bridge.ShallowCopy(needs)
	out.RequestState = []byte(s.seal(call, needs.GetRequestState(), round))
	return out, nil
}

// Check returns an error if the method cannot require input, or if there is neither an input request nor a state.
func Check(call *bridge.Call, needs *pb.InputRequired) error {
	if !call.Method.MayRequireInput {
		return bridge.ProtocolViolation(bridge.OutcomeUnknown,
			"%s: the backend requested input, which this method does not support", call.Method.Name)
	}
	if len(needs.GetInputRequests()) == 0 && needs.RequestState == nil {
		return bridge.ProtocolViolation(bridge.OutcomeUnknown,
			"%s: the backend requires input, but sent neither input requests nor a state", call.Method.Name)
	}
	return nil
}

// CheckCapabilities returns an error if the client lacks a capability that the input requests need (2026-07-28:
// basic/patterns/mrtr, server requirements).
func CheckCapabilities(call *bridge.Call, needs *pb.InputRequired) error {
	for _, req := range needs.GetInputRequests() {
		missing := bridge.MissingCapabilities(call.Context().GetClientCapabilities(), req)
		if missing != nil {
			return mcpjson.MissingCapability(missing, "%s: the client must be able to answer %q", call.Method.Name,
				req.GetKey())
		}
	}
	return nil
}

// TooManyRounds returns the error of a call with more than limits.Rounds rounds.
func TooManyRounds(call *bridge.Call) error {
	return bridge.ProtocolViolation(bridge.OutcomeUnknown,
		"%s: the backend required input more than %d times", call.Method.Name, limits.Rounds)
}

// binding returns the additional authenticated data.
func (s *Sealer) binding(call *bridge.Call) []byte { return append(call.Binding(), s.backend...) }

// seal returns the requestState for state after the given round.
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

// open returns the content of a requestState.
func (s *Sealer) open(call *bridge.Call, sealed []byte) (state []byte, round byte, err error) {
	bad := bridge.Errorf(codes.InvalidArgument, "requestState was not issued for this request: "+
		"send back exactly the one that came with the inputRequests, with the same method and arguments")
	if len(sealed) > s.maxSize {
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
			return nil, 0, bridge.Errorf(codes.InvalidArgument,
				"requestState has expired: make the call again without it")
		}
		return plain[headerLen:], plain[headerLen-1], nil
	}
	return nil, 0, bad
}
