package plugin

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"io"
	"math"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mtls"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// FuzzHandshake parses a line of output as the handshake: an accepted one contains nothing that go-plugin would accept
// beyond a server of the bridge's kind on this machine.
func FuzzHandshake(f *testing.F) {
	keys, err := mtls.New()
	if err != nil {
		f.Fatal(err)
	}
	pair, err := tls.X509KeyPair(keys.Server, keys.Server)
	if err != nil {
		f.Fatal(err)
	}
	cert := base64.RawStdEncoding.EncodeToString(pair.Certificate[0])
	dir := f.TempDir()
	socket := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { ln.Close() })
	// SOCKET and CERT stand for the directory and the certificate of this run.
	for _, s := range []string{
		"1|1|unix|SOCKET|grpc|CERT", " 1|1|unix|SOCKET|grpc|CERT|true\r", "1|1|tcp|127.0.0.1:1234|grpc|CERT",
		"1|1|tcp|[::1]:1234|grpc|CERT", "1|1|tcp|0.0.0.0:1234|grpc|CERT",
		"1|1|tcp|127.0.0.1:0|grpc|CERT", "1|1|unix|/etc/passwd|grpc|CERT", "1|1|unix|SOCKET/../s|grpc|CERT",
		"1|1|unix|SOCKET|netrpc|CERT", "1|1|unix|SOCKET|grpc|", "1|1|unix|SOCKET|grpc|CERT=",
		"1|2|unix|SOCKET|grpc|CERT", "99999999999999999999|1|unix|SOCKET|grpc|CERT", "1|1|unix|",
		"1|1|tcp|localhost:1|grpc|CERT", "hello", "1|1|unix|SOCKET\x00|grpc|CERT", "1|1|unix|SOCKET|grpc|AAAA",
	} {
		f.Add(s)
	}
	fill := strings.NewReplacer("SOCKET", socket, "CERT", cert)
	fuzzing.Run(f, func(t *testing.T, line string) {
		line = fill.Replace(line)
		if strings.ContainsAny(line, "\n") || !isHandshake([]byte(line)) {
			return
		}
		var err error
		fuzzing.Bounded(t, len(line), func() { err = checkHandshake(line, dir) })
		if err != nil {
			return
		}
		parts := strings.Split(strings.TrimSpace(line), "|")
		if len(parts) < 6 || parts[0] != "1" || parts[1] != "1" || parts[4] != "grpc" || parts[5] != cert {
			t.Fatalf("%q is accepted", line)
		}
		to, notTCP := netip.ParseAddrPort(parts[3])
		switch {
		case parts[2] == "tcp" && notTCP == nil && to.Addr().IsLoopback() && to.Port() > 0:
		case parts[2] == "unix" && filepath.Clean(parts[3]) == socket:
		default:
			t.Fatalf("%q was accepted with the address %s %s", line, parts[2], parts[3])
		}
	})
}

// FuzzTraces parses the last lines of a program in any language: the summary consists of parts of them.
func FuzzTraces(f *testing.F) {
	for _, s := range []string{
		"Traceback (most recent call last):\n  File \"/a/tools.py\", line 7, in f\n    x\nValueError: no\n",
		"panic: x\n\ngoroutine 1 [running]:\nmain.f()\n\t/a/main.go:7 +0x1\n",
		"/a/tools.mjs:3\nx\n^\n\nTypeError: no\n    at f (file:///a/tools.mjs:3:1)\n\nNode.js v22.1.0\n",
		"Exception in thread \"main\" java.lang.Error: x\n\tat a.B.c(B.java:7)\nCaused by: y\n\tat java.base/x\n",
		"",
	} {
		f.Add(s)
	}
	fuzzing.Run(f, func(t *testing.T, text string) {
		lines := strings.Split(text, "\n")
		for name, trace := range map[string]*traceFormat{
			"python": &pythonTrace, "node": &nodeTrace,
			"go": &goTrace, "java": &javaTrace,
		} {
			var lastError string
			fuzzing.Within(t, len(text), memoryOfTraces, func() { lastError = trace.read(lines) })
			for word := range strings.FieldsSeq(lastError) {
				if file, _, _ := strings.Cut(word, ":"); word != "at" && !strings.Contains(text, file) &&
					!isAdvice(word) {
					t.Fatalf("%s: got %q from %q", name, lastError, text)
				}
			}
		}
	})
}

func isAdvice(word string) bool {
	for _, advice := range nodeTrace.advice {
		if strings.Contains(advice, word) {
			return true
		}
	}
	return false
}

// A wired provides bytes to a reader of frames, a few at a time.
type wired struct {
	net.Conn

	in io.Reader
}

func (w wired) Read(b []byte) (int, error) { return w.in.Read(b[:min(len(b), 100)]) }

// Close keeps the bytes readable.
func (w wired) Close() error { return nil }

// FuzzFrames parses any bytes as the frames of a backend: calls receive their frames in order, until their end and up
// to the buffer's size, as a plain parser does.
func FuzzFrames(f *testing.F) {
	frame := func(kind byte, id uint32, payload []byte) []byte {
		b := make([]byte, frameHeader)
		putHeader(b, len(payload), id, kind)
		return slices.Concat(b, payload)
	}
	message := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	hello := frame(frameHello, 0, []byte{framesVersion})
	f.Add(hello)
	f.Add(bytes.Join([][]byte{
		hello, frame(frameEvent, 1, message(progress(1))),
		frame(frameResult, 1, message(text("a"))), frame(frameResult, 2, message(text("b"))),
	}, nil))
	f.Add(bytes.Join([][]byte{
		frame(frameError, 3, []byte{8, 5}), frame(frameError, 1, []byte("\xff")),
		frame(frameEvent, 9, nil), frame(200, 1, nil),
	}, nil))
	f.Add(frame(frameResult, 1, make([]byte, 5000)))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, frameResult})
	f.Add(bytes.Repeat(frame(frameEvent, 1, nil), maxUnread+2))
	f.Add(slices.Concat(frame(frameEvent, 3, message(progress(1))), frame(frameGoAway, 1, nil),
		frame(frameResult, 1, message(text("a"))), frame(frameGoAway, 0, nil)))
	f.Add(slices.Concat(bytes.Repeat(frame(frameEvent, 1, message(progress(1))), maxUnread+1),
		frame(frameGoAway, math.MaxUint32, nil)))
	const most = 4096
	fuzzing.Run(f, func(t *testing.T, data []byte) {
		log := zerolog.Nop()
		got := map[uint32][]byte{}
		var calls map[uint32]*framedCall
		fuzzing.Within(t, len(data), 1<<20, func() {
			conn := wired{in: bytes.NewReader(data)}
			r := &frames{
				log: &log, maxPayload: most, calls: map[uint32]*framedCall{}, last: make(chan struct{}),
				conn: conn,
			}
			calls = map[uint32]*framedCall{}
			for id := range uint32(4) {
				calls[id] = &framedCall{in: make(chan inbound, maxUnread+1)}
				r.calls[id] = calls[id]
			}
			_ = r.read(conn) // always returns an error at the end
		})
		for id, c := range calls {
			close(c.in)
			for in := range c.in {
				got[id] = append(got[id], in.kind)
			}
		}
		if diff := cmp.Diff(kindsPlainly(data, most), got); diff != "" {
			t.Fatalf("%q: %s", data, diff)
		}
	})
}

// kindsPlainly returns the kinds of the frames for calls 0 to 3.
func kindsPlainly(data []byte, most int) map[uint32][]byte {
	got, over, drains := map[uint32][]byte{}, map[uint32]bool{}, false
	for len(data) >= frameHeader {
		length, id, kind := int(binary.BigEndian.Uint32(data)), binary.BigEndian.Uint32(data[4:]), data[8]
		data = data[frameHeader:]
		if length > limits.MaxMessage || length > len(data) {
			return got
		}
		payload := data[:length]
		data = data[length:]
		long := length > most
		if kind == frameGoAway && !long {
			breach := false
			for one := range uint32(4) {
				switch {
				case drains || over[one] || int32(one-id) <= 0:
				case len(got[one]) == maxUnread+1:
					breach = true
				default:
					got[one], over[one] = append(got[one], kind), true
				}
			}
			if drains = true; breach {
				return got
			}
		}
		isOne := long || kind == frameEvent || kind == frameResult || kind == frameError
		if !isOne || id > 3 || over[id] {
			continue
		}
		if len(got[id]) == maxUnread+1 {
			return got // a protocol violation
		}
		got[id] = append(got[id], kind)
		over[id] = long || kind != frameEvent || proto.Unmarshal(payload, &pb.CallToolResponse{}) != nil
	}
	return got
}

func text(s string) *pb.CallToolResponse {
	return &pb.CallToolResponse{Event: &pb.CallToolResponse_Result{Result: &pb.CallToolResult{
		Content: []*pb.ContentBlock{{Block: &pb.ContentBlock_Text{Text: &pb.TextContent{Text: s}}}},
	}}}
}

func progress(n int) *pb.CallToolResponse {
	return &pb.CallToolResponse{Event: &pb.CallToolResponse_Progress{Progress: &pb.Progress{Progress: float64(n)}}}
}
