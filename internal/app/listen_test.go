package app

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// The error for an address that cannot be bound names the cause. Root may bind all of them, so the errors are made
// here.
func TestListenAddressWithoutPermission(t *testing.T) {
	denied := os.NewSyscallError("bind", syscall.EACCES)
	for addr, want := range map[string][2]string{
		"unix:///run/m.sock": {"this user cannot create files in /run", "a directory that this user can write to"},
		"unix:m.sock":        {"this user cannot create files in .", "a directory that this user can write to"},
		"127.0.0.1:80":       {"ports below 1024", "a port above 1023"},
		"tcp:127.0.0.1:80":   {"ports below 1024", "a port above 1023"},
	} {
		p := problem.Of(listenProblem(addr, "", "--grpc", &net.OpError{Op: "listen", Err: denied}))
		if !strings.Contains(p.Why, want[0]) || !strings.Contains(p.Fix, want[1]) {
			t.Errorf("%s: got why %q and fix %q", addr, p.Why, p.Fix)
		}
	}
}
