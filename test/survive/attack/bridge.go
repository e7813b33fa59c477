package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A bridge is a running mcpbridge with the backend of this program.
type bridge struct {
	name    string
	dir     string
	addr    string // of HTTP
	ops     string // of probes
	grpc    string // path of the socket
	journal string
	token   string      // of valid requests
	tls     *tls.Config // of clients, if HTTP uses TLS
	in      io.WriteCloser
	out     *bufio.Reader
	cmd     *exec.Cmd
	done    chan struct{}

	mu  sync.Mutex
	log []byte

	fds int // baseline of open files
	rss int // baseline of memory in KiB

	sse      *eventStream
	sessions map[string]string
}

var (
	readyURL = regexp.MustCompile(`"url":"(https?://[^"]+)"`)
	configs  = map[string]string{
		"open": `
    passHeaders: [X-Team]`,
		"auth": `
    auth:
      resource: http://127.0.0.1:8080/mcp
      issuers: [{url: "<<issuer>>", jwks: "<<issuer>>/jwks"}]
      tokens:
        - {token: "${env:ALICE_TOKEN}", subject: alice, scopes: [tools]}
        - {token: "${env:BOB_TOKEN}", subject: bob, scopes: [tools]}
      scopes: [tools]`,
		"limits":  "",
		"slow":    "", // for rows that run concurrently with others
		"flooded": "",
		"flooded-tls": `
    tls: {cert: cert.pem, key: key.pem}`,
	}
	limits = `
limits: {sessions: 8, sessionsPerCaller: 6, sessionCalls: 2, streams: 4, streamsPerCaller: 3, body: 65536, line: 65536, calls: 5, callsPerCaller: 3, callQueue: 10ms}`
)

// start starts a bridge with the named configuration, and waits until it is ready.
func start(ctx context.Context, bin, dir, name, issuer string) (*bridge, error) {
	b := &bridge{name: name, dir: filepath.Join(dir, name), done: make(chan struct{}), sessions: map[string]string{}}
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return nil, err
	}
	b.journal = filepath.Join(b.dir, "journal")
	b.grpc = filepath.Join(b.dir, "grpc.sock")
	var err error
	if b.ops, err = freeAddr(); err != nil {
		return nil, err
	}
	if name == "flooded-tls" {
		if b.tls, err = certificate(b.dir); err != nil {
			return nil, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	stdio := strings.HasPrefix(name, "stdio")
	config := "version: 1\nserve:\n  stdio: true\n"
	if !stdio {
		config = "version: 1\nserve:\n  grpc: {addr: \"unix://" + b.grpc + "\"}\n  ops: {addr: \"" + b.ops +
			"\"}\n  http:\n    addr: 127.0.0.1:0" +
			strings.ReplaceAll(configs[strings.TrimSuffix(name, "-limits")], "<<issuer>>", issuer)
	}
	switch name {
	case "limits", "auth-limits":
		config += limits
	case "flooded", "flooded-tls":
		config += fmt.Sprintf("\nlimits: {calls: %d}", floodedCalls)
	}
	config += "\nbackends:\n  - name: attacked\n    launch: {command: [\"" + self + "\"], env: {" + journalVar +
		": \"" + b.journal + "\"}}\n"
	if name == "auth" {
		config += "    toolScopes: {secret: [admin]}\n"
	}
	file := filepath.Join(b.dir, "mcpbridge.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	b.cmd = exec.CommandContext(ctx, bin, "run", "--log-format", "json", "-c", file)
	b.cmd.Env = append(os.Environ(), "TMPDIR="+b.dir, "ALICE_TOKEN="+aliceToken, "BOB_TOKEN="+bobToken)
	stderr, err := b.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if stdio {
		if b.in, err = b.cmd.StdinPipe(); err != nil {
			return nil, err
		}
		out, err := b.cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		b.out = bufio.NewReaderSize(out, 1<<20)
	}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	urls := make(chan string, 1)
	go func() { // ends with the process, which stop waits for
		defer close(b.done)
		lines := bufio.NewReader(stderr)
		for {
			line, err := lines.ReadString('\n')
			b.mu.Lock()
			b.log = append(b.log, line...)
			b.mu.Unlock()
			for _, m := range readyURL.FindAllStringSubmatch(line, -1) {
				select {
				case urls <- m[1]:
				default:
				}
			}
			if err != nil {
				break
			}
		}
		_ = b.cmd.Wait() // stop checks ProcessState
	}()
	if strings.HasPrefix(name, "auth") {
		b.token = aliceToken
	}
	if stdio {
		return b, nil
	}
	select {
	case text := <-urls:
		u, err := url.Parse(text)
		if err != nil {
			return nil, err
		}
		b.addr = u.Host
		return b, nil
	case <-b.done:
		return nil, fmt.Errorf("%s: mcpbridge exited during startup: %s", name, b.logged())
	case <-time.After(30 * time.Second):
		return nil, errors.Join(fmt.Errorf("%s: mcpbridge was not ready within 30 s: %s", name, b.logged()), b.stop())
	}
}

// freeAddr returns a free loopback address.
func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

func (b *bridge) logged() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]byte(nil), b.log...)
}

func (b *bridge) alive() bool {
	select {
	case <-b.done:
		return false
	default:
		return true
	}
}

// stop stops the bridge, and returns an error unless it exits cleanly.
func (b *bridge) stop() error {
	if b.sse != nil {
		b.sse.close()
	}
	if b.in != nil {
		b.in.Close()
	}
	_ = syscall.Kill(b.cmd.Process.Pid, syscall.SIGTERM) // may have exited
	select {
	case <-b.done:
	case <-time.After(40 * time.Second):
		_ = syscall.Kill(b.cmd.Process.Pid, syscall.SIGKILL)
		<-b.done
		return errors.New(b.name + ": did not exit within 40 s of SIGTERM")
	}
	if code := b.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s: exited with %v", b.name, b.cmd.ProcessState)
	}
	return nil
}

// calls returns the number of calls that the backend received.
func (b *bridge) calls() int { return b.count("call ") }

func (b *bridge) count(prefix string) int {
	data, _ := os.ReadFile(b.journal) // does not exist before the backend starts
	n := 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// openFiles returns the number of open files of the bridge.
func (b *bridge) openFiles() int {
	all, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.cmd.Process.Pid)) // alive reports whether it exited
	return len(all)
}

// names returns the open files of the bridge.
func (b *bridge) names() (all []string) {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", b.cmd.Process.Pid)) // as above
	for _, link := range links {
		if name, err := os.Readlink(link); err == nil {
			all = append(all, name)
		}
	}
	return all
}

// memory returns the resident memory of the bridge in KiB.
func (b *bridge) memory() int {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.cmd.Process.Pid)) // as above
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	return 0
}

// setBaseline records the open files and the memory of the idle bridge.
func (b *bridge) setBaseline() { b.fds, b.rss = b.openFiles(), b.memory() }

// most is the tolerated growth of memory per row, in KiB.
const most = 192 << 10

// settled returns an error if a row leaked files or memory.
func (b *bridge) settled() error {
	if !b.alive() {
		return fmt.Errorf("%s: the bridge exited: %v", b.name, b.cmd.ProcessState)
	}
	end := time.Now().Add(3 * time.Second)
	for b.openFiles() > b.fds {
		if time.Now().After(end) {
			return fmt.Errorf("%s: got %d open files, want at most %d: %q", b.name, b.openFiles(), b.fds, b.names())
		}
		time.Sleep(5 * time.Millisecond) // the closing of a socket causes no event
	}
	if rss := b.memory(); rss > b.rss+most {
		return fmt.Errorf("%s: got %d KiB of memory, before the row %d KiB", b.name, rss, b.rss)
	}
	return nil
}

// checkLog returns an error if the log contains a forged line.
func (b *bridge) checkLog() error {
	for line := range strings.Lines(string(b.logged())) {
		line = strings.TrimSuffix(line, "\n")
		if strings.ContainsFunc(line,
			func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x9b || r == 0x2028 || r == 0x202e }) ||
			!json.Valid([]byte(line)) {
			return fmt.Errorf("%s: invalid line in the log: %.200q", b.name, line)
		}
		if len(line) > 9<<10 {
			return fmt.Errorf("%s: a line of the log has %d bytes", b.name, len(line))
		}
	}
	return nil
}
