package seal_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/seal"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// defaultLimits are the limits that are not configured.
var defaultLimits = limits.Limits{}.OrDefaults()

// newSealer returns a Sealer with the usual limit of a state.
func newSealer(keys [][32]byte, ttl time.Duration) *seal.Sealer {
	return seal.New(keys, ttl, defaultLimits.State)
}

func call(subject string, state []byte) *bridge.Call {
	return &bridge.Call{Method: bridge.CallTool, Request: &pb.CallToolRequest{
		Context: &pb.CallContext{Verified: &pb.VerifiedCaller{Principal: &pb.Principal{Subject: subject}}},
		Name:    "x", Arguments: []byte(`{"a":1}`), RequestState: state,
	}}
}

// sealed returns what a client of a subject gets for a state.
func sealed(t *testing.T, s *seal.Sealer, subject string, state []byte, round byte) []byte {
	t.Helper()
	needs, err := s.Seal(call(subject, nil), &pb.InputRequired{RequestState: state}, round)
	if err != nil {
		t.Fatal(err)
	}
	return needs.GetRequestState()
}

func code(err error) codes.Code {
	if err == nil {
		return codes.OK
	}
	return bridge.AsError(err).Code
}

func TestStateOpensOnlyForItsCaller(t *testing.T) {
	s := newSealer(nil, defaultLimits.StateTTL)
	for _, state := range [][]byte{{}, []byte("text"), {0, 255, 254}, bytes.Repeat([]byte("x"), 32<<10)} {
		back := sealed(t, s, "me", state, 3)
		if len(state) > 0 && bytes.Contains(back, state) || len(back) > 64<<10 {
			t.Errorf("%.20q became %.20q, %d bytes", state, back, len(back))
		}
		c := call("me", back)
		if round, err := s.Open(c); err != nil || round != 3 || !bytes.Equal(bridge.State(c.Request), state) {
			t.Errorf("%.20q: round %d, %v", state, round, err)
		}
		if _, err := s.Open(call("you", back)); code(err) != codes.InvalidArgument {
			t.Errorf("somebody else: %v", err)
		}
		for _, end := range []string{"\n", "\r"} {
			for _, i := range []int{0, len(back) / 2, len(back)} {
				if _, err := s.Open(call("me", slices.Insert(bytes.Clone(back), i, end[0]))); code(
					err) != codes.InvalidArgument {
					t.Errorf("%q at %d of %d: %v", end, i, len(back), err)
				}
			}
		}
	}
	if round, err := s.Open(call("me", nil)); round != 0 || err != nil {
		t.Errorf("a call without a state: %d %v", round, err)
	}
}

func TestStateExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ttl := range []time.Duration{defaultLimits.StateTTL, time.Minute} {
			s := newSealer(nil, ttl)
			back := sealed(t, s, "me", []byte("s"), 1)
			<-time.After(ttl - time.Second)
			for range 2 {
				if _, err := s.Open(call("me", back)); err != nil {
					t.Error(err)
				}
				<-time.After(time.Second)
			}
			if _, err := s.Open(call("me", back)); code(err) != codes.InvalidArgument ||
				!strings.Contains(err.Error(), "expired") {
				t.Error(err)
			}
		}
	})
}

func TestSealLimits(t *testing.T) {
	s := newSealer(nil, defaultLimits.StateTTL)
	for n := 32<<10 - 1; n <= 32<<10+1; n++ {
		_, err := s.Seal(call("me", nil), &pb.InputRequired{RequestState: make([]byte, n)}, 1)
		if (err == nil) != (n <= 32<<10) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for n := byte(limits.Rounds - 1); n <= limits.Rounds+1; n++ {
		_, err := s.Seal(call("me", nil), &pb.InputRequired{RequestState: []byte("s")}, n)
		if (err == nil) != (n <= limits.Rounds) {
			t.Errorf("round %d: %v", n, err)
		}
	}
	for _, bad := range [][]byte{
		{},
		[]byte("x"), make([]byte, 64<<10+1), []byte(strings.Repeat("A", 100)),
		[]byte("===="),
	} {
		if _, err := s.Open(call("me", bad)); code(err) != codes.InvalidArgument {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
	if _, err := s.Seal(call("me", nil), &pb.InputRequired{}, 1); code(err) != codes.Internal {
		t.Errorf("asked for nothing: %v", err)
	}
}

// FuzzOpen opens what a client made up, which is refused and never anything else.
func FuzzOpen(f *testing.F) {
	for _, s := range []string{"", "A", "AAAA", "!!!", "\xff", string(bytes.Repeat([]byte("A"), 200))} {
		f.Add([]byte(s))
	}
	s := newSealer([][32]byte{{1}}, defaultLimits.StateTTL)
	fuzzing.Run(f, func(t *testing.T, state []byte) {
		if state == nil {
			state = []byte{}
		}
		if _, err := s.Open(call("me", state)); code(err) != codes.InvalidArgument {
			t.Fatalf("%q: %v", state, err)
		}
	})
}
