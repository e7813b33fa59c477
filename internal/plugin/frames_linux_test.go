package plugin

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/contain"
)

// Only a process of the backend may connect.
func TestOtherProcessesAtTheFrameSocket(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir, err := newRunDir()
	if err != nil {
		t.Fatal(err)
	}
	log := zerolog.Nop()
	f := newFrames(dir, 1000, &log)
	groups := make(chan int, 2)
	groups <- syscall.Getpgrp() + 1 // as if the backend were another process
	groups <- syscall.Getpgrp()
	f.serve(func() int { return <-groups }, contain.New(zerolog.Nop()), func() {})
	defer func() {
		f.close()
		if err := dir.remove(); err != nil {
			t.Error(err)
		}
	}()
	for _, want := range []bool{false, true} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "unix", filepath.Join(dir.path, framesFile))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		frame := make([]byte, frameHeader+1)
		putHeader(frame, 1, 0, frameHello)
		frame[frameHeader] = framesVersion
		if _, err := conn.Write(frame); err != nil && want {
			t.Fatal(err)
		}
		if !want {
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				t.Error("the bridge wrote to another process")
			}
			continue
		}
		for !f.open.Load() {
			if _, err := conn.Write(frame); err != nil {
				t.Fatal(err)
			}
		}
	}
}
