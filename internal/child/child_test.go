package child_test

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/mcpbridge/mcpbridge/internal/child"
)

func TestShortages(t *testing.T) {
	for want, errnos := range map[string][]syscall.Errno{
		"file descriptors": {syscall.EMFILE, syscall.ENFILE},
		"disk space":       {syscall.ENOSPC},
		"disk quota":       {syscall.EDQUOT},
		"memory":           {syscall.ENOMEM},
		"processes":        {syscall.EAGAIN},
		"":                 {syscall.ENOENT, syscall.EACCES, syscall.ENOEXEC, syscall.E2BIG, syscall.EROFS},
	} {
		for _, errno := range errnos {
			for _, err := range []error{
				errno, &os.PathError{Op: "fork/exec", Path: "/bin/x", Err: errno},
				fmt.Errorf("cannot be run: %w", errno),
				errors.Join(errors.New("plugin exited before we could connect"), os.NewSyscallError("write", errno)),
			} {
				got := child.ShortageOf(err)
				if (got == nil) != (want == "") || got != nil && (got.Resource != want || got.Fix == "") {
					t.Errorf("%v: got %+v, want %q", err, got, want)
				}
			}
		}
	}
	if got := child.ShortageOf(nil); got != nil {
		t.Errorf("without an error: got %+v", got)
	}
}
