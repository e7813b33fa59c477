package verify

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/mcpbridge/mcpbridge/internal/mtls"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

var startRows = []row{
	{
		name: "handshake", does: "prints its address and certificate in one line", clause: inStart, launch: true,
		why: "a host dials this address, and trusts only this certificate",
		fix: "use an SDK's run, or print the line that docs/verify.md describes",
		run: func(t *trial) { t.checkHandshake(t.backend, true) },
	},
	{
		name: "mutual-tls", does: "accepts no client but the bridge that started it", clause: inStart, launch: true,
		why: "otherwise other users of this machine can call the tools",
		fix: "require and verify client certificates, and trust exactly those signed by " + clientCert,
		run: checkMutualTLS,
	},
	{
		name: "health", does: `answers health checks for "" and "plugin"`, clause: inStart,
		why: "the bridge restarts a backend that does not",
		fix: `register grpc.health.v1.Health, and set "" and "plugin" to SERVING`,
		run: func(t *trial) {
			services := []string{""}
			if t.proc != nil {
				services = append(services, "plugin") // which hosts of go-plugin check
			}
			for _, service := range services {
				res, err := t.health.Check(t.ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
				if err != nil {
					t.failf("health of %q: %s", service, errorText(err))
				} else if res.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
					t.failf("health of %q is %v, want SERVING", service, res.GetStatus())
				}
			}
			_, err := t.health.Check(t.ctx, &grpc_health_v1.HealthCheckRequest{Service: "mcpbridge-verify-unknown"})
			t.checkCode("health of an unknown service", err, codes.NotFound)
		},
	},
	{
		name: "by-hand", does: "prints usage and exits if a person starts it", clause: inStart, launch: true,
		why: "without " + cookie + ", no host reads the handshake",
		fix: "if " + cookie + " is not mcpbridge.v1, print usage to standard error and exit with 1",
		run: func(t *trial) { t.checkRefusal(cookie) },
	},
	{
		name: "versions", does: "refuses a host without a common version", clause: inStart, launch: true,
		why: "the host does not support a version that it did not offer",
		fix: "compare " + versions + " with your versions of the plugin protocol; without a common one," +
			" print an error to standard error and exit with 1",
		run: func(t *trial) { t.checkRefusal(versions + "=97,98") },
	},
	{
		name: "tcp", does: "listens at 127.0.0.1 if only TCP is allowed", clause: inStart, launch: true,
		why: "not every system has unix sockets, and other addresses can be reached from the network",
		fix: "choose from " + transports + "; for tcp listen at 127.0.0.1, port 0",
		run: func(t *trial) {
			t.launch([]string{transports + "=tcp"}, func(b *backend) {
				if network := b.proc.fields()[2]; network != "tcp" {
					t.failf("it listens at %s although %s=tcp", network, transports)
				}
				t.checkHandshake(b, true)
			})
		},
	},
	{
		name: "stock-host", does: "generates a certificate if the host provides none", clause: inStart, launch: true,
		why: "other hosts of go-plugin do not set " + keyPair,
		fix: "generate an ECDSA P-256 key and a self-signed certificate for localhost," +
			" or print what is missing to standard error and exit with 1",
		run: func(t *trial) {
			t.launchOrRefuse([]string{keyPair}, func(b *backend) { t.checkHandshake(b, true) })
		},
	},
	{
		name: "plaintext", does: "serves without TLS if the host does not use it", clause: inStart, launch: true,
		why: "a host without TLS cannot use a certificate, and some crash on one",
		fix: "without " + clientCert + ", serve plaintext and leave field 6 empty",
		run: func(t *trial) {
			t.launch([]string{clientCert, keyPair}, func(b *backend) { t.checkHandshake(b, false) })
		},
	},
	{
		name: "multiplex", does: "declares whether it supports go-plugin's multiplexing", clause: inStart, launch: true,
		why: "a host that offers it waits for field 7 of the handshake",
		fix: "if " + multiplex + " is set, add field 7 to the handshake: false",
		run: func(t *trial) {
			p, err := t.d.start(t.ctx, multiplex+"=true")
			if err != nil {
				t.startDefect([]string{multiplex + "=true"}, err)
				return
			}
			defer p.stop()
			if f := p.fields(); len(f) < 7 || f[6] != "false" && f[6] != "true" {
				t.failf("field 7 of the handshake is missing: %s", strings.Join(f[:5], "|"))
			}
		},
	},
}

// checkMutualTLS tries to call the backend without the bridge's certificate.
func checkMutualTLS(t *trial) {
	f := t.proc.fields()
	cert, _ := parseCertificate(f[5]) // errors are for the check of the handshake
	other, err := mtls.New()
	if err != nil {
		t.failf("key pair: %v", err)
		return
	}
	for _, try := range []struct {
		client string
		dial   func() *backend
	}{
		{"a client without TLS", func() *backend { return dial(f[2], f[3], nil) }},
		{"a client without a certificate", func() *backend { return dial(f[2], f[3], pinned(cert)) }},
		{"a client with another certificate", func() *backend { return dial(f[2], f[3], pinned(cert, other.Client)) }},
	} {
		b := try.dial()
		ctx, cancel := context.WithTimeout(t.ctx, 5*time.Second)
		_, err := b.mcp.Discover(ctx, &pb.DiscoverRequest{Context: testContext()})
		cancel()
		_ = b.conn.Close()
		if err == nil {
			t.failf("%s was accepted", try.client)
		}
	}
}

// launch launches the program with another environment, and calls check when it responds.
func (t *trial) launch(with []string, check func(*backend)) {
	p, err := t.d.start(t.ctx, with...)
	if err != nil {
		t.startDefect(with, err)
		return
	}
	b, err := p.connect(t.ctx)
	if err != nil {
		p.stop()
		t.startDefect(with, err)
		return
	}
	defer b.close()
	check(b)
}

// launchOrRefuse is like launch, but the program may also exit with an error message.
func (t *trial) launchOrRefuse(with []string, check func(*backend)) {
	p, err := t.d.spawn(with...)
	if err != nil {
		t.startDefect(with, err)
		return
	}
	select {
	case <-p.Context().Done():
		p.Finish()
		switch {
		case p.crashed():
			t.failf("started with %s, it crashed: %s", envText(with), p.ExitReason())
		case p.ExitReason() == "exit status 0" || !p.printedError():
			t.failf("started with %s, it exited (%s) without an error on standard error", envText(with), p.ExitReason())
		}
		p.stop()
		return
	case <-p.listening:
		p.stop()
		t.launch(with, check)
	case <-time.After(t.d.o.StartTimeout):
		p.stop()
		t.failf("started with %s, it neither printed a handshake nor exited", envText(with))
	}
}

func (t *trial) startDefect(with []string, err error) {
	d := Defect{What: fmt.Sprintf("started with %s: %v", envText(with), err)}
	if s, ok := err.(*StartError); ok { //nolint:errorlint // not wrapped in this package
		d.Why = t.row.why + "\n" + s.Why
	}
	t.defect(d)
}

// envText describes the differences of an environment from the usual one.
func envText(with []string) string {
	var words []string
	for _, kv := range with {
		if !strings.Contains(kv, "=") {
			kv = "no " + kv
		}
		words = append(words, kv)
	}
	return strings.Join(words, " and ")
}

// checkHandshake checks the handshake of a launched backend.
func (t *trial) checkHandshake(b *backend, wantTLS bool) {
	for _, fault := range b.proc.handshakeDefects(wantTLS) {
		t.failf("%s", fault)
	}
}

// checkRefusal checks that the program exits with an error message if it cannot serve.
func (t *trial) checkRefusal(with string) {
	env := envText([]string{with})
	p, err := t.d.spawn(with)
	if err != nil {
		t.startDefect([]string{with}, err)
		return
	}
	defer p.stop()
	select {
	case <-p.Context().Done():
		p.Finish()
	case <-p.listening:
		t.failf("started with %s, it printed a handshake", env)
		return
	case <-time.After(t.d.o.StartTimeout):
		t.failf("started with %s, it keeps running", env)
		return
	}
	switch {
	case p.crashed():
		t.failf("started with %s, it crashed: %s", env, p.ExitReason())
	case p.ExitReason() == "exit status 0":
		t.failf("started with %s, it exited with 0; want an error", env)
	}
	if !p.printedError() {
		t.failf("started with %s, it printed nothing to standard error", env)
	}
}

// printedError reports whether the process printed anything to standard error.
func (p *process) printedError() bool {
	_, n := p.stderr.Read()
	return n > 0
}
