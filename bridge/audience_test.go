package bridge_test

import (
	"strings"
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Callers that may receive different content have different audiences, for tokens of any length.
func TestAudienceIsEveryCallerWithTheSameView(t *testing.T) {
	of := func(change func(*pb.CallContext)) bridge.Audience {
		cc := &pb.CallContext{
			Verified: &pb.VerifiedCaller{
				ProtocolVersion: "2026-07-28",
				Principal:       &pb.Principal{Issuer: "i", Subject: "s", Scopes: []string{"a", "b"}},
			},
			ClientCapabilities: &pb.ClientCapabilities{Roots: &pb.RootsCapability{}},
		}
		change(cc)
		return bridge.AudienceOf(cc)
	}
	long := strings.Repeat("x", 1000)
	one := of(func(*pb.CallContext) {})
	for name, change := range map[string]func(*pb.CallContext){
		"claims":  func(cc *pb.CallContext) { cc.Verified.Principal.Claims = `{"jti":"2"}` },
		"headers": func(cc *pb.CallContext) { cc.Verified.Headers = map[string]string{"x": "y"} },
		"program": func(cc *pb.CallContext) { cc.ClientInfo = &pb.Implementation{Name: "c"} },
	} {
		if of(change) != one {
			t.Errorf("%s make another audience", name)
		}
	}
	seen := map[bridge.Audience]string{one: "the first"}
	for name, change := range map[string]func(*pb.CallContext){
		"no principal":     func(cc *pb.CallContext) { cc.Verified.Principal = nil },
		"an empty one":     func(cc *pb.CallContext) { cc.Verified.Principal = &pb.Principal{} },
		"another issuer":   func(cc *pb.CallContext) { cc.Verified.Principal.Issuer = "j" },
		"another subject":  func(cc *pb.CallContext) { cc.Verified.Principal.Subject = "t" },
		"fewer scopes":     func(cc *pb.CallContext) { cc.Verified.Principal.Scopes = []string{"a"} },
		"another revision": func(cc *pb.CallContext) { cc.Verified.ProtocolVersion = "2025-11-25" },
		"no capabilities":  func(cc *pb.CallContext) { cc.ClientCapabilities = &pb.ClientCapabilities{} },
		"others": func(cc *pb.CallContext) {
			cc.ClientCapabilities = &pb.ClientCapabilities{Sampling: &pb.SamplingCapability{}}
		},
		"long ones":       func(cc *pb.CallContext) { cc.ClientCapabilities.Extensions = `{"` + long + `/a":{}}` },
		"other long ones": func(cc *pb.CallContext) { cc.ClientCapabilities.Extensions = `{"` + long + `/b":{}}` },
	} {
		a := of(change)
		if was := seen[a]; was != "" {
			t.Errorf("%s is of the same audience as %s", name, was)
		}
		seen[a] = name
	}
}

// An audience is made for every call of a tool.
func TestAudiencesAreMadeWithoutAllocations(t *testing.T) {
	cc := &pb.CallContext{
		Verified: &pb.VerifiedCaller{Principal: &pb.Principal{Issuer: "i", Subject: "s", Scopes: []string{"a"}}},
		ClientCapabilities: &pb.ClientCapabilities{
			Elicitation: &pb.ElicitationCapability{Url: &pb.Capability{}},
			Extensions:  `{"a/b":{}}`,
		},
	}
	if n := testing.AllocsPerRun(1000, func() { bridge.AudienceOf(cc) }); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}
