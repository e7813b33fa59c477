package grpcserver

import (
	"context"
	"io/fs"
)

// restrict does nothing: a socket has no mode.
func restrict(uintptr, fs.FileMode) error { return nil }

// lock does nothing: a directory cannot be locked.
func lock(context.Context, string) (unlock func(), err error) { return func() {}, nil }
