package mcpbridge

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A response above the maximum size of a message fails its own call only: a frame of that length would end the
// connection.
func TestTooLongResultFailsOnlyItsCall(t *testing.T) {
	release := make(chan struct{})
	app := New("long", "1")
	Tool(app, "long", "", func(context.Context, struct{}) (string, error) {
		return strings.Repeat("x", maxMessage),
			nil
	})
	Tool(app, "slow", "", func(context.Context, struct{}) (string, error) { <-release; return "slow", nil })
	path := filepath.Join(t.TempDir(), "s")
	ln, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	t.Setenv("MCPBRIDGE_FRAMES", "unix:"+path)
	f := dialFrames(t.Context(), &service{app: app})
	served := make(chan struct{})
	go func() { f.serve(); close(served) }()
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { conn.Close(); <-served }()
	next := func() (kind byte, id uint32, payload []byte) {
		header := make([]byte, frameHeader)
		if _, err := io.ReadFull(conn, header); err != nil {
			t.Fatal(err)
		}
		payload = make([]byte, binary.BigEndian.Uint32(header))
		if _, err := io.ReadFull(conn, payload); err != nil {
			t.Fatal(err)
		}
		return header[8], binary.BigEndian.Uint32(header[4:]), payload
	}
	if kind, _, _ := next(); kind != frameHello {
		t.Fatalf("the first frame is of kind %d", kind)
	}
	for id, tool := range []string{"slow", "long"} {
		payload, err := proto.Marshal(
			&pb.CallToolRequest{Context: &pb.CallContext{
				Verified: &pb.VerifiedCaller{ContractVersion: contractVersion},
			}, Name: tool})
		if err != nil {
			t.Fatal(err)
		}
		frame := make([]byte, frameHeader, frameHeader+len(payload))
		binary.BigEndian.PutUint32(frame, uint32(len(payload)))
		binary.BigEndian.PutUint32(frame[4:], uint32(id))
		frame[8] = frameCall
		if _, err := conn.Write(append(frame, payload...)); err != nil {
			t.Fatal(err)
		}
	}
	kind, id, payload := next()
	s := &spb.Status{}
	if err := proto.Unmarshal(payload, s); err != nil || kind != frameError || id != 1 {
		t.Fatalf("kind %d of call %d, %v", kind, id, err)
	}
	if codes.Code(s.GetCode()) != codes.ResourceExhausted ||
		!strings.Contains(s.GetMessage(), "the call was executed, and its result has") {
		t.Errorf("got %v", s)
	}
	close(release)
	kind, id, payload = next()
	answer := &pb.CallToolResponse{}
	if err := proto.Unmarshal(payload, answer); err != nil || kind != frameResult || id != 0 {
		t.Fatalf("kind %d of call %d, %v", kind, id, err)
	}
	if got := answer.GetResult().GetContent()[0].GetText().GetText(); got != "slow" {
		t.Errorf("the other call is answered %q", got)
	}
}
