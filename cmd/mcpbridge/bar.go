package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A bar shows the progress of a call in the last line of a terminal. Where there is none, it shows nothing.
type bar struct {
	w     io.Writer // nil: nothing is shown
	width int
	next  time.Time // when it may be drawn again
	drawn string
}

// A call that is done within quietTime shows no bar, and one is drawn at most every drawTime.
const (
	quietTime = 300 * time.Millisecond
	drawTime  = 50 * time.Millisecond
)

func (c *client) newBar() *bar {
	f, ok := c.p.Stderr.(*os.File)
	if !ok || !isTerminal(f) {
		return &bar{}
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		width = 80
	}
	return &bar{w: f, width: width, next: time.Now().Add(quietTime)}
}

// show draws how far the call has come.
func (b *bar) show(p *pb.Progress) {
	now := time.Now()
	if b.w == nil || now.Before(b.next) {
		return
	}
	text := barText(p, b.width-1)
	if text == b.drawn {
		return
	}
	b.next, b.drawn = now.Add(drawTime), text
	fmt.Fprint(b.w, "\r\x1b[K"+text)
}

// barText returns a bar of at most width letters: [####......]  40% what is being done.
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
	text = oneLine(text, width)
	if left := width - utf8.RuneCountInString(text) - 1; left > 0 && p.GetMessage() != "" {
		text += " " + oneLine(p.GetMessage(), left)
	}
	return text
}

// clear takes the bar away for something else to be written.
func (b *bar) clear() {
	if b.drawn != "" {
		fmt.Fprint(b.w, "\r\x1b[K")
		b.drawn = ""
	}
}

// end takes the bar away for good.
func (b *bar) end() { b.clear() }
