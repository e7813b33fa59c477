package plugin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/child"
	"github.com/mcpbridge/mcpbridge/internal/contain"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mtls"
)

// Run launches or dials the backend and keeps it connected until ctx ends; then it stops the backend and returns nil.
// If a launched backend is lost, Run launches it again; Run returns an error only if the first start fails. It must be
// called once.
func (p *Plugin) Run(ctx context.Context) error {
	if p.o.Address != "" {
		return p.runDialed(ctx)
	}
	// On Linux, the parent-death signal of a child is sent when the thread that started it ends. This thread runs as
	// long as the children.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sweep(&p.log)
	return p.supervisor.Run(ctx)
}

// newInstance completes a new instance of the backend and returns it.
func (p *Plugin) newInstance(l *instance) *instance {
	l.calls.first, l.discover.turn = make(chan struct{}, 1), make(chan struct{}, 1)
	l.ctx, l.end = context.WithCancel(context.Background())
	l.done = l.ctx.Done()
	l.ready = time.Now()
	return l
}

// A launchedBackend backend is a process that the bridge started. It implements supervise.Backend.
type launchedBackend struct{ *Plugin }

func (p launchedBackend) Connect(ctx context.Context) (*instance, error) {
	began := time.Now()
	m, err := p.launch(ctx)
	if err != nil {
		return nil, err
	}
	p.log.Info().Int("pid", m.Pid()).Dur("took", time.Since(began)).Msg("the backend is ready")
	return p.newInstance(&instance{link: m.link, frames: m.frames, managed: m, began: began}), nil
}

func (launchedBackend) IsFinal(_ error, first bool) bool { return first }

func (p launchedBackend) Watch(ctx context.Context, l *instance) bool {
	l.lost = p.watch(ctx, l.managed.Context(), l, goplugin.GRPCServiceName)
	return false
}

func (p launchedBackend) Release(ctx context.Context, l *instance) bool {
	m := l.managed
	defer p.panics.Recover("stopping the backend", func(*bridge.Error) {
		m.Signal(child.Kill)
		m.finish()
	})
	l.end()

	if !l.lost.drains.IsZero() {
		m.awaitExit(ctx, l, l.lost.drains.Add(p.o.StopTimeout))
	}
	l.frames.stopSending()
	m.stop(p.o.StopTimeout, ctx.Err() != nil)
	if ctx.Err() != nil {
		p.log.Info().Str("status", m.ExitReason()).Msg("the backend was stopped")
		return false
	}
	p.log.Error().Str("status", m.ExitReason()).Str("why", l.lost.why).Strs("stderr", m.stderrTail()).
		Dur("lived", time.Since(l.began)).Msg("the backend was lost")
	return l.called.Load() && time.Since(l.ready) >= p.intervals.settled
}

// A managed backend is a launched process that is ready.
type managed struct {
	*process
	*link
	panics *contain.Panics
	frames *frames
	wg     sync.WaitGroup // the goroutine that reads go-plugin's log stream
}

// launch starts a process and returns it when it is ready.
func (p *Plugin) launch(ctx context.Context) (m *managed, err error) {
	dir, err := newRunDir()
	if err != nil {
		return nil, fmt.Errorf("backend %q: a directory for its socket: %w", p.o.Name, err)
	}
	r := newProcess(&p.o, &p.log, dir)
	m = &managed{process: r, panics: p.panics}
	defer p.panics.Recover("starting the backend", func(e *bridge.Error) {
		r.Signal(child.Kill)
		m.finish()
		m, err = nil, e
	})

	config, err := p.makeKeys(r)
	if err != nil {
		m.finish()
		return nil, fmt.Errorf("backend %q: its key pair: %w", p.o.Name, err)
	}
	defer context.AfterFunc(ctx, func() { r.Signal(child.Kill) })()
	if !p.o.NoFrames {
		m.frames = newFrames(dir, p.o.Limits.Message, &p.log)
	}
	if m.frames != nil {
		r.Env = append(r.Env, m.frames.env())
		m.frames.serve(r.Pid, p.panics, func() { r.Signal(child.Kill) })
	}

	began := time.Now()
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: ProtocolVersion, MagicCookieKey: CookieKey, MagicCookieValue: CookieValue,
		},
		Plugins: goplugin.PluginSet{}, AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		TLSConfig: config, SkipHostEnv: true, StartTimeout: p.o.StartTimeout,
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: dir.path},
		Logger:           goPluginLog(p.log),
		RunnerFunc:       r.prepare,
	})
	addr, err := client.Start()
	if err != nil {
		err = errors.Join(err, dir.probe())
		r.Signal(child.Kill)
		client.Kill()
		m.finish()
		return nil, p.explain(r, err, time.Since(began))
	}
	// go-plugin is not used from here on: it has no connection, and its Kill, which would make one, must not be called.
	// Its goroutines end with the process.
	_ = os.Remove(filepath.Join(dir.path, keyPairFile))
	m.link, err = dial(endpoint{network: addr.Network(), address: addr.String()}, config, p.o.Limits.Message,
		p.o.StartTimeout)
	if err == nil {
		err = p.awaitHealthy(m, began.Add(p.o.StartTimeout))
	}
	if err != nil {
		silent := &unresponsive{
			addr: fmt.Sprintf("%s %s", addr.Network(), addr), ended: r.Context().Err() != nil,
			err: err,
		}
		r.Signal(child.Kill)
		m.finish()
		return nil, p.explain(r, silent, time.Since(began))
	}
	m.wg.Go(m.readStdio)
	return m, nil
}

// awaitHealthy waits until a process that has printed its handshake is ready, at most until the start timeout, whether
// it does not listen yet, does not respond, or responds NOT_SERVING. Only TLS errors that cannot be temporary are
// final: crypto/tls prefixes each with its name, and gRPC keeps only the text.
func (p *Plugin) awaitHealthy(m *managed, until time.Time) error {
	ctx, cancel := context.WithDeadline(m.Context(), until)
	defer cancel()
	var last error
	for {
		err := m.check(ctx, goplugin.GRPCServiceName)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if ctx.Err() != nil || strings.Contains(status.Convert(err).Message(), "tls: ") {
			return last
		}
		sleep(ctx, p.intervals.Backoff)
	}
}

const keyPairFile = "key-pair.pem"

// makeKeys makes the keys of both sides and writes the process's own.
func (p *Plugin) makeKeys(r *process) (*tls.Config, error) {
	keys, err := mtls.New()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(r.dir.path, keyPairFile)
	if err := os.WriteFile(file, keys.Server, 0o600); err != nil {
		return nil, err
	}
	transports := "unix,tcp"
	if runtime.GOOS == "windows" {
		transports = "tcp"
	}
	r.Env = append(child.Env(os.Environ(), p.o.PassEnv, p.o.Env),
		EnvLifeline+"=stdin", EnvKeyPair+"="+file, EnvTransports+"="+transports,
		// go-plugin's name for it: if it is set, a plugin serves TLS, and accepts only clients with a certificate of
		// this authority.
		"PLUGIN_CLIENT_CERT="+string(keys.Authority))
	return &tls.Config{
		Certificates: []tls.Certificate{keys.Client},
		ServerName:   "localhost", // go-plugin adds the certificate of the handshake, and trusts no other
		MinVersion:   tls.VersionTLS12,
	}, nil
}

// unresponsive is the error of a process that printed its handshake and then does not respond.
type unresponsive struct {
	addr  string
	ended bool // without a signal from the bridge
	err   error
}

// Unwrap also returns EMFILE, which gRPC does not wrap.
func (e *unresponsive) Unwrap() []error {
	if strings.Contains(e.err.Error(), syscall.EMFILE.Error()) {
		return []error{e.err, syscall.EMFILE}
	}
	return []error{e.err}
}

func (e *unresponsive) Error() string {
	if errors.Is(e.err, errNotServing) {
		return fmt.Sprintf("it answers at %s, but %v", e.addr, e.err)
	}
	return fmt.Sprintf("it printed its handshake and does not answer at %s: %s", e.addr,
		status.Convert(e.err).Message())
}

// readStdio logs the output of a plugin that go-plugin serves in Go: go-plugin redirects its standard output and error
// once it runs, and blocks it if they are not read. Other plugins do not redirect them.
func (m *managed) readStdio() {
	defer m.panics.Recover("reading the backend's output", func(*bridge.Error) { m.Signal(child.Kill) })
	stream, err := m.conn.NewStream(m.Context(), &grpc.StreamDesc{ServerStreams: true}, "/plugin.GRPCStdio/StreamStdio")
	if err != nil || stream.SendMsg(&emptypb.Empty{}) != nil || stream.CloseSend() != nil {
		return
	}
	out := &child.Lines{Each: func(line []byte, n int) { m.output.Line("stdout", line, n) }}
	errs := &child.Lines{Each: m.readStderr}
	defer out.Close()
	defer errs.Close()
	for {
		// The message type is internal to go-plugin: field 1 is the stream, field 2 the output.
		var chunk emptypb.Empty
		if stream.RecvMsg(&chunk) != nil {
			return
		}
		w := io.Writer(out)
		for b := []byte(chunk.ProtoReflect().GetUnknown()); len(b) > 0; {
			num, kind, n := protowire.ConsumeTag(b)
			if n < 0 {
				return
			}
			value := b[n:]
			n = protowire.ConsumeFieldValue(num, kind, value)
			if n < 0 {
				return
			}
			switch {
			case num == 1 && kind == protowire.VarintType && value[0] == 2:
				w = errs
			case num == 2 && kind == protowire.BytesType:
				text, _ := protowire.ConsumeBytes(value)
				_, _ = w.Write(text)
			}
			b = value[n:]
		}
	}
}

// awaitExit waits until the process has exited, which it does by itself after its last call, at most until the given
// time.
func (m *managed) awaitExit(ctx context.Context, l *instance, until time.Time) {
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for stoppedSending := false; ; {
		if !stoppedSending && l.frames.draining() && l.calls.count() == 0 {
			stoppedSending = true
			tick.Stop()
			l.frames.stopSending()
		}
		select {
		case <-m.Context().Done():
			return
		case <-ctx.Done():
			return
		case <-late.C:
			m.log.Warn().Time("until", until).Msg("the backend does not end by itself and is killed")
			return
		case <-tick.C:
		}
	}
}

// stop stops the process, gracefully if possible, and returns when it and its resources are gone.
func (m *managed) stop(limit time.Duration, graceful bool) {
	if graceful && m.Context().Err() == nil {
		m.requestStop(limit)
	}
	m.Signal(child.Kill)
	m.finish()
}

// requestStop gives the process limit to exit: most of it after go-plugin's own request; the rest, or all of it if the
// request fails, after SIGTERM.
func (m *managed) requestStop(limit time.Duration) {
	last := time.Now().Add(limit)
	request, cancel := context.WithTimeout(m.Context(), limit*4/5)
	defer cancel()
	err := m.conn.Invoke(request, "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
	// A plugin in Go stops its server during the request, so a broken connection means success too.
	if c := status.Code(err); c == codes.OK || c == codes.Unavailable {
		<-request.Done()
	}
	if m.Context().Err() != nil {
		return
	}
	m.log.Debug().AnErr("asked", err).Msg("the backend does not stop by itself; it is sent SIGTERM")
	m.Signal(child.Terminate)
	t := time.NewTimer(time.Until(last))
	defer t.Stop()
	select {
	case <-m.Context().Done():
	case <-t.C:
		m.log.Warn().Dur("after", limit).Msg("the backend does not stop and is killed")
	}
}

// finish waits for the goroutines of a process that has exited or never started.
func (m *managed) finish() {
	if m.link != nil {
		// Even if another process holds the plugin's end of the connection.
		_ = m.conn.Close()
	}
	m.frames.close()
	m.wg.Wait()
	m.process.Finish()
	_ = m.handshakeWriter.Close()
	if err := m.dir.remove(); err != nil {
		m.log.Warn().Err(err).Msg("cannot remove the backend's directory")
	}
}

// prepare is go-plugin's RunnerFunc. It adds the environment of a plugin.
func (r *process) prepare(_ hclog.Logger, cmd *exec.Cmd, _ string) (runner.Runner, error) {
	r.Env = append(r.Env, cmd.Env...)
	// In the bridge's directory, not in go-plugin's within it: the path of a socket has a maximum length.
	r.Env = append(r.Env, goplugin.EnvUnixSocketDir+"="+r.dir.path)
	return r, nil
}

// runDialed keeps a connection to a process that the bridge did not launch.
func (p *Plugin) runDialed(ctx context.Context) error {
	if p.tls == nil && p.end.network == "tcp" && checkTCP(p.end.address) != nil && p.end.host() != "localhost" {
		p.log.Warn().Str("address", p.o.Address).Msg("the connection to the backend is not encrypted")
	}
	defer p.dialed.old.Wait()
	defer p.dialed.drop(ctx, nil)
	return p.supervisor.Run(ctx)
}

// A dialed backend is a process that the bridge did not launch. It implements supervise.Backend.
type dialedBackend struct {
	*Plugin
	link *link // nil if a new one is to be made
	old  sync.WaitGroup
}

// Connect returns when the backend is ready. An error is one of the address or of TLS.
func (p *dialedBackend) Connect(ctx context.Context) (*instance, error) {
	if p.link == nil {
		k, err := dial(p.end, p.tls, p.o.Limits.Message, limits.ConnectTimeout)
		if err != nil {
			return nil, fmt.Errorf("backend %q at %s: %w", p.o.Name, p.o.Address, err)
		}
		p.link = k
	}
	k := p.link
	for reported := false; ctx.Err() == nil; {
		k.conn.Connect()
		limited, cancel := context.WithTimeout(ctx, p.intervals.health)
		err := k.check(limited, "", grpc.WaitForReady(true))
		cancel()
		switch {
		case err != nil && ctx.Err() == nil:
			if !reported {
				p.log.Warn().Err(err).Str("address", p.o.Address).Msg("the backend does not answer yet")
				reported = true
			}
			if status.Code(err) != codes.DeadlineExceeded { // the attempt has used up its time
				sleep(ctx, p.intervals.Backoff)
			}
		case err == nil && k.awaitReady(ctx):
			p.log.Info().Str("address", p.o.Address).Msg("the backend is ready")
			return p.newInstance(&instance{link: k}), nil
		}
	}
	return nil, ctx.Err()
}

func (*dialedBackend) IsFinal(error, bool) bool { return true }

func (p *dialedBackend) Watch(ctx context.Context, l *instance) (unreachable bool) {
	here, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		defer cancel()
		l.conn.WaitForStateChange(here, connectivity.Ready)
	})
	l.lost = p.watch(ctx, here, l, "")
	l.broken = here.Err() != nil
	return l.lost.unreachable
}

// Release keeps a connection that broke: gRPC reconnects it, and calls may still end on it.
func (p *dialedBackend) Release(ctx context.Context, l *instance) bool {
	l.end()
	switch {
	case ctx.Err() != nil:
	case l.broken && l.lost.hung == 0:
		p.log.Warn().Msg("the connection to the backend ended")
		return true
	default:
		p.log.Error().Str("why", l.lost.why).Msg("the backend was lost")
	}
	if l.lost.hung > 0 {
		l = nil
	}
	p.drop(ctx, l)
	return true
}

// drop closes the connection when the calls of l, which may be nil, have ended.
func (p *dialedBackend) drop(ctx context.Context, l *instance) {
	k := p.link
	p.link = nil
	if k == nil {
		return
	}
	p.old.Go(func() {
		if l != nil {
			p.awaitCalls(ctx, l)
		}
		_ = k.conn.Close()
	})
}

// awaitCalls returns when the calls of l have ended, or the backend no longer responds. A backend that was only busy
// answers them, and so does one whose network is back: TCP then delivers the outstanding data.
func (p *Plugin) awaitCalls(ctx context.Context, l *instance) {
	defer p.panics.Recover("waiting for the last answers of the backend", nil)
	tick := time.NewTicker(p.intervals.health)
	defer tick.Stop()
	for l.calls.count() > 0 && l.conn.GetState() == connectivity.Ready {
		limited, cancel := context.WithTimeout(ctx, p.intervals.lastAnswer)
		err := l.check(limited, "")
		cancel()
		if err != nil && !errors.Is(err, errNotServing) {
			p.log.Warn().Err(err).Int("calls", l.calls.count()).
				Msg("the backend no longer responds; failing its calls in flight")
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
