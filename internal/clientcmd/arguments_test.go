package clientcmd

import (
	"io"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// An argument that is read from stdin has a limit.
func TestArgumentsAreBounded(t *testing.T) {
	if _, err := (argumentReader{io.LimitReader(zeros{}, limits.MaxMessage+1)}).text(t.Context(), "@-"); err == nil {
		t.Error("an argument that is too long was read")
	}
	if text, err := (argumentReader{io.LimitReader(zeros{}, 1000)}).text(t.Context(), "@-"); err != nil ||
		len(text) != 1000 {
		t.Error(err)
	}
}

// zeros is a file without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
