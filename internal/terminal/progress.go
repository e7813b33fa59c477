package terminal

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A Progress shows the progress of an operation in the last line of a terminal. Without a terminal, it shows nothing.
type Progress struct {
	w     io.Writer // nil: nothing is shown
	width int

	mu          sync.Mutex // guards the rest
	next        time.Time  // when progress may be drawn again
	hasProgress bool       // there is progress
	drawn       string
}

// Work that ends within showDelay shows no progress. A bar is drawn at most every drawInterval; work without progress
// shows a line after each waitInterval.
const (
	showDelay    = 300 * time.Millisecond
	drawInterval = 50 * time.Millisecond
	waitInterval = time.Second
)

// NewProgress returns a bar on w, if w is a terminal.
func NewProgress(w io.Writer) *Progress {
	f, ok := w.(*os.File)
	if !ok || !IsTerminal(f) {
		return &Progress{}
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		width = 80
	}
	return &Progress{w: f, width: width}
}

// Begin shows that an operation is in progress until end is called.
func (b *Progress) Begin(what string) (end func()) {
	if b.w == nil {
		return func() {}
	}
	began := time.Now()
	b.mu.Lock()
	b.next, b.hasProgress = began.Add(showDelay), false
	b.mu.Unlock()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(waitInterval)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			seconds := fmt.Sprintf(" (%d s)", int(time.Since(began).Seconds()))
			b.mu.Lock()
			if !b.hasProgress {
				b.draw(OneLine(what, b.width-1-len(seconds)) + seconds)
			}
			b.mu.Unlock()
		}
	})
	return func() {
		close(stop)
		wg.Wait()
		b.clear()
	}
}

// Show draws the progress of the operation.
func (b *Progress) Show(p *pb.Progress) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.w == nil || now.Before(b.next) {
		return
	}
	b.next, b.hasProgress = now.Add(drawInterval), true
	b.draw(barText(p, b.width-1))
}

// draw draws a text. The caller holds mu.
func (b *Progress) draw(text string) {
	if text != b.drawn {
		b.drawn = text
		fmt.Fprint(b.w, "\r\x1b[K"+text)
	}
}

// barText returns a bar of at most width letters: [####......]  40% and the message.
func barText(p *pb.Progress, width int) string {
	const cells = 20
	text := fmt.Sprintf("%g", p.GetProgress())
	if total := p.GetTotal(); total > 0 && !math.IsInf(total, 0) {
		part := min(max(p.GetProgress()/total, 0), 1)
		if math.IsNaN(part) {
			part = 0
		}
		full := int(part * cells)
		text = fmt.Sprintf("[%s%s] %.0f%%", strings.Repeat("#", full), strings.Repeat(".", cells-full), 100*part)
	}
	text = OneLine(text, width)
	if left := width - utf8.RuneCountInString(text) - 1; left > 0 && p.GetMessage() != "" {
		text += " " + OneLine(p.GetMessage(), left)
	}
	return text
}

// clear clears the line of the progress.
func (b *Progress) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drawn != "" {
		fmt.Fprint(b.w, "\r\x1b[K")
		b.drawn = ""
	}
}

// Writer returns a writer to w that clears the bar first.
func (b *Progress) Writer(w io.Writer) io.Writer { return clearingWriter{w, b} }

// A clearingWriter writes to where a bar may be drawn.
type clearingWriter struct {
	io.Writer

	bar *Progress
}

// Write implements io.Writer.
func (c clearingWriter) Write(p []byte) (int, error) {
	c.bar.clear()
	return c.Writer.Write(p)
}
