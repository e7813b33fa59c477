package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A script is an attack of several steps. It returns its outcome, as words that the table compares.
type script func(ctx context.Context, r *rig, b *bridge, endpoint, arg string) (string, error)

var scripts = map[string]script{
	"refuses-to-start": refusesToStart,
	"slow-header":      slowHeader,
	"slow-body":        slowBody,
	"slow-idle":        slowIdle,
	"foreign-session":  foreignSession,
	"session-ids":      sessionIDs,
	"second-get":       secondGet,
	"delete-twice":     deleteTwice,
	"endpoint-event":   endpointEvent,
	"state":            alterState,
	"ids-apart":        idsApart,
	"two-clients":      twoClients,
	"hang-up":          hangUp,
	"sessions-limit":   sessionsLimit,
	"streams-limit":    streamsLimit,
	"calls-limit":      callsLimit,
	"stdio-pieces":     stdioPieces,
	"stdio-flood":      stdioFlood,
	"pipelined":        pipelined,
	"half-then-good":   halfThenGood,
	"other-uid":        socketModes,
	"accept-flood":     acceptFlood,
	"slow-h2":          floodFrames,
	"slow-pings":       onlyPings,
	"header-bytes":     headerBytes,
}

// refusesToStart starts a bridge with arg as its configuration, and returns its exit code. If arg starts with
// "# writable", other users can write the file.
func refusesToStart(ctx context.Context, r *rig, b *bridge, _, arg string) (string, error) {
	dir, err := os.MkdirTemp(b.dir, "start")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "mcpbridge.yaml")
	text, err := fill(arg, templateData{}, r.funcs)
	if err != nil {
		return "", err
	}
	mode := os.FileMode(0o600)
	if rest, ok := strings.CutPrefix(text, "# writable\n"); ok {
		text, mode = rest, 0o666
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		return "", err
	}
	if err := os.Chmod(file, mode); err != nil { // regardless of the umask
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.bin, "run", "--log-format", "json", "-c", file)
	cmd.Env = append(os.Environ(), "CANARY=canary-of-a-row")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if ctx.Err() != nil {
		return "it-runs", nil
	}
	if strings.Contains(out.String(), "canary-of-a-row") {
		return "", errors.New("the output contains a secret")
	}
	if strings.Contains(out.String(), "goroutine ") {
		return "", fmt.Errorf("it panicked: %.1000s", out.String())
	}
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return "exit" + strconv.Itoa(e.ExitCode()), nil
	}
	return "exit0", err
}

// slowHeader opens many connections that send a header one byte at a time. It fails if they stay open, or if requests
// of other clients fail.
func slowHeader(ctx context.Context, r *rig, b *bridge, _, arg string) (string, error) {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return "", err
	}
	good := func() error {
		a, err := roundTrip(b.addr, b.plain(`{"jsonrpc":"2.0","id":1,"method":"nothing"}`))
		if err == nil && a.StatusCode != http.StatusBadRequest {
			err = errors.New(a.Status)
		}
		return err
	}
	before, err := sendLoad(ctx, 2*time.Second, good)
	if err != nil {
		return "", err
	}
	var wg sync.WaitGroup
	lived := make(chan time.Duration, n)
	for range n {
		c, err := net.Dial("tcp", b.addr)
		if err != nil {
			return "", err
		}
		wg.Go(func() { lived <- drip(c) })
	}
	during, err := sendLoad(ctx, 2*time.Second, good)
	wg.Wait()
	if err != nil {
		return "", fmt.Errorf("other clients during the attack: %w", err)
	}
	close(lived)
	var longest time.Duration
	for d := range lived {
		longest = max(longest, d)
	}
	r.printf("B01 %d connections, the last closed after %v; other clients: %s before, %s during", n,
		longest.Round(100*time.Millisecond), before, during)
	switch {
	case longest > 8*time.Second:
		return "", fmt.Errorf("a connection was open for %v", longest)
	case during.done*100 < during.sent*95:
		return "", fmt.Errorf("other clients: %s before, %s during", before, during)
	}
	return "closed", ctx.Err()
}

// drip sends a byte of a header every second, and returns the time until the bridge closes the connection.
func drip(c net.Conn) time.Duration {
	defer c.Close()
	began := time.Now()
	_, _ = c.Write([]byte("POST /mcp HTTP/1.1\r\nX-A: ")) // the loop detects errors
	for one := []byte{0}; time.Since(began) < 20*time.Second; {
		_ = c.SetReadDeadline(time.Now().Add(time.Second)) // of a socket that is open
		_, err := c.Read(one)
		if ne, ok := errors.AsType[net.Error](err); err != nil && (!ok || !ne.Timeout()) {
			break
		}
		if _, err := c.Write([]byte("a")); err != nil {
			break
		}
	}
	return time.Since(began)
}

// A loadResult is the result of requests that were sent a hundred times a second, without waiting for responses.
type loadResult struct {
	sent, done int
	p50, p99   time.Duration
	first      error // the first failure
}

func (p loadResult) String() string {
	return fmt.Sprintf("%d of %d (p50 %.1f ms, p99 %.1f ms)", p.done, p.sent, p.p50.Seconds()*1000,
		p.p99.Seconds()*1000)
}

// sendLoad sends valid requests for a while. It returns an error if all fail.
func sendLoad(ctx context.Context, long time.Duration, good func() error) (loadResult, error) {
	var mu sync.Mutex // guards what follows
	var took []time.Duration
	var first error
	var wg sync.WaitGroup
	var p loadResult
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(long); time.Now().Before(end) && ctx.Err() == nil; p.sent++ {
		<-tick.C
		wg.Go(func() {
			began := time.Now()
			err := good()
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				took = append(took, time.Since(began))
			} else if first == nil {
				first = err
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	if p.done = len(took); p.done == 0 {
		return p, errors.Join(errors.New("every request failed"), first)
	}
	p.first = first
	p.p50, p.p99 = took[p.done/2], took[p.done*99/100]
	return p, nil
}

// ended waits until the bridge closes a connection.
func ended(c net.Conn, most time.Duration) error {
	if err := c.SetReadDeadline(time.Now().Add(most)); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, c)
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		return fmt.Errorf("the connection is still open after %v", most)
	}
	return nil
}

// slowBody sends a body one byte at a time. If arg is not empty, it is the request line.
func slowBody(_ context.Context, _ *rig, b *bridge, _, arg string) (string, error) {
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	q := b.plain("{")
	q.set("Content-Length", "1000")
	if arg != "" {
		q.line = arg
	}
	if _, err := c.Write(q.bytes()); err != nil {
		return "", err
	}
	stop := make(chan struct{})
	defer close(stop)
	go func() { // ends with this function, or the connection
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
				if _, err := c.Write([]byte(" ")); err != nil {
					return
				}
			}
		}
	}()
	if err := ended(c, 40*time.Second); err != nil {
		return "", err
	}
	return "closed", nil
}

// slowIdle opens a connection and sends nothing.
func slowIdle(_ context.Context, _ *rig, b *bridge, _, _ string) (string, error) {
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := ended(c, 15*time.Second); err != nil {
		return "", err
	}
	return "closed", nil
}

// foreignSession uses the session of another principal. The response must be the same as for an unknown session.
func foreignSession(_ context.Context, _ *rig, b *bridge, endpoint, _ string) (string, error) {
	r, s, err := b.base(endpoint)
	if err != nil {
		return "", err
	}
	if r.body != nil {
		r.body = []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{}}}`)
	}
	r.set("Authorization", "Bearer "+bobToken)
	var got [2]string
	for i := range got {
		if i == 1 { // an unknown session id of the same length
			if s.Session != "" {
				r.set("Mcp-Session-Id", strings.Repeat("A", len(s.Session)))
			} else {
				path, id, _ := strings.Cut(s.Target, "=")
				r.line = "POST " + path + "=" + strings.Repeat("A", len(id)) + " HTTP/1.1"
			}
		}
		a, err := roundTrip(b.addr, r)
		if err != nil {
			return "", err
		}
		a.Header.Del("Date")
		o := a.outcome()
		got[i] = fmt.Sprint(a.StatusCode, o.header, string(a.body))
	}
	if got[0] != got[1] {
		return "", fmt.Errorf("session of another principal: %s; unknown session: %s", got[0], got[1])
	}
	return got[0][:3] + " same", b.again(endpoint, nil, &outcome{})
}

// sessionIDs checks the ids of many sessions.
func sessionIDs(_ context.Context, _ *rig, b *bridge, endpoint, arg string) (string, error) {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return "", err
	}
	seen := map[string]bool{}
	for range n {
		id, err := b.newSession(revision(endpoint))
		if err != nil {
			return "", err
		}
		if len(id) < 26 || seen[id] || strings.ContainsFunc(id, func(r rune) bool { return r < '!' || r > '~' }) {
			return "", fmt.Errorf("session id %q: too short, a duplicate, or not visible ASCII", id)
		}
		seen[id] = true
		if o, err := b.remove(id); err != nil || o.status != http.StatusNoContent {
			return "", fmt.Errorf("DELETE: %s %w", o, err)
		}
	}
	return "unguessable", nil
}

func (b *bridge) remove(id string) (outcome, error) {
	d := b.plain("")
	d.method, d.line, d.body = http.MethodDelete, "DELETE /mcp HTTP/1.1", nil
	d.set("Mcp-Session-Id", id)
	a, err := roundTrip(b.addr, d)
	if err != nil {
		return outcome{}, err
	}
	return a.outcome(), nil
}

// listen opens the stream of a session, and returns the connection and the status.
func (b *bridge) listen(id string) (net.Conn, int, error) {
	g := b.plain("")
	g.method, g.line, g.body = http.MethodGet, "GET /mcp HTTP/1.1", nil
	g.set("Accept", "text/event-stream")
	if id != "" {
		g.set("Mcp-Session-Id", id)
	}
	c, err := net.DialTimeout("tcp", b.addr, responseTimeout)
	if err != nil {
		return nil, 0, err
	}
	_ = c.SetDeadline(time.Now().Add(responseTimeout)) // no error: the socket is open
	if _, err := c.Write(g.bytes()); err != nil {
		c.Close()
		return nil, 0, err
	}
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodGet})
	if err != nil {
		c.Close()
		return nil, 0, err
	}
	return c, res.StatusCode, nil
}

func secondGet(_ context.Context, _ *rig, b *bridge, endpoint, _ string) (string, error) {
	id, err := b.newSession(revision(endpoint))
	if err != nil {
		return "", err
	}
	first, status, err := b.listen(id)
	if err != nil {
		return "", err
	}
	defer first.Close()
	second, status2, err := b.listen(id)
	if err != nil {
		return "", err
	}
	second.Close()
	_ = first.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // as above
	_, err = io.Copy(io.Discard, first)                              // in some revisions a priming event
	if ne, ok := errors.AsType[net.Error](err); !ok || !ne.Timeout() {
		return "", errors.Join(errors.New("the first stream ended"), err)
	}
	_, err = b.remove(id)
	return fmt.Sprint(status, " then-", status2), err
}

func deleteTwice(ctx context.Context, _ *rig, b *bridge, endpoint, _ string) (string, error) {
	id, err := b.newSession(revision(endpoint))
	if err != nil {
		return "", err
	}
	canceled := b.count("canceled ")
	calls := b.calls()
	call := b.plain(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"hang","arguments":{}}}`)
	call.set("Mcp-Session-Id", id)
	answered := make(chan error, 1)
	go func() { // ends with the call
		_, err := roundTrip(b.addr, call)
		if errors.Is(err, errNoAnswer) {
			err = nil
		}
		answered <- err
	}()
	if err := until(ctx, func() bool { return b.calls() > calls }); err != nil {
		return "", err
	}
	first, err := b.remove(id)
	if err != nil {
		return "", err
	}
	if err := until(ctx, func() bool { return b.count("canceled ") > canceled }); err != nil {
		return "", fmt.Errorf("the call was not canceled: %w", err)
	}
	second, err := b.remove(id)
	return fmt.Sprint(first.status, " then-", second.status), errors.Join(err, <-answered)
}

// until waits for a condition in another process.
func until(ctx context.Context, is func() bool) error {
	end := time.Now().Add(responseTimeout)
	for !is() {
		if time.Now().After(end) || ctx.Err() != nil {
			return errors.New("timeout")
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil
}

func endpointEvent(_ context.Context, _ *rig, b *bridge, _, _ string) (string, error) {
	if err := b.openSSE(); err != nil {
		return "", err
	}
	path, id, ok := strings.Cut(b.sse.endpoint, "?sessionId=")
	if !ok || path != "/mcp" || len(id) < 26 {
		return "", fmt.Errorf("got endpoint %q", b.sse.endpoint)
	}
	return "relative", nil
}

// callOf returns the text of a modern call.
func callOf(tool, arguments, more string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + modernMeta + `,"name":"` + tool +
		`","arguments":` + arguments + more + `}}`
}

// callTool sends a modern call to a bridge, and returns the response.
func (b *bridge) callTool(tool, body, token string) (outcome, []byte, error) {
	if b.in != nil {
		if _, err := b.in.Write([]byte(body + "\n")); err != nil {
			return outcome{}, nil, err
		}
		data, err := b.line()
		o := outcome{}
		record(&o, data)
		return o, data, err
	}
	q := b.plain(body)
	q.set("Mcp-Protocol-Version", revisions["07"])
	q.set("Mcp-Method", "tools/call")
	q.set("Mcp-Name", tool)
	if token != "" {
		q.set("Authorization", "Bearer "+token)
	}
	a, err := roundTrip(b.addr, q)
	if err != nil {
		return outcome{}, nil, err
	}
	return a.outcome(), a.body, nil
}

// alterState calls a tool that requires input, and repeats the call with the request state altered as arg specifies.
func alterState(_ context.Context, _ *rig, b *bridge, _, arg string) (string, error) {
	_, data, err := b.callTool("ask", callOf("ask", `{"a":1}`, ""), "")
	if err != nil {
		return "", err
	}
	var m struct {
		Result struct {
			RequestState string `json:"requestState"`
		} `json:"result"`
	}
	if err := json.Unmarshal(data, &m); err != nil || m.Result.RequestState == "" {
		return "", fmt.Errorf("no request state: %s %w", data, err)
	}
	state, tool, arguments, token := m.Result.RequestState, "ask", `{"a":1}`, ""
	raw, err := base64.RawURLEncoding.DecodeString(state)
	if err != nil {
		return "", fmt.Errorf("the request state is not base64url: %w", err)
	}
	switch arg {
	case "same", "again", "lines":
	case "flip-first":
		raw[0] ^= 1
	case "flip-middle":
		raw[len(raw)/2] ^= 1
	case "flip-last":
		raw[len(raw)-1] ^= 1
	case "truncated":
		raw = raw[:len(raw)-1]
	case "half":
		raw = raw[:len(raw)/2]
	case "longer":
		raw = append(raw, 0)
	case "empty":
		raw = nil
	case "invented":
		raw = bytes.Repeat([]byte("A"), len(raw))
	case "huge":
		raw = bytes.Repeat([]byte("A"), 1<<20)
	case "other-tool":
		tool = "ask2"
	case "other-arguments":
		arguments = `{"a":2}`
	case "more-arguments":
		arguments = `{"a":1,"b":1}`
	case "other-principal":
		token = bobToken
	default:
		return "", fmt.Errorf("unknown alteration %q", arg)
	}
	text := strconv.Quote(base64.RawURLEncoding.EncodeToString(raw))
	switch arg {
	case "empty":
		text = `""`
	case "lines":
		text = text[:len(text)/2] + `\r\n` + text[len(text)/2:]
	}
	body := callOf(tool, arguments,
		`,"inputResponses":{"name":{"action":"accept","content":{"name":"x"}}},"requestState":`+text)
	o, _, err := b.callTool(tool, body, token)
	if arg == "again" && err == nil {
		o, _, err = b.callTool(tool, body, token)
	}
	return o.String(), err
}

// idsApart sends concurrent calls with the ids 1 and "1".
func idsApart(_ context.Context, _ *rig, b *bridge, endpoint, _ string) (string, error) {
	meta, id := "", ""
	if endpoint == "m07-post" || endpoint == "stdio07" {
		meta = modernMeta + ","
	}
	var err error
	if strings.HasPrefix(endpoint, "sh") {
		if id, err = b.session(endpoint); err != nil {
			return "", err
		}
	}
	body := func(id, x string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{` + meta +
			`"name":"echo","arguments":{"x":"` + x + `"}}}`
	}
	answers := make(chan []byte, 2)
	errs := make(chan error, 2)
	pairs := [][2]string{{"1", "number"}, {`"1"`, "string"}}
	if b.in != nil {
		for _, p := range pairs {
			if _, err := b.in.Write([]byte(body(p[0], p[1]) + "\n")); err != nil {
				return "", err
			}
		}
		for range pairs {
			data, err := b.line()
			answers <- data
			errs <- err
		}
	} else {
		for _, p := range pairs {
			q := b.plain(body(p[0], p[1]))
			if id != "" {
				q.set("Mcp-Session-Id", id)
			}
			if meta != "" {
				q.set("Mcp-Protocol-Version", revisions["07"])
				q.set("Mcp-Method", "tools/call")
				q.set("Mcp-Name", "echo")
			}
			go func() {
				a, err := roundTrip(b.addr, q)
				if a == nil {
					a = &answer{}
				}
				data := a.body
				if all := events(data); len(all) > 0 {
					data = all[len(all)-1]
				}
				answers <- data
				errs <- err
			}()
		}
	}
	for range pairs {
		data, err := <-answers, <-errs
		if err != nil {
			return "", err
		}
		want := "string"
		if bytes.Contains(data, []byte(`"id":1,`)) {
			want = "number"
		}
		if !bytes.Contains(data, []byte(want)) {
			return "", fmt.Errorf("the response has the id of another call: %s", data)
		}
	}
	return "apart", nil
}

// twoClients sends concurrent calls of two sessions with the same ids.
func twoClients(_ context.Context, _ *rig, b *bridge, endpoint, arg string) (string, error) {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return "", err
	}
	meta := ""
	if endpoint == "m07-post" {
		meta = modernMeta + ","
	}
	var wg sync.WaitGroup
	errs := make(chan error, 2*n)
	var ids []string
	defer func() {
		for _, id := range ids {
			_, _ = b.remove(id) // the check for leaks detects a session that remains
		}
	}()
	for client := range 2 {
		id := ""
		if meta == "" {
			if id, err = b.newSession(revision(endpoint)); err != nil {
				return "", err
			}
			ids = append(ids, id)
		}
		for k := range n {
			wg.Go(func() {
				mark := fmt.Sprintf("client-%d-call-%d-", client, k)
				q := b.plain(fmt.Sprintf(
					`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s"name":"echo","arguments":{"x":%q}}}`,
					k, meta, mark))
				if id != "" {
					q.set("Mcp-Session-Id", id)
				} else {
					q.set("Mcp-Protocol-Version", revisions["07"])
					q.set("Mcp-Method", "tools/call")
					q.set("Mcp-Name", "echo")
				}
				a, err := roundTrip(b.addr, q)
				if err != nil {
					errs <- err
				} else if !bytes.Contains(a.body, []byte(mark)) && !bytes.Contains(a.body, []byte("OVERLOADED")) {
					errs <- fmt.Errorf("call %d of client %d was answered with %s", k, client, a.body)
				}
			})
		}
	}
	wg.Wait()
	select {
	case err := <-errs:
		return "", err
	default:
		return "apart", nil
	}
}

// hangUp disconnects during requests, at different bytes.
func hangUp(_ context.Context, r *rig, b *bridge, endpoint, _ string) (string, error) {
	q, s, err := b.base(endpoint)
	if err != nil {
		return "", err
	}
	if q.body != nil {
		body, err := fill(echoCall, s, r.funcs)
		if err != nil {
			return "", err
		}
		q.body = []byte(body)
	}
	text := q.bytes()
	for cut := 1; cut < len(text)-1; cut += 1 + len(text)/40 {
		c, err := net.Dial("tcp", b.host(endpoint))
		if err != nil {
			return "", err
		}
		if _, err := c.Write(text[:cut]); err != nil {
			return "", err
		}
		if cut%2 == 0 {
			_ = c.(*net.TCPConn).SetLinger(0) // closes with a reset
		}
		c.Close()
	}
	return "survived", b.again(endpoint, nil, &outcome{})
}

// sessionsLimit starts as many sessions as the limit allows, and one more.
func sessionsLimit(_ context.Context, _ *rig, b *bridge, endpoint, arg string) (string, error) {
	most, err := strconv.Atoi(arg)
	if err != nil {
		return "", err
	}
	var ids []string
	defer func() {
		for _, id := range ids {
			_, _ = b.remove(id) // if one remains, the next row fails
		}
		b.sessions = map[string]string{}
		if b.sse != nil {
			b.sse.close()
			b.sse = nil
		}
	}()
	for _, id := range b.sessions {
		ids = append(ids, id)
	}
	there := len(ids)
	if b.sse != nil {
		there++
	}
	for ; there < most; there++ {
		id, err := b.newSession(revision(endpoint))
		if err != nil {
			return "", fmt.Errorf("session %d of %d: %w", there+1, most, err)
		}
		ids = append(ids, id)
	}
	for _, id := range ids { // unused sessions would be replaced
		ping := b.plain(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		ping.set("Mcp-Session-Id", id)
		if a, err := roundTrip(b.addr, ping); err != nil || a.StatusCode != http.StatusOK {
			return "", fmt.Errorf("ping: %v, %w", a, err)
		}
	}
	a, err := roundTrip(b.addr, b.plain(initialize(revision(endpoint))))
	if err != nil {
		return "", err
	}
	if a.Header.Get("Retry-After") == "" {
		return "", errors.New("the response has no Retry-After")
	}
	return fmt.Sprint("one-more-", a.StatusCode), nil
}

// streamsLimit opens as many streams as the limit allows, and one more.
func streamsLimit(_ context.Context, _ *rig, b *bridge, _, arg string) (string, error) {
	most, err := strconv.Atoi(arg)
	if err != nil {
		return "", err
	}
	if b.sse != nil {
		most--
	}
	var open []io.Closer
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for n := range most + 1 {
		c, status, err := b.listen("")
		if err != nil {
			return "", err
		}
		open = append(open, c)
		if n < most && status != http.StatusOK {
			return "", fmt.Errorf("stream %d of %d: %d", n+1, most, status)
		}
		if n == most {
			return fmt.Sprint("one-more-", status), nil
		}
	}
	return "", errors.New("unreachable")
}

// stdioPieces writes a call with other line breaks, blank lines, or one byte at a time.
func stdioPieces(_ context.Context, r *rig, b *bridge, _, arg string) (string, error) {
	s := templateData{}
	if b.name == "stdio07" {
		s.M = modernMeta + ","
	}
	good, err := fill(echoCall, s, r.funcs)
	if err != nil {
		return "", err
	}
	switch arg {
	case "crlf":
		good = "\r\n\r\n  \r\n" + good + "\r\n"
	case "blank":
		good = "\n\n \t\n" + good + "\n\n\n"
	case "bytes":
		for i := range len(good) {
			if _, err := b.in.Write([]byte{good[i]}); err != nil {
				return "", err
			}
		}
		good = "\n"
	default:
		return "", fmt.Errorf("unknown pieces %q", arg)
	}
	if _, err := b.in.Write([]byte(good)); err != nil {
		return "", err
	}
	data, err := b.line()
	o := outcome{}
	record(&o, data)
	return o.String(), err
}

// stdioFlood writes garbage at full speed, or a line of 64 MiB, and then a valid request.
func stdioFlood(_ context.Context, _ *rig, b *bridge, _, arg string) (string, error) {
	before := b.memory()
	line := bytes.Repeat([]byte("x"), 64<<10)
	end := time.Now().Add(2 * time.Second)
	written := make(chan error, 1)
	go func() { // ends after two seconds, or when the bridge exits
		var err error
		for n := 0; err == nil && (arg == "lines" && time.Now().Before(end) || arg == "one" && n < 64<<4); n++ {
			if arg == "lines" {
				_, err = b.in.Write([]byte("garbage\n"))
			} else {
				_, err = b.in.Write(line)
			}
		}
		if err == nil {
			_, err = b.in.Write([]byte("\n" + `{"jsonrpc":"2.0","id":"last","method":"server/discover","params":{` +
				modernMeta + `}}` + "\n"))
		}
		written <- err
	}()
	errorsSeen := 0
	for {
		data, err := b.line()
		if err != nil {
			return "", err
		}
		if bytes.Contains(data, []byte(`"id":"last"`)) {
			break
		}
		errorsSeen++
	}
	if err := <-written; err != nil {
		return "", err
	}
	allowed := 40 << 10
	if arg == "lines" {
		allowed = 96 << 10 // the heap may grow by the size of the ballast before it is collected
	}
	if grown := b.memory() - before; grown > allowed {
		return "", fmt.Errorf("memory grew by %d KiB", grown)
	}
	if errorsSeen == 0 || errorsSeen > 100+100*6 {
		return "", fmt.Errorf("got %d errors", errorsSeen)
	}
	return "bounded", nil
}

// pipelined sends two requests in one write. The first one has a foreign Host, or is of HTTP/1.0 with a chunked body,
// which some parsers ignore.
func pipelined(_ context.Context, _ *rig, b *bridge, _, arg string) (string, error) {
	l, err := dial(b.addr)
	if err != nil {
		return "", err
	}
	defer l.Close()
	bad := b.plain(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`)
	if arg == "HTTP/1.0" {
		bad.line, bad.body = "POST /mcp HTTP/1.0", []byte{}
		bad.set("Connection", "keep-alive")
		bad.set("Transfer-Encoding", "chunked")
	} else {
		bad.set("Host", "evil.example")
	}
	good := b.plain(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo"}}`)
	if _, err := l.Write(append(bad.bytes(), good.bytes()...)); err != nil {
		return "", err
	}
	_ = l.SetReadDeadline(time.Now().Add(responseTimeout)) // no error: the socket is open
	all, _ := io.ReadAll(l)                                // until the connection is closed or reset
	return fmt.Sprint(bytes.Count(all, []byte("HTTP/1.")), "-answers ", string(all[9:min(12, len(all))])), nil
}

// halfThenGood sends a body that is itself a request. The bridge must not execute it.
func halfThenGood(_ context.Context, _ *rig, b *bridge, _, _ string) (string, error) {
	inner := b.plain(callOf("echo", "{}", ""))
	inner.set("Mcp-Protocol-Version", revisions["07"])
	inner.set("Mcp-Method", "tools/call")
	inner.set("Mcp-Name", "echo")
	outer := b.plain(string(inner.bytes()))
	a, err := roundTrip(b.addr, outer)
	if err != nil {
		return "", err
	}
	o := a.outcome()
	return o.String(), nil
}

// socketModes fails if other users can access a socket of the bridge.
func socketModes(_ context.Context, _ *rig, b *bridge, _, _ string) (string, error) {
	n := 0
	err := filepath.WalkDir(b.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Type()&os.ModeSocket == 0 {
			return err
		}
		n++
		info, err := d.Info()
		if err != nil {
			return err
		}
		parent, err := os.Stat(filepath.Dir(path))
		if err != nil {
			return err
		}
		if info.Mode()&0o077 != 0 && parent.Mode()&0o077 != 0 {
			return fmt.Errorf("%s: accessible to other users", path)
		}
		return nil
	})
	if n == 0 && err == nil {
		err = errors.New("found no socket")
	}
	return "closed-to-others", err
}

// acceptFlood opens many connections, and sends a request while they are open.
func acceptFlood(_ context.Context, _ *rig, b *bridge, _, arg string) (string, error) {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return "", err
	}
	var open []net.Conn
	for range n {
		c, err := net.Dial("tcp", b.addr)
		if err != nil {
			return "", err
		}
		open = append(open, c)
	}
	_, err = roundTrip(b.addr, b.plain(`{"jsonrpc":"2.0","id":1,"method":"nothing"}`))
	for _, c := range open {
		c.Close()
	}
	return "served", err
}

// headerBytes sends a request whose line and header have arg bytes in total, and returns the status.
func headerBytes(_ context.Context, _ *rig, b *bridge, _, arg string) (string, error) {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return "", err
	}
	q := b.plain("")
	q.method, q.line, q.body = http.MethodDelete, "DELETE /mcp HTTP/1.1", nil
	q.set("X-Long", "")
	q.set("X-Long", strings.Repeat("a", n-len(q.bytes())))
	if got := len(q.bytes()); got != n {
		return "", fmt.Errorf("got a header of %d bytes", got)
	}
	a, err := roundTrip(b.addr, q)
	if err != nil {
		return "", err
	}
	return strconv.Itoa(a.StatusCode), nil
}
