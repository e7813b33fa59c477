package app

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/auth"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/config"
	"github.com/mcpbridge/mcpbridge/internal/lifecycle"
	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// An edge is an HTTP front and the log of it.
type edge struct {
	*httpFront
	log   bridgetest.Log
	conns chan net.Conn // of clients that have made up addresses
}

// crowd serves HTTP with TLS if protection is not nil, and for one token if that is not empty, with at most so many
// connections.
func crowd(t *testing.T, most int, token string, protection *tls.Config, set limits.Limits) *edge {
	t.Helper()
	c := &edge{}
	var ln net.Listener
	if protection == nil {
		c.conns = make(chan net.Conn)
		ln = &pipeListener{conns: c.conns, done: make(chan struct{})}
	} else {
		var err error
		if ln, err = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	cfg := &config.Config{Settings: config.Settings{Limits: set}}
	cfg.Serve.HTTP.Path = "/mcp"
	a := &App{cfg: cfg, lifecycle: lifecycle.New(), tls: protection}
	a.http, a.Log = ln, zerolog.New(&c.log).Level(zerolog.WarnLevel)
	var err error
	if token != "" {
		if a.auth, err = auth.New(auth.Options{Tokens: []auth.Token{{Token: token, Subject: "ada"}}}); err != nil {
			t.Fatal(err)
		}
	}
	a.endpoint = a.newEndpoint("",
		bridge.HandlerFunc(func(_ context.Context, call *bridge.Call, _ bridge.Emit) (*bridge.Result, error) {
			return &bridge.Result{Complete: call.Method.NewResult()}, nil
		}), nil)
	if c.httpFront, err = a.newHTTPFront(); err != nil {
		t.Fatal(err)
	}
	c.port.MaxConns = most
	served := make(chan error, 1)
	go func() { served <- c.serve() }()
	t.Cleanup(func() {
		c.end(t.Context())
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return c
}

// A remote is a connection with another remote address.
type remote struct {
	net.Conn
	from net.Addr
}

func (r *remote) RemoteAddr() net.Addr { return r.from }

// A visitor is a client of HTTP/1.1.
type visitor struct {
	net.Conn
	in *bufio.Reader
}

// dial connects from an address.
func (c *edge) dial(t *testing.T, from string) *visitor {
	t.Helper()
	client, server := net.Pipe()
	t.Cleanup(func() { client.Close() })
	c.conns <- &remote{server, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))}
	return &visitor{client, bufio.NewReader(client)}
}

const listing = `{"jsonrpc":"2.0","id":1,"method":"nothing","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`

// request sends a request and returns the status of its response, or 0 if the connection is closed.
func (v *visitor) request(t *testing.T, method, body string, header ...string) *http.Response {
	t.Helper()
	if err := v.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	head := method + " /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n" +
		strings.Join(append(header, ""), "\r\n")
	if method == http.MethodPost {
		head += "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	if _, err := io.WriteString(v, head+"\r\n"+body); err != nil {
		return &http.Response{Status: err.Error()}
	}
	res, err := http.ReadResponse(v.in, nil)
	if err != nil {
		return &http.Response{Status: err.Error()}
	}
	if res.Header.Get("Content-Type") != "text/event-stream" {
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
	}
	return res
}

func (v *visitor) list(t *testing.T, header ...string) int {
	t.Helper()
	return v.request(t, http.MethodPost, listing,
		append(header, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: nothing")...).StatusCode
}

// closed reports whether the server has closed the connection.
func (v *visitor) closed() bool {
	_ = v.SetReadDeadline(time.Now().Add(time.Millisecond)) // fails if it is closed
	_, err := v.in.Peek(1)
	_ = v.SetReadDeadline(time.Now().Add(time.Minute))
	return errors.Is(err, io.EOF)
}

// Unauthenticated clients that hold connections to the HTTP port do not exclude other clients: one address cannot take
// all places, new clients are served, and clients that have presented a valid token keep their connections.
func TestUnauthenticatedHTTPConnectionsAreClosedForNewOnes(t *testing.T) {
	const most = 8
	const token = "Authorization: Bearer sesame"
	for name, hold := range map[string]func(*testing.T, *visitor){
		"nothing": func(*testing.T, *visitor) {},
		"a header without end": func(t *testing.T, v *visitor) {
			t.Helper()
			if _, err := io.WriteString(v, "POST /mcp HTTP/1.1\r\nHost: localhost\r\n"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := crowd(t, most, "sesame", nil, limits.Limits{})
			known := c.dial(t, "10.0.0.1:1")
			if got := known.list(t, token); got != http.StatusNotFound {
				t.Fatalf("a caller with a token: %d", got)
			}
			var held []*visitor
			for i := range 3 * most {
				v := c.dial(t, "10.0.0.2:"+strconv.Itoa(i+1))
				hold(t, v)
				held = append(held, v)
			}
			if got := c.dial(t, "10.0.0.3:1").list(t, token); got != http.StatusNotFound {
				t.Errorf("a new client: %d", got)
			}
			if got := c.dial(t, "10.0.0.3:2").list(t); got != http.StatusUnauthorized {
				t.Errorf("a new client without a token: %d", got)
			}
			if got := known.list(t, token); got != http.StatusNotFound {
				t.Errorf("a client that was known: %d", got)
			}
			left := 0
			for _, v := range held {
				if !v.closed() {
					left++
				}
			}
			if left == 0 || left > most*3/4 {
				t.Errorf("one address has %d of %d connections", left, most)
			}
			if got := c.log.String(); strings.Count(got, "too many HTTP connections") != 1 ||
				!strings.Contains(got, `"limit":8`) {
				t.Errorf("got the log %s", got)
			}
		})
	}
}

// A connection that has presented a valid token is never closed for another one.
func TestAuthenticatedConnectionsAreKept(t *testing.T) {
	const token = "Authorization: Bearer sesame"
	c := crowd(t, 1, "sesame", nil, limits.Limits{})
	known := c.dial(t, "10.0.0.1:1")
	known.list(t, token)
	second := c.dial(t, "10.0.0.2:1")
	c.dial(t, "10.0.0.2:2") // comes when the second was refused
	if got := known.list(t, token); got != http.StatusNotFound || !second.closed() {
		t.Errorf("its next request: %d, a new connection is closed: %t", got, second.closed())
	}
}

// A stream counts as a call, also once its connection is hijacked from net/http: it is never closed for another one.
// After its end, its connection closes.
func TestHTTPStreamsAreNotClosedForNewConnections(t *testing.T) {
	c := crowd(t, 1, "", nil, limits.Limits{})
	v := c.dial(t, "10.0.0.1:1")
	res := v.request(t, http.MethodPost,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	session := "Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id")
	if res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	if res = v.request(t, http.MethodGet, "", session,
		"MCP-Protocol-Version: 2025-11-25"); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	// The second is refused as soon as it has come, and the third comes after it.
	second := c.dial(t, "10.0.0.2:1")
	c.dial(t, "10.0.0.2:2")
	if !second.closed() || v.closed() {
		t.Errorf("closed are the stream: %t, a new connection: %t", v.closed(), second.closed())
	}
	c.lifecycle.Advance(lifecycle.Draining) // which ends the stream, and with that its connection
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Error(err)
	}
}

// A peer is a client of HTTP/2 that sends what no library would.
type peer struct {
	*tls.Conn
	*http2.Framer
	headers bytes.Buffer
	enc     *hpack.Encoder
}

func (c *edge) dialH2(t *testing.T) *peer {
	t.Helper()
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}).
		DialContext(t.Context(), "tcp", c.ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	p := &peer{Conn: conn.(*tls.Conn), Framer: http2.NewFramer(conn, conn)}
	p.AllowIllegalWrites = true
	p.enc = hpack.NewEncoder(&p.headers)
	if err := p.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := p.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return p
}

// begin sends the header of request number i.
func (p *peer) begin(i int, end bool) error {
	p.headers.Reset()
	for _, h := range [][2]string{
		{":method", "POST"},
		{":scheme", "https"},
		{":path", "/mcp"},
		{":authority", "localhost"},
		{"content-type", "application/json"},
		{"accept", "application/json, text/event-stream"},
		{"mcp-protocol-version", "2026-07-28"},
		{"mcp-method", "nothing"},
	} {
		if err := p.enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			return err
		}
	}
	return p.WriteHeaders(http2.HeadersFrameParam{
		StreamID: uint32(2*i + 1), BlockFragment: p.headers.Bytes(),
		EndHeaders: end,
	})
}

// farewell reads until the connection ends, and returns with which GOAWAY. It answers PINGs if ping is not nil, and
// sends more.
func (p *peer) farewell() (code http2.ErrCode, received bool) {
	for {
		frame, err := p.ReadFrame()
		if err != nil {
			return code, received
		}
		if bye, ok := frame.(*http2.GoAwayFrame); ok {
			code, received = bye.ErrCode, true
		}
	}
}

func serverTLS(t *testing.T) *tls.Config {
	t.Helper()
	dir := t.TempDir()
	cert, key, _ := bridgetest.Certificates(t, dir)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err, filepath.Base(dir))
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
	}
}

// An HTTP/2 client that floods, with frames that request nothing or with resets, receives GOAWAY and loses its
// connection, and the log has a line about it. Others are served.
func TestHTTP2FloodClosesTheConnection(t *testing.T) {
	bridgetest.SkipIfShort(t)
	config := serverTLS(t)
	for name, flood := range map[string]func(p *peer, i int) error{
		"resets": func(p *peer, i int) error {
			return errors.Join(p.begin(i, true), p.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel))
		},
		"settings": func(p *peer, _ int) error {
			return p.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
		},
		"pings":      func(p *peer, _ int) error { return p.WritePing(false, [8]byte{1}) },
		"priorities": func(p *peer, _ int) error { return p.WritePriority(1, http2.PriorityParam{StreamDep: 3}) },
		"windows":    func(p *peer, _ int) error { return p.WriteWindowUpdate(0, 1) },
		"unknown kinds": func(p *peer, _ int) error {
			return p.WriteRawFrame(0x42, 0xff, 1, nil)
		},
		"empty data": func(p *peer, i int) error {
			if i == 0 {
				return p.begin(0, true)
			}
			return p.WriteData(1, false, nil)
		},
		"continuations": func(p *peer, i int) error {
			if i == 0 {
				return p.begin(0, false)
			}
			return p.WriteContinuation(1, false, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := crowd(t, 0, "", config, limits.Limits{})
			p := c.dialH2(t)
			type end struct {
				code     http2.ErrCode
				received bool
			}
			ended := make(chan end, 1)
			go func() {
				code, received := p.farewell()
				ended <- end{code, received}
			}()
			for sent := 0; flood(p, sent) == nil; sent++ { // until the connection or its time ends
			}
			if got := <-ended; !got.received || got.code != http2.ErrCodeEnhanceYourCalm {
				t.Errorf("GOAWAY received: %t, %s", got.received, got.code)
			}
			if got := c.log.String(); strings.Count(got, "closed a HTTP connection") != 1 {
				t.Errorf("got the log %s", got)
			}
			if got := c.lists(t, 1); got != nil {
				t.Error(got)
			}
		})
	}
}

// lists makes requests over one connection of a stock HTTP/2 client.
func (c *edge) lists(t *testing.T, n int) error {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	for i := range n {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+c.ln.Addr().String()+"/mcp",
			strings.NewReader(listing))
		if err != nil {
			return err
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "nothing",
		} {
			req.Header.Set(name, value)
		}
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusNotFound || res.ProtoMajor != 2 {
			return errors.Join(err, errors.New(strconv.Itoa(i)+": "+res.Proto+" "+res.Status))
		}
	}
	return nil
}

// A connection of HTTP/2 without a request ends in good order after a while, although its client sends PINGs.
func TestIdleHTTP2ConnectionsAreClosed(t *testing.T) {
	bridgetest.SkipIfShort(t)
	c := crowd(t, 0, "", serverTLS(t), limits.Limits{ConnectionIdle: 200 * time.Millisecond})
	p := c.dialH2(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if code, received := p.farewell(); !received || code != http2.ErrCodeNo {
			t.Errorf("GOAWAY received: %t, %s", received, code)
		}
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			_ = p.WritePing(false, [8]byte{1}) // fails when the connection has ended
		}
	}
}
