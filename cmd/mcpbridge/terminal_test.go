package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
	"github.com/mcpbridge/mcpbridge/internal/clientcmd"
	"github.com/mcpbridge/mcpbridge/internal/problem"
)

func TestSamplingOnATerminal(t *testing.T) {
	_, shop := startShop(t)
	x := openTerminal(t, "call", shop, "dream")
	x.expect("system: Be brief.")
	x.expect(`user: Of what\u001b[2J do you`)
	x.expect("> ")
	x.write("Of electric\n")
	x.expect("> ")
	x.write("sheep.\n")
	x.expect("> ")
	x.write(".\n")
	x.expect("Of electric\r\nsheep. mcpbridge")
	if code, all := x.wait(); code != problem.ExitOK {
		t.Errorf("exit code %d:\n%s", code, all)
	}
	x = openTerminal(t, "call", shop, "dream")
	x.expect("> ")
	x.write("/decline\n")
	x.expect("REASON_REFUSED")
	if code, all := x.wait(); code != problem.ExitTool {
		t.Errorf("exit code %d:\n%s", code, all)
	}
}

// A screen is a pseudo-terminal on which a command runs as a process. The test types and reads like a user.
type screen struct {
	t   *testing.T
	pty *os.File
	cmd *exec.Cmd

	mu    sync.Mutex
	shown bytes.Buffer
	seen  int // how many bytes of shown expect has consumed
	more  chan struct{}
	ended chan struct{} // closed at the end of the output
}

func openTerminal(t *testing.T, args ...string) *screen {
	t.Helper()
	cmd := exec.Command("mcpbridge", args...)
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	x := &screen{t: t, pty: f, cmd: cmd, more: make(chan struct{}, 1), ended: make(chan struct{})}
	go func() {
		defer close(x.ended)
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			x.mu.Lock()
			x.shown.Write(buf[:n])
			x.mu.Unlock()
			select {
			case x.more <- struct{}{}:
			default:
			}
			if err != nil { // EIO when the process has exited
				return
			}
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill() // it has exited unless the test failed
		f.Close()
		<-x.ended
	})
	return x
}

// expect waits until the text appears, after the text of the previous expect.
func (x *screen) expect(text string) {
	x.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		x.mu.Lock()
		i := strings.Index(x.shown.String()[x.seen:], text)
		if i >= 0 {
			x.seen += i + len(text)
		}
		all := x.shown.String()
		x.mu.Unlock()
		if i >= 0 {
			return
		}
		select {
		case <-x.more:
		case <-x.ended:
			select {
			case <-x.more:
				continue
			default:
			}
			x.t.Fatalf("the command exited without %q:\n%s", text, all)
		case <-limit:
			x.t.Fatalf("%q did not appear:\n%s", text, all)
		}
	}
}

func (x *screen) write(text string) {
	x.t.Helper()
	if _, err := io.WriteString(x.pty, text); err != nil {
		x.t.Fatal(err)
	}
}

// wait waits until the command exits, and returns its exit code and all output.
func (x *screen) wait() (int, string) {
	x.t.Helper()
	err := x.cmd.Wait()
	if _, isExit := errors.AsType[*exec.ExitError](err); err != nil && !isExit {
		x.t.Fatal(err)
	}
	<-x.ended
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.cmd.ProcessState.ExitCode(), x.shown.String()
}

func TestElicitationOnATerminal(t *testing.T) {
	_, shop := startShop(t)
	x := openTerminal(t, "call", shop, "order")
	x.expect(`What\u001b[2J would you like?`) // the server's escape sequences are escaped
	x.expect("l  large")
	x.expect(`Size ("s" | "l"): `)
	x.write("m\n")
	x.expect(`it cannot be "m"; known are: l, s`)
	x.expect(`Size ("s" | "l"): `)
	x.write("l\n")
	x.expect("How many.")
	x.write("\n")
	x.expect("it is required")
	x.write("10\n")
	x.expect("has to be at most 9")
	x.write("2\n")
	x.expect("gift (yes or no, optional) [no]: ")
	x.write("perhaps\n")
	x.expect(`it cannot be "perhaps": it is yes or no`)
	x.write("y\n")
	x.expect("mail (email, optional): ")
	x.write("ada\n")
	x.expect("an address such as")
	x.write("ada@example.com\n")
	x.expect("new  New")
	x.expect("tags")
	x.write("new, old\n")
	x.expect("Send it?")
	x.write("edit\n")
	x.expect(`Size ("s" | "l") [l]: `)
	x.write("s\n\n\n\n\n\n")
	x.expect(`accept {"size":"s","count":2,"gift":true,"mail":"ada@example.com","tags":["new","old"]}`)
	if code, all := x.wait(); code != problem.ExitOK {
		t.Errorf("exit code %d:\n%s", code, all)
	}
}

func TestDeclineAndCancelOnATerminal(t *testing.T) {
	t.Parallel()
	_, shop := startShop(t)
	for typed, want := range map[string]string{"/decline\n": "decline ", "/cancel\n": "cancel ", "\x04": "cancel "} {
		x := openTerminal(t, "call", shop, "order")
		x.expect("Size")
		x.expect(": ")
		x.write(typed)
		x.expect(want)
		if code, all := x.wait(); code != problem.ExitOK {
			t.Errorf("%q: exit code %d:\n%s", typed, code, all)
		}
	}
}

func TestWebPageOnATerminal(t *testing.T) {
	_, shop := startShop(t)
	x := openTerminal(t, "call", shop, "visit")
	x.expect("https://pay.example.com/1")
	x.expect("Its host is pay.example.com.")
	x.write("yes\n")
	x.expect("accept")
	x.wait()
}

func TestProgressBarAndCtrlC(t *testing.T) {
	s, shop := startShop(t)
	x := openTerminal(t, "call", shop, "wait")
	x.expect(`[##########..........] 50% half\u001b[31m done`)
	x.write("\x03")
	code, all := x.wait()
	if code != problem.ExitInterrupted || !strings.Contains(all, "cancelled") {
		t.Errorf("exit code %d:\n%s", code, all)
	}
	select {
	case <-s.cancelled:
	case <-time.After(10 * time.Second):
		t.Error("the server received no cancellation")
	}
}

// The terminal shows what the command waits for, and clears that line before it prints the result.
func TestTerminalShowsPendingWork(t *testing.T) {
	bridgetest.SkipIfShort(t)
	t.Parallel()
	s, shop := startShop(t)
	x := openTerminal(t, "list", "--plugin", "--", "sh", "-c", "sleep 2; exec "+echoGo(t))
	x.expect("starting sh -c")
	x.expect(" s)")
	x.expect("\r\x1b[KTools")
	if code, all := x.wait(); code != problem.ExitOK {
		t.Errorf("exit code %d:\n%s", code, all)
	}
	x = openTerminal(t, "call", shop, "hold")
	x.expect(`tools/call "hold", Ctrl-C cancels (1 s)`)
	close(s.held)
	x.expect("\r\x1b[Kheld")
	if code, all := x.wait(); code != problem.ExitOK {
		t.Errorf("exit code %d:\n%s", code, all)
	}
}

// On a terminal, control characters in a server's text are escaped, and binary data is not printed.
func TestTerminalOutputIsEscaped(t *testing.T) {
	t.Parallel()
	_, shop := startShop(t)
	for _, args := range [][]string{
		{"call", shop, "paint"},
		{"call", "--json", shop, "paint"},
		{"call", shop, "fail"},
		{"describe", shop},
		{"list", shop},
	} {
		_, all := openTerminal(t, args...).wait()
		// the client shows its pending request after a second
		all = strings.ReplaceAll(all, "\r\x1b[K", "")
		if strings.ContainsAny(all, "\x1b\u202e\u009b") || !strings.Contains(all, `\u001b[31m`) {
			t.Errorf("%v showed %q", args, all)
		}
	}
	code, all := openTerminal(t, "read", shop, "shop://logo").wait()
	if code != problem.ExitUsage || !strings.Contains(all, "write --output FILE") || strings.Contains(all, "PNG") {
		t.Errorf("exit code %d, output %q", code, all)
	}
}

// After the first signal a server has 5 s to exit; the second signal kills it.
func TestSecondSignalEndsAClientCommand(t *testing.T) {
	bridgetest.SkipIfShort(t)
	mark := filepath.Join(t.TempDir(), "mark")
	stubborn := "trap '' TERM INT; touch " + mark + "; while :; do sleep 0.1; done"
	cmd := exec.Command("mcpbridge", "call", "--mcp", "x", "--", "sh", "-c", stubborn)
	stderr := &lockedBuffer{}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	(&run{stderr: stderr}).await(t, "the server runs", func() bool {
		_, err := os.Stat(mark)
		return err == nil
	})
	begin := time.Now()
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} { // two equal signals could be merged
		if err := cmd.Process.Signal(s); err != nil {
			t.Error(err)
		}
	}
	err := cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != problem.ExitInterrupted {
		t.Errorf("exit code %d, %v:\n%s", code, err, stderr)
	}
	if d := time.Since(begin); d >= 5*time.Second {
		t.Errorf("it took %s", d)
	}
}

func TestCtrlCDuringAPrompt(t *testing.T) {
	_, shop := startShop(t)
	x := openTerminal(t, "call", shop, "order")
	x.expect("Size")
	x.write("\x03")
	if code, all := x.wait(); code != problem.ExitInterrupted {
		t.Errorf("exit code %d:\n%s", code, all)
	}
}

// A silent stdin has no data, and ends when end is closed. The first Read closes read.
type silent struct{ read, end chan struct{} }

func (s silent) Read([]byte) (int, error) {
	close(s.read)
	<-s.end
	return 0, io.EOF
}

// A command that reads an open stdin ends at --timeout, Ctrl-C or SIGTERM.
func TestWaitingForStdinEnds(t *testing.T) {
	bridgetest.SkipIfShort(t)
	_, shop := startShop(t)
	for _, args := range []string{
		"call SHOP buy -", "call SHOP buy what=@-", "call --answer size=@- SHOP order", "prompt SHOP haggle price=@-",
		"complete SHOP haggle tone=k price=@-",
	} {
		for _, timeout := range []bool{true, false} {
			words := strings.Fields(strings.ReplaceAll(args, "SHOP", shop))
			code, exit := "cancelled", problem.ExitInterrupted
			if timeout {
				words = append(words, "--timeout", "100ms")
				code, exit = "timeout", problem.ExitTimeout
			}
			stdin := silent{make(chan struct{}), make(chan struct{})}
			t.Cleanup(func() { close(stdin.end) })
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var stdout, stderr lockedBuffer
			done := make(chan int)
			go func() {
				done <- (&Program{Env: clientcmd.Env{
					Args: words, Stdin: stdin, Stdout: &stdout, Stderr: &stderr,
					Environ: os.Environ(),
				}}).Run(ctx)
			}()
			if !timeout {
				<-stdin.read
				interrupt()
			}
			got := commandOutput{code: <-done, stdout: stdout.String(), stderr: stderr.String()}
			if got.code != exit || got.errorCode(t) != code || !timeout &&
				!strings.Contains(got.stderr, "nothing was called: the argument @- ") {
				t.Errorf("%v: got %+v", words, got)
			}
		}
	}
}
