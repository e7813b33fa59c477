package limit

import (
	"testing"

	"github.com/mcpbridge/mcpbridge/bridge"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func TestStreamsAreLimited(t *testing.T) {
	ada, bob := &pb.Principal{Issuer: "i", Subject: "ada"}, &pb.Principal{Issuer: "i", Subject: "bob"}
	for _, c := range []struct {
		name string
		s    *Streams
		open []*pb.Principal
		want string // the reason of the last one's error
	}{
		{"one below", &Streams{Max: 3, PerPrincipal: 9}, []*pb.Principal{nil, ada}, ""},
		{"at the limit", &Streams{Max: 3, PerPrincipal: 9}, []*pb.Principal{nil, nil, nil}, ""},
		{"one above", &Streams{Max: 3, Reason: "FULL", PerPrincipal: 9}, []*pb.Principal{nil, nil, nil, nil}, "FULL"},
		{"one below, of one caller", &Streams{Max: 9, PerPrincipal: 2}, []*pb.Principal{ada}, ""},
		{"at the limit, of one caller", &Streams{Max: 9, PerPrincipal: 2}, []*pb.Principal{ada, ada}, ""},
		{
			"one above, of one caller", &Streams{Max: 9, PerPrincipal: 2},
			[]*pb.Principal{ada, ada, ada},
			bridge.ReasonTooMany,
		},
		{"other callers", &Streams{Max: 9, PerPrincipal: 2}, []*pb.Principal{ada, ada, bob, bob, nil, nil, nil}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var dones []func()
			for i, p := range c.open {
				done, err := c.s.Open(p)
				last := i == len(c.open)-1
				switch {
				case err == nil && last && c.want != "":
					t.Errorf("stream %d: got no error, want %s", i+1, c.want)
				case err == nil:
					dones = append(dones, done)
				case !last || bridge.AsError(err).Reason != c.want:
					t.Errorf("stream %d of %d: got %v, want %q for the last", i+1, len(c.open), err, c.want)
				}
			}
			for _, done := range dones {
				done()
			}
			if c.s.n != 0 || len(c.s.owners.n) != 0 {
				t.Errorf("after all are closed: got %d streams, %v of callers, want none", c.s.n, c.s.owners.n)
			}
		})
	}
}
