package limit

import (
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func TestAsManyStreamsAsMayBe(t *testing.T) {
	ada, bob := &pb.Principal{Issuer: "i", Subject: "ada"}, &pb.Principal{Issuer: "i", Subject: "bob"}
	for _, c := range []struct {
		name string
		s    *Streams
		open []*pb.Principal
		want string // why the last one is refused
	}{
		{"one below the most", &Streams{Max: 3, PerPrincipal: 9}, []*pb.Principal{nil, ada}, ""},
		{"the most", &Streams{Max: 3, PerPrincipal: 9}, []*pb.Principal{nil, nil, nil}, ""},
		{"one above the most", &Streams{Max: 3, Reason: "FULL", PerPrincipal: 9}, []*pb.Principal{nil, nil, nil, nil}, "FULL"},
		{"one below the most of one", &Streams{Max: 9, PerPrincipal: 2}, []*pb.Principal{ada}, ""},
		{"the most of one", &Streams{Max: 9, PerPrincipal: 2}, []*pb.Principal{ada, ada}, ""},
		{"one above the most of one", &Streams{Max: 9, PerPrincipal: 2}, []*pb.Principal{ada, ada, ada}, bridge.ReasonTooMany},
		{"others beside it", &Streams{Max: 9, PerPrincipal: 2}, []*pb.Principal{ada, ada, bob, bob, nil, nil, nil}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var dones []func()
			for i, p := range c.open {
				done, err := c.s.Open(p)
				last := i == len(c.open)-1
				switch {
				case err == nil && last && c.want != "":
					t.Error("let in")
				case err == nil:
					dones = append(dones, done)
				case !last || bridge.AsError(err).Failure.GetReason() != c.want:
					t.Errorf("number %d: %v", i+1, err)
				}
			}
			for _, done := range dones {
				done()
			}
			if c.s.n != 0 || len(c.s.owners.n) != 0 {
				t.Errorf("afterwards %d are counted, and %v", c.s.n, c.s.owners.n)
			}
		})
	}
}
