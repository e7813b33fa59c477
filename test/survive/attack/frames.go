package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	// floodFramesEach is more than a connection can send before its flood is detected.
	floodFramesEach = 30_000
	// floodedCalls is limits.calls of the bridge "flooded".
	floodedCalls = 16
	// ending is the tolerated number of canceled calls that the backend has not ended yet.
	ending = 8
)

// A flooder writes HTTP/2 frames that libraries do not write.
type flooder struct {
	*http2.Framer

	header bytes.Buffer
	enc    *hpack.Encoder
	fields [][2]string // the header of a call
	call   []byte      // the body of a call that hangs
	next   uint32
}

// floods write frames until the connection or the context ends.
var floods = map[string]func(f *flooder) error{
	// CVE-2023-44487
	"resets": func(f *flooder) error {
		id, err := f.open(true)
		if err != nil {
			return err
		}
		return errors.Join(f.WriteData(id, true, f.call), f.WriteRSTStream(id, http2.ErrCodeCancel))
	},
	// CVE-2025-8671: the server resets the streams.
	"resets of the server": func(f *flooder) error {
		id, err := f.open(true)
		if err != nil {
			return err
		}
		return errors.Join(f.WriteData(id, true, f.call), f.WriteWindowUpdate(id, 1<<31-1))
	},
	// CVE-2024-24786 and similar: an endless header block
	"continuations": func(f *flooder) error {
		if f.next == 1 {
			if _, err := f.open(false); err != nil {
				return err
			}
		}
		return f.WriteContinuation(f.next-2, false, bytes.Repeat([]byte{0x40, 1, 'a', 1, 'b'}, 200))
	},
	"settings": func(f *flooder) error {
		return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	},
	"pings":         func(f *flooder) error { return f.WritePing(false, [8]byte{1}) },
	"empty data":    func(f *flooder) error { return f.emptyData() },
	"priorities":    func(f *flooder) error { return f.WritePriority(1, http2.PriorityParam{StreamDep: 3, Weight: 1}) },
	"windows":       func(f *flooder) error { return f.WriteWindowUpdate(0, 1) },
	"unknown kinds": func(f *flooder) error { return f.WriteRawFrame(0x42, 0xff, 1, make([]byte, 1000)) },
	"open streams": func(f *flooder) error {
		id, err := f.open(true)
		return errors.Join(err, f.WriteData(id, true, f.call))
	},
}

func (f *flooder) emptyData() error {
	if f.next == 1 {
		if _, err := f.open(true); err != nil {
			return err
		}
	}
	return f.WriteData(f.next-2, false, nil)
}

// open writes the HEADERS of a call.
func (f *flooder) open(whole bool) (uint32, error) {
	f.header.Reset()
	for _, h := range f.fields {
		if err := f.enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			return 0, err
		}
	}
	id := f.next
	f.next += 2
	return id, f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.header.Bytes(), EndHeaders: whole})
}

// flooded is an HTTP/2 port under attack.
type flooded struct {
	dial   func() (net.Conn, error)
	fields [][2]string
	call   []byte
	good   func() error // a request of another client
	close  func()
}

// floodFrames floods a port for two seconds. It fails if requests of other clients fail, the log does not report the
// flood, or the backend receives too many concurrent calls.
func floodFrames(ctx context.Context, r *rig, b *bridge, _, arg string) (string, error) {
	var target *flooded
	if b.tls != nil {
		target = b.httpsPort()
	} else {
		var err error
		if target, err = b.grpcPort(ctx); err != nil {
			return "", err
		}
	}
	defer target.close()
	before, err := sendLoad(ctx, time.Second, target.good)
	if err != nil {
		return "", err
	}
	flooding, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	var wg sync.WaitGroup
	var frames, connections int
	wg.Go(func() { frames, connections = target.flood(flooding, floods[arg]) })
	during, err := sendLoad(flooding, 2*time.Second, target.good)
	wg.Wait()
	if err != nil {
		return "", fmt.Errorf("other clients during the flood: %w", err)
	}
	most, err := b.atATime()
	r.printf("B08 %s, %s: %d frames on %d connections; other clients: %s before, %s during; %d concurrent calls",
		b.name, arg, frames, connections, before, during, most)
	switch {
	case err != nil:
		return "", err
	case frames == 0:
		return "", errors.New("no frame was sent")
	case during.done*100 < during.sent*95:
		return "", fmt.Errorf("other clients: %s before, %s during: %w", before, during, during.first)
	case frames > floodFramesEach*(connections+1) &&
		!bytes.Contains(b.logged(), []byte("its client sent too many HTTP/2 frames")):
		return "", fmt.Errorf("the bridge read %d frames on %d connections, and did not log the flood", frames,
			connections)
	case most > floodedCalls+ending:
		return "", fmt.Errorf("the backend had %d concurrent calls, the limit is %d", most, floodedCalls)
	}
	return "held", nil
}

// onlyPings opens arg connections, and sends a PING on each. It fails if the request of another client fails.
func onlyPings(ctx context.Context, _ *rig, b *bridge, _, arg string) (string, error) {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return "", err
	}
	target, err := b.grpcPort(ctx)
	if err != nil {
		return "", err
	}
	defer target.close()
	var all []io.Closer
	defer func() {
		for _, c := range all {
			_ = c.Close()
		}
	}()
	for range n {
		c, err := target.dial()
		if err != nil {
			return "", err
		}
		all = append(all, c)
		f := http2.NewFramer(c, nil)
		if _, err := io.WriteString(c, http2.ClientPreface); err == nil {
			_ = errors.Join(f.WriteSettings(), f.WritePing(false, [8]byte{1})) // it may be closed for a newer one
		}
	}
	if err := target.good(); err != nil {
		return "", fmt.Errorf("another client: %w", err)
	}
	if !bytes.Contains(b.logged(), []byte("too many gRPC connections")) {
		return "", errors.New("the bridge did not log the number of connections")
	}
	return "held", nil
}

// grpcPort returns the gRPC port. Other clients use health checks, which need no slot among the calls.
func (b *bridge) grpcPort(ctx context.Context) (*flooded, error) {
	conn, err := grpc.NewClient("unix:"+b.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	request, err := proto.Marshal(&pb.CallToolRequest{Name: "hang", Arguments: []byte("{}")})
	if err != nil {
		return nil, err
	}
	health := healthpb.NewHealthClient(conn)
	return &flooded{
		dial: func() (net.Conn, error) { return net.Dial("unix", b.grpc) },
		fields: [][2]string{
			{":method", "POST"},
			{":scheme", "http"},
			{":path", pb.McpService_CallTool_FullMethodName},
			{":authority", "localhost"},
			{"content-type", "application/grpc"},
			{"te", "trailers"},
		},
		call: append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(request))), request...),
		good: func() error {
			ctx, cancel := context.WithTimeout(ctx, responseTimeout)
			defer cancel()
			a, err := health.Check(ctx, &healthpb.HealthCheckRequest{})
			if err == nil && a.Status != healthpb.HealthCheckResponse_SERVING {
				err = fmt.Errorf("the bridge is %s", a.Status)
			}
			return err
		},
		close: func() { conn.Close() },
	}, nil
}

// httpsPort returns the HTTPS port. Other clients use an unknown method, which needs no slot among the calls.
func (b *bridge) httpsPort() *flooded {
	config := b.tls.Clone()
	config.NextProtos = []string{"h2"}
	transport := &http.Transport{TLSClientConfig: b.tls.Clone(), ForceAttemptHTTP2: true}
	client := &http.Client{Transport: transport, Timeout: responseTimeout}
	const body = `{"jsonrpc":"2.0","id":1,"method":"nothing","params":{` + modernMeta + `}}`
	return &flooded{
		dial: func() (net.Conn, error) { return tls.Dial("tcp", b.addr, config) },
		fields: [][2]string{
			{":method", "POST"},
			{":scheme", "https"},
			{":path", "/mcp"},
			{":authority", "localhost"},
			{"content-type", "application/json"},
			{"accept", "application/json, text/event-stream"},
			{"mcp-protocol-version", revisions["07"]},
			{"mcp-method", "tools/call"},
			{"mcp-name", "hang"},
		},
		call: []byte(callOf("hang", "{}", "")),
		good: func() error {
			q, err := http.NewRequest(http.MethodPost, "https://"+b.addr+"/mcp", strings.NewReader(body))
			if err != nil {
				return err
			}
			for name, value := range map[string]string{
				"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
				"Mcp-Protocol-Version": revisions["07"], "Mcp-Method": "nothing",
			} {
				q.Header.Set(name, value)
			}
			a, err := client.Do(q)
			if err != nil {
				return err
			}
			defer a.Body.Close()
			_, err = io.Copy(io.Discard, a.Body)
			if a.StatusCode != http.StatusNotFound || a.ProtoMajor != 2 {
				err = errors.Join(err, fmt.Errorf("%s %s", a.Proto, a.Status))
			}
			return err
		},
		close: transport.CloseIdleConnections,
	}
}

// flood writes frames until ctx ends, and returns their number and that of the connections.
func (to *flooded) flood(ctx context.Context, write func(*flooder) error) (frames, connections int) {
	for ctx.Err() == nil {
		c, err := to.dial()
		if err != nil {
			return frames, connections
		}
		connections++
		stop := context.AfterFunc(ctx, func() { c.Close() })
		drained := make(chan struct{})
		go func() { // ends with the connection
			defer close(drained)
			_, _ = io.Copy(io.Discard, c) // until the connection ends
			c.Close()
		}()
		f := &flooder{Framer: http2.NewFramer(c, c), fields: to.fields, call: to.call, next: 1}
		f.AllowIllegalWrites = true
		f.enc = hpack.NewEncoder(&f.header)
		_, err = c.Write([]byte(http2.ClientPreface))
		if err == nil {
			err = f.WriteSettings()
		}
		for err == nil && f.next < 1<<30 {
			if err = write(f); err == nil {
				frames++
			}
		}
		stop()
		c.Close()
		<-drained
	}
	return frames, connections
}

// atATime returns the maximum number of concurrent calls of the backend.
func (b *bridge) atATime() (int, error) {
	data, err := os.ReadFile(b.journal)
	if err != nil {
		return 0, err
	}
	now, most := 0, 0
	for line := range strings.Lines(string(data)) {
		switch {
		case strings.HasPrefix(line, "call hang"):
			now++
			most = max(most, now)
		case strings.HasPrefix(line, "canceled hang"):
			now--
		}
	}
	return most, nil
}
