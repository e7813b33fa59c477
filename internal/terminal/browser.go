package terminal

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"runtime"
)

// Login returns a function that shows a login page to the user at a terminal, or by the program that BROWSER names. It
// is nil if there is neither.
func Login(stderr io.Writer) func(ctx context.Context, address string) error {
	interactive := IsTerminal(stderr)
	if !interactive && os.Getenv("BROWSER") == "" {
		return nil
	}
	return func(ctx context.Context, address string) error {
		if interactive {
			if _, err := fmt.Fprintf(stderr, "Log in with your browser:\n  %s\n", Escape(address)); err != nil {
				return err
			}
		}
		open := browserCommand(address)
		if open == nil {
			return nil
		}
		err := exec.CommandContext(ctx, open[0], open[1:]...).Run()
		if interactive {
			return nil // the person can open the page, too
		}
		return err
	}
}

// browserCommand returns the command that opens a page, or nil if there is no browser. No shell is involved.
func browserCommand(address string) []string {
	if u, err := url.Parse(address); err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return nil
	}
	if program := os.Getenv("BROWSER"); program != "" {
		return []string{program, address}
	}
	switch runtime.GOOS {
	case "darwin":
		return []string{"open", address}
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler", address}
	}
	if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return nil
	}
	return []string{"xdg-open", address}
}
