package child

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// MaxLine is how many bytes are kept of a line: a handshake fits.
const MaxLine = limits.MaxLogLine

// maxTail is how many lines are kept for errors.
const maxTail = 20

// Lines cuts what is written to it into lines and passes them on, whatever their length: it never makes the writer wait for
// the end of a line, and it keeps only the beginning of a long one.
type Lines struct {
	// Each gets the lines. The length is what the line had; line is valid during the call only.
	Each func(line []byte, length int)

	kept []byte
	size int
}

// Write implements io.Writer. It never fails.
func (l *Lines) Write(b []byte) (int, error) {
	n := len(b)
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			l.keep(b)
			return n, nil
		}
		l.keep(b[:i])
		l.flush()
		b = b[i+1:]
	}
}

func (l *Lines) keep(b []byte) {
	l.size += len(b)
	l.kept = append(l.kept, b[:min(len(b), MaxLine-len(l.kept))]...)
}

func (l *Lines) flush() {
	l.Each(bytes.TrimSuffix(l.kept, []byte{'\r'}), l.size)
	l.kept, l.size = l.kept[:0], 0
}

// Close passes on what is left.
func (l *Lines) Close() error {
	if l.size > 0 {
		l.flush()
	}
	return nil
}

// CopyLines reads r to its end.
func CopyLines(r io.Reader, each func(line []byte, length int)) {
	l := &Lines{Each: each}
	defer l.Close()
	// WriterTo and ReaderFrom are of no use to pipes; an error is the end as well.
	_, _ = io.CopyBuffer(struct{ io.Writer }{l}, struct{ io.Reader }{r}, make([]byte, 32<<10))
}

// A Tail remembers the last lines.
type Tail struct {
	mu    sync.Mutex // guards the rest
	last  []string
	count int
}

// Add remembers a line.
func (t *Tail) Add(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
	if len(t.last) == maxTail {
		t.last = append(t.last[:0], t.last[1:]...)
	}
	t.last = append(t.last, string(line[:min(len(line), 500)]))
}

// Read returns the last lines and how many there were in all.
func (t *Tail) Read() ([]string, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.last...), t.count
}

// perLine is what a line counts besides its own length: it becomes a record.
const perLine = 100

// A Log logs the output of a program, as much of it as anybody can want to read. Several goroutines may use it.
type Log struct {
	to   *zerolog.Logger
	most limits.Limits // LogLine and LogRate

	mu     sync.Mutex // guards the rest
	budget *rate.Limiter
	lines  int // that were left out since the last that was not
	bytes  int
}

// NewLog returns a Log that writes to another one.
func NewLog(to *zerolog.Logger, most limits.Limits) *Log {
	most = most.OrDefaults()
	// The longest line is always logged when nothing else is.
	return &Log{to: to, most: most, budget: rate.NewLimiter(rate.Limit(most.LogRate), max(most.LogRate, most.LogLine+perLine))}
}

// Line logs a line of a program's output: as it says if it is of a structured log, else with a guess at its level. Of a flood, some are
// logged, and how many are not.
func (l *Log) Line(stream string, line []byte, length int) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	l.mu.Lock()
	lines, size := l.lines, l.bytes
	// A flood that has begun to be left out is left out for a while: else each line that is logged would bring two that say so.
	now := time.Now()
	in := (lines == 0 || l.budget.TokensAt(now) >= float64(l.most.LogRate)/4) && l.budget.AllowN(now, min(length, l.most.LogLine)+perLine)
	if in {
		l.lines, l.bytes = 0, 0
	} else {
		l.lines, l.bytes = l.lines+1, l.bytes+length
	}
	l.mu.Unlock()
	switch {
	case in && lines > 0:
		l.to.Warn().Int("lines", lines).Int("bytes", size).Msg("lines of its output were left out")
	case !in && lines == 0:
		l.to.Warn().Int("rate", l.most.LogRate).Msg("it prints more bytes in a second than are logged; some lines are left out")
	}
	if in {
		logLine(l.to, stream, line, length, l.most.LogLine)
	}
}

func logLine(log *zerolog.Logger, stream string, line []byte, length, most int) {
	if length == len(line) && length <= most {
		if level, message, ok := structured(line); ok {
			// What readers of the log could take for something else is text, and a record is a line.
			if record, err := rawjson.AppendChecked(nil, line); err == nil {
				log.WithLevel(level).Str("stream", stream).RawJSON("record", record).Msg(message)
				return
			}
		}
	}
	e := log.WithLevel(guessLevel(line)).Str("stream", stream)
	if length > most {
		e = e.Int("length", length)
		line = line[:min(len(line), most)]
	}
	e.Msg(string(line))
}

// structured reads the line of a structured log: of hclog, zerolog, or another whose members have the usual names.
func structured(line []byte) (zerolog.Level, string, bool) {
	if line[0] != '{' {
		return 0, "", false
	}
	var r struct {
		HLevel   string `json:"@level"`
		HMessage string `json:"@message"`
		Level    string `json:"level"`
		Message  string `json:"message"`
		Msg      string `json:"msg"`
	}
	if json.Unmarshal(line, &r) != nil {
		return 0, "", false
	}
	level := levelNamed(r.HLevel + r.Level)
	message := r.HMessage + r.Message + r.Msg
	return level, message, message != ""
}

// levelNamed returns the level that other logs call name.
func levelNamed(name string) zerolog.Level {
	switch l, err := zerolog.ParseLevel(name); {
	case err == nil && l <= zerolog.ErrorLevel && l >= zerolog.TraceLevel:
		return l
	case err == nil && l < zerolog.NoLevel: // fatal and panic of the backend are not ours
		return zerolog.ErrorLevel
	}
	switch name {
	case "warning", "WARNING":
		return zerolog.WarnLevel
	case "critical", "CRITICAL", "alert", "emergency":
		return zerolog.ErrorLevel
	}
	return zerolog.InfoLevel
}

var (
	looksWrong = regexp.MustCompile(began + `(\[?(ERROR|CRITICAL|FATAL|SEVERE)\b|level=(?i:error|critical|fatal|panic)\b|panic: |fatal error: |Traceback \(most recent|Exception in thread)`)
	looksOdd   = regexp.MustCompile(began + `(\[?(WARN|WARNING)\b|level=(?i:warn|warning)\b)`)
	looksSmall = regexp.MustCompile(began + `(\[?(DEBUG|TRACE)\b|level=(?i:debug|trace)\b)`)
)

// began is what a line may begin with that is not its level: the time, as slog, logrus and Python's logging write it.
const began = `^(time=\S+ |\d{4}[-/]\d\d[-/]\d\d[T ][\d:.,]+(Z|[+-]\d\d:?\d\d)? )?`

// guessLevel returns the level of a line by how it begins.
func guessLevel(line []byte) zerolog.Level {
	switch {
	case looksWrong.Match(line):
		return zerolog.ErrorLevel
	case looksOdd.Match(line):
		return zerolog.WarnLevel
	case looksSmall.Match(line):
		return zerolog.DebugLevel
	}
	return zerolog.InfoLevel
}
