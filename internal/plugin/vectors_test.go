package plugin

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// Every SDK passes the conversations of proto/mcpbridge/v1/frames.txt.
func TestFrameVectors(t *testing.T) {
	bridgetest.SkipIfShort(t)
	text, err := os.ReadFile("../../proto/mcpbridge/v1/frames.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, vectors, _ := strings.Cut(string(text), "\n== ")
	for _, program := range bridgetest.Programs() {
		command := program.Command(t)
		t.Run(program.Language, func(t *testing.T) {
			var b *framedBackend
			for vector := range strings.SplitSeq(vectors, "\n== ") {
				name, lines, _ := strings.Cut(strings.TrimSpace(vector), "\n")
				if b == nil {
					b = startFramed(t, command)
				}
				for line := range strings.SplitSeq(lines, "\n") {
					if err := b.do(line); err != nil {
						t.Fatalf("%s: %s: %v", name, line, err)
					}
				}
				if b.ended {
					b = nil
					continue
				}
				// earlier frames have been read by then
				for _, line := range []string{"> CALL 4242 echo {}", "< RESULT 4242 {}"} {
					if err := b.do(line); err != nil {
						t.Fatalf("%s: %s: %v", name, line, err)
					}
				}
				if len(b.kept) > 0 {
					t.Fatalf("%s: got further frames: %v", name, b.kept)
				}
			}
		})
	}
}

// A framedBackend is a launched program at the other end of a frame connection.
type framedBackend struct {
	cmd   *exec.Cmd
	conn  net.Conn
	in    *bufio.Reader
	kept  []framedFrame // frames read while waiting for others
	ended bool
}

type framedFrame struct {
	kind    byte
	id      uint32
	payload []byte
}

func (f framedFrame) String() string {
	return fmt.Sprintf("kind %d of %d: %q", f.kind, f.id, f.payload)
}

// startFramed starts a program as the bridge does and reads its HELLO.
func startFramed(t *testing.T, command []string) *framedBackend {
	t.Helper()
	dir := t.TempDir()
	sock := filepath.Join(dir, "s")
	ln, err := new(net.ListenConfig).Listen(t.Context(), "unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	b := &framedBackend{cmd: exec.CommandContext(t.Context(), command[0], command[1:]...)}
	b.cmd.Env = append(os.Environ(), CookieKey+"="+CookieValue, EnvFrames+"=unix:"+sock, "PLUGIN_UNIX_SOCKET_DIR="+dir)
	b.cmd.Stderr = t.Output()
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = b.cmd.Process.Kill() // it may have exited
		_ = b.cmd.Wait()
	})
	if err := ln.(*net.UnixListener).SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if b.conn, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.conn.Close() })
	b.in = bufio.NewReader(b.conn)
	if hello, err := b.read(); err != nil || hello.kind != frameHello || hello.id != 0 ||
		string(hello.payload) != "\x01" {
		t.Fatalf("not HELLO but %v, %v", hello, err)
	}
	return b
}

// do executes a line of a vector.
func (b *framedBackend) do(line string) error {
	words := append(strings.SplitN(line, " ", 5), "", "", "", "")
	what := strings.Join(words[:2], " ")
	var n [3]uint32 // the numbers among the words
	for i := range n {
		v, _ := strconv.ParseUint(words[2+i], 10, 32) // other words are used as text
		n[i] = uint32(v)
	}
	switch what {
	case "> CALL":
		caller := &pb.CallContext{ProgressWanted: true, Verified: bridge.Verified(bridge.Rev20260728, nil, nil)}
		payload, err := proto.Marshal(&pb.CallToolRequest{Context: caller, Name: words[3], Arguments: []byte(words[4])})
		if err != nil {
			return err
		}
		return b.write(frameCall, n[0], len(payload), payload)
	case "> CANCEL":
		return b.write(frameCancel, n[0], 0, nil)
	case "> TAKEN":
		for range n[1] {
			if err := b.write(frameTaken, n[0], 0, nil); err != nil {
				return err
			}
		}
	case "> FRAME":
		return b.write(byte(n[0]), n[1], int(n[2]), bytes.Repeat([]byte{0xff}, int(n[2])))
	case "> HEADER":
		return b.write(byte(n[0]), n[1], int(n[2]), nil)
	case "> END":
		b.ended = true
		return b.conn.Close()
	case "> STOP":
		return b.cmd.Process.Signal(syscall.SIGTERM)
	case "< RESULT":
		answer := &pb.CallToolResponse{}
		text := strings.Join(strings.Fields(strings.Join(words[3:], " ")), " ")
		if err := b.message(frameResult, n[0], answer); err != nil {
			return err
		}
		if got := answer.GetResult().GetContent()[0].GetText().GetText(); got != text {
			return fmt.Errorf("the result is %q", got)
		}
	case "< ERROR":
		s := &spb.Status{}
		if err := b.message(frameError, n[0], s); err != nil {
			return err
		}
		if got := codes.Code(s.GetCode()).String(); !strings.Contains("|"+words[3]+"|", "|"+got+"|") {
			return fmt.Errorf("the error is %s: %s", got, s.GetMessage())
		}
	case "< EVENT":
		var from, to int
		if _, err := fmt.Sscanf(words[3], "%d-%d", &from, &to); err != nil {
			return err
		}
		for i := from; i <= to; i++ {
			event := &pb.CallToolResponse{}
			if err := b.message(frameEvent, n[0], event); err != nil {
				return err
			}
			if got := event.GetProgress().GetProgress(); got != float64(i) {
				return fmt.Errorf("the progress is %v, not %d", got, i)
			}
		}
	case "< LAST":
		_, err := b.next(frameGoAway, n[0])
		return err
	case "< END":
		b.ended = true
		for {
			f, err := b.read()
			switch {
			case err == io.EOF || err != nil && !os.IsTimeout(err):
				return nil
			case err != nil:
				return err
			case f.kind != frameError: // of the calls in flight
				return fmt.Errorf("got %v", f)
			}
		}
	case "< EXIT":
		return b.cmd.Wait()
	default:
		return fmt.Errorf("unknown line")
	}
	return nil
}

func (b *framedBackend) write(kind byte, id uint32, length int, payload []byte) error {
	frame := make([]byte, frameHeader, frameHeader+len(payload))
	putHeader(frame, length, id, kind)
	_, err := b.conn.Write(append(frame, payload...))
	return err
}

// read returns the next frame, which must arrive within a minute.
func (b *framedBackend) read() (framedFrame, error) {
	if err := b.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return framedFrame{}, err
	}
	header := make([]byte, frameHeader)
	if _, err := io.ReadFull(b.in, header); err != nil {
		return framedFrame{}, err
	}
	payload := make([]byte, binary.BigEndian.Uint32(header))
	_, err := io.ReadFull(b.in, payload)
	return framedFrame{header[8], binary.BigEndian.Uint32(header[4:]), payload}, err
}

// next returns the payload of the next frame of a call, which must be of a kind. LAST belongs to the connection.
func (b *framedBackend) next(kind byte, id uint32) ([]byte, error) {
	of := func(f framedFrame) bool { return f.id == id && (f.kind == frameGoAway) == (kind == frameGoAway) }
	var f framedFrame
	if i := slices.IndexFunc(b.kept, of); i >= 0 {
		f = b.kept[i]
		b.kept = slices.Delete(b.kept, i, i+1)
	} else {
		for {
			var err error
			if f, err = b.read(); err != nil {
				return nil, fmt.Errorf("%w; others are %v", err, b.kept)
			}
			if of(f) {
				break
			}
			b.kept = append(b.kept, f)
		}
	}
	if f.kind != kind {
		return nil, fmt.Errorf("got %v", f)
	}
	return f.payload, nil
}

func (b *framedBackend) message(kind byte, id uint32, m proto.Message) error {
	payload, err := b.next(kind, id)
	if err != nil {
		return err
	}
	return proto.Unmarshal(payload, m)
}
