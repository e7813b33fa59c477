package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// awaitReady waits until the backend is ready. It waits at most ReachTimeout for a backend that is not launched; the
// time starts again while its user logs in.
func (b *backend) awaitReady(ctx context.Context) error {
	if b.Command() != nil {
		if err := (*b.back.Load()).Ready(ctx); err != nil {
			return b.startProblem(err)
		}
		return nil
	}
	unreachable := func(why, fix string, err error) error {
		return &problem.Error{
			Exit: problem.ExitUnreachable, Code: "unreachable",
			What:  fmt.Sprintf("no backend responds at %s", b.Text()),
			Where: b.cfg.Where(b.configKey + "." + b.AddressKey()), Why: why, Fix: fix, Cause: err,
		}
	}
	const start = "start the server, or correct its address"
	reach := cmp.Or(b.ReachTimeout, limits.ReachTimeout)
	deadline := time.Now().Add(reach)
	if b.Dial != "" {
		dialCtx, cancel := context.WithDeadline(ctx, deadline)
		defer cancel()
		if err := b.dialOnce(dialCtx); err != nil {
			why, fix := b.explainDialError(err)
			return unreachable(why, cmp.Or(fix, start), err)
		}
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for loginStarted := false; ; {
		err := b.readiness()
		if b.logins.Load() > 0 {
			loginStarted, deadline = true, time.Now().Add(reach)
		}
		expired := time.Now().After(deadline)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, context.Canceled) && expired:
			return unreachable("it has not answered within "+reach.String(), start, err)
		case errors.Is(err, context.Canceled): // it has not failed yet
		case errors.Is(err, context.DeadlineExceeded) && loginStarted && !expired: // the login and attempts continue
		default:
			if p := CallProblem(err, "connecting to "+b.Text(), b.authFix()); p.Exit == problem.ExitAuth {
				return p
			}
			return unreachable(err.Error(), start, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return unreachable("it has not answered in time", start, ctx.Err())
		}
	}
}

// countLogins counts the logins in progress.
func (b *backend) countLogins() {
	login := b.Login
	if login == nil {
		return
	}
	b.Login = func(ctx context.Context, address string) error {
		b.logins.Add(1)
		context.AfterFunc(ctx, func() { b.logins.Add(-1) })
		return login(ctx, address)
	}
}

// pollInterval is how often the state of a backend is polled: a back retries, and does not report a failed attempt.
const pollInterval = 20 * time.Millisecond

// authFix returns the fix if the backend requires authentication or rejects the credentials.
func (b *backend) authFix() string {
	m := b.MCP
	switch {
	case b.Command() != nil:
		return "pass its credentials: --pass-env NAME, or --env NAME=VALUE"
	case m == nil:
		return "request access from the operator of the backend"
	case config.HasHeader(m.Headers, "Authorization"), m.Auth != nil && m.Auth.Bearer != "":
		fix := "the server rejected the Authorization header: it may be mistyped, expired, for another server, or " +
			"lack a scope"
		for name, value := range m.Headers {
			if strings.EqualFold(name, "Authorization") && !strings.Contains(value, " ") {
				return fix + "\na token is written 'Authorization: Bearer TOKEN'"
			}
		}
		return fix
	case m.Auth != nil && b.cfg.HasFile():
		return "correct auth in the configuration"
	}
	return "authenticate: --header 'Authorization: Bearer ${env:TOKEN}', or auth in the configuration"
}

// CallProblem returns the problem of a failed call. authFix is the fix if the server requires authentication.
func CallProblem(err error, what, authFix string) *problem.Error {
	if p, ok := errors.AsType[*problem.Error](err); ok {
		return p
	}
	e := bridge.AsError(err)
	p := &problem.Error{
		Exit: problem.ExitTool, Code: "server_error", What: what + " failed", Why: e.Message, Cause: err,
	}
	if e.RPC != nil {
		p.Why = fmt.Sprintf("%s (JSON-RPC error %d)", e.RPC.GetMessage(), e.RPC.GetCode())
	}
	redacted := e.Redacted() // it has an outcome also if the backend does not report one
	unknown := redacted.Outcome == bridge.OutcomeUnknown
	switch e.Code {
	case codes.Unauthenticated, codes.PermissionDenied:
		p.Exit, p.Code, p.Fix = problem.ExitAuth, "auth_required", authFix
	case codes.Unavailable:
		if !unknown { // an unknown outcome has its own fix
			p.Exit, p.Code, p.Fix = problem.ExitUnreachable, "unreachable", "start the server, and try again"
		}
	case codes.NotFound:
		p.Code = "not_found"
	case codes.Unimplemented:
		p.Code, p.Fix = "not_found", "`mcpbridge list` shows what the server has"
	}
	if redacted.Outcome != "" && p.Exit != problem.ExitAuth {
		p.Code = strings.ToLower(redacted.Reason)
		switch redacted.Reason {
		case "BACKEND_CRASHED", "BACKEND_OOM":
			p.Exit, p.What = problem.ExitCrashed, "the backend was lost during "+what
		case "DEADLINE":
			p.Exit = problem.ExitTimeout
		}
		if unknown {
			p.Fix = "it may have been executed: check its effect before you call it again"
		}
	}
	return p
}

// diagnose returns why a backend does not respond, as far as that can be determined, and the fix.
func (b *backend) diagnose(ctx context.Context) (why, fix string) {
	if b.Dial == "" {
		return "it does not respond yet", "see its log"
	}
	why, fix = b.explainDialError(b.dialOnce(ctx))
	return why, cmp.Or(fix, "start the backend, or correct its address; mcpbridge connects as soon as it is available")
}

// explainDialError returns why a backend does not respond at its address, given the error of dialOnce, and the fix. The
// fix is empty if it is to start the backend.
func (b *backend) explainDialError(err error) (why, fix string) {
	if certErr, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "the backend's certificate is not trusted: " + certErr.Err.Error(),
			"set `tls` of the backend: its certificate authority (ca), or its name in the certificate (serverName)"
	}
	if alert, ok := errors.AsType[tls.AlertError](err); ok {
		return "the backend refuses the connection: " + alert.Error(),
			"set `tls` of the backend to a certificate that it accepts (cert, key)"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the server at this address does not use TLS", "enable TLS in the server, or remove `tls` of the backend"
	}
	switch {
	case err == nil:
		why = "a server listens there, but it does not respond to gRPC"
		if b.TLS == nil {
			why += " without TLS"
		}
		return why + ", or responds NOT_SERVING", "see the backend's log; it must serve mcpbridge.v1"
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such file: " + strings.TrimPrefix(strings.TrimPrefix(b.Dial, "unix:"), "//"), ""
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens there", ""
	case errors.Is(err, fs.ErrPermission):
		return "permission denied: " + b.Dial, "allow this user to read and write the socket"
	}
	return problem.Cause(err).Error(), ""
}

// dialOnce connects to the address of a backend, and sends nothing but the TLS handshake.
func (b *backend) dialOnce(ctx context.Context) error {
	network, rest, _ := strings.Cut(b.Dial, ":")
	rest = strings.TrimPrefix(rest, "//")
	if network != "unix" {
		network, rest = "tcp", strings.TrimPrefix(rest, "/")
	}
	c, err := (&net.Dialer{Timeout: limits.AbsentTimeout}).DialContext(ctx, network, rest)
	if err != nil {
		return err
	}
	defer c.Close()
	if b.TLS == nil {
		return nil
	}
	config, err := tlsFiles(b.TLS).Config(b.Dial)
	if err != nil {
		return err
	}
	config.NextProtos = []string{"h2"}
	conn := tls.Client(c, config)
	if err := conn.SetDeadline(time.Now().Add(limits.AbsentTimeout)); err != nil {
		return err
	}
	if err := conn.HandshakeContext(ctx); err != nil {
		return err
	}
	// The server rejects our certificate only after the handshake (RFC 8446, 2). An HTTP/2 server sends its settings
	// first, or waits for those of the client.
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}
