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

// MaxLine is the number of bytes that are kept of a line. A handshake fits.
const MaxLine = limits.MaxLogLine

// maxTail is the number of lines that are kept for errors.
const maxTail = 20

// Lines is a writer that splits text into lines of any length. It never blocks, and keeps only the beginning of a long
// line.
type Lines struct {
	// Each is called for each line with its full length. line is valid during the call only.
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

// Close flushes the last line.
func (l *Lines) Close() error {
	if l.size > 0 {
		l.flush()
	}
	return nil
}

// CopyLines calls each for the lines of r.
func CopyLines(r io.Reader, each func(line []byte, length int)) {
	l := &Lines{Each: each}
	defer l.Close()
	// The wrappers hide WriterTo and ReaderFrom, which do not help pipes. An error ends the output, too.
	_, _ = io.CopyBuffer(struct{ io.Writer }{l}, struct{ io.Reader }{r}, make([]byte, 32<<10))
}

// A Tail keeps the last lines.
type Tail struct {
	mu    sync.Mutex // guards the rest
	last  []string
	count int
}

// Add adds a line, and drops the oldest one if there are too many.
func (t *Tail) Add(line []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
	if len(t.last) == maxTail {
		t.last = append(t.last[:0], t.last[1:]...)
	}
	t.last = append(t.last, string(line[:min(len(line), 500)]))
}

// Read returns the last lines, and the number of all lines.
func (t *Tail) Read() ([]string, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.last...), t.count
}

// lineOverhead is the cost of a line besides its length: it becomes a log record.
const lineOverhead = 100

// A Log logs the output of a program at a limited rate. It may be used concurrently.
type Log struct {
	to     *zerolog.Logger
	limits limits.Limits // LogLine and LogRate

	mu     sync.Mutex // guards the rest
	budget *rate.Limiter
	lines  int // dropped since the last logged line
	bytes  int
}

// NewLog returns a Log that writes to a logger with the limits LogLine and LogRate.
func NewLog(to *zerolog.Logger, l limits.Limits) *Log {
	l = l.OrDefaults()
	burst := max(l.LogRate, l.LogLine+lineOverhead) // allows the longest line
	return &Log{to: to, limits: l, budget: rate.NewLimiter(rate.Limit(l.LogRate), burst)}
}

// Line logs a line: with its own level if it is a structured log, or with a guessed one. Lines above the rate are
// dropped, and counted.
func (l *Log) Line(stream string, line []byte, length int) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	l.mu.Lock()
	lines, size := l.lines, l.bytes
	// Dropping continues until a quarter of the rate is available, because each gap is logged, too.
	now := time.Now()
	allowed := (lines == 0 || l.budget.TokensAt(now) >= float64(l.limits.LogRate)/4) &&
		l.budget.AllowN(now, min(length, l.limits.LogLine)+lineOverhead)
	if allowed {
		l.lines, l.bytes = 0, 0
	} else {
		l.lines, l.bytes = l.lines+1, l.bytes+length
	}
	l.mu.Unlock()
	switch {
	case allowed && lines > 0:
		l.to.Warn().Int("lines", lines).Int("bytes", size).Msg("dropped lines of the program's output")
	case !allowed && lines == 0:
		l.to.Warn().Int("rate", l.limits.LogRate).
			Msg("the program's output exceeds the log rate (limits.logRate); dropping lines")
	}
	if allowed {
		logLine(l.to, stream, line, length, l.limits.LogLine)
	}
}

func logLine(log *zerolog.Logger, stream string, line []byte, length, limit int) {
	if length == len(line) && length <= limit {
		if level, message, ok := structured(line); ok {
			// Only valid JSON is logged as a record, in one line.
			if record, err := rawjson.AppendChecked(nil, line); err == nil {
				log.WithLevel(level).Str("stream", stream).RawJSON("record", record).Msg(message)
				return
			}
		}
	}
	e := log.WithLevel(guessLevel(line)).Str("stream", stream)
	if length > limit {
		e = e.Int("length", length)
		line = line[:min(len(line), limit)]
	}
	e.Msg(string(line))
}

// structured parses a line of a structured log: of hclog, zerolog, or another one with the usual names.
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

// levelNamed maps the level names of other loggers.
func levelNamed(name string) zerolog.Level {
	switch l, err := zerolog.ParseLevel(name); {
	case err == nil && l <= zerolog.ErrorLevel && l >= zerolog.TraceLevel:
		return l
	case err == nil && l < zerolog.NoLevel: // fatal and panic of the backend
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
	errorPattern = regexp.MustCompile(timePrefix +
		`(\[?(ERROR|CRITICAL|FATAL|SEVERE)\b|level=(?i:error|critical|fatal|panic)\b|` +
		`panic: |fatal error: |Traceback \(most recent|Exception in thread)`)
	warnPattern  = regexp.MustCompile(timePrefix + `(\[?(WARN|WARNING)\b|level=(?i:warn|warning)\b)`)
	debugPattern = regexp.MustCompile(timePrefix + `(\[?(DEBUG|TRACE)\b|level=(?i:debug|trace)\b)`)
)

// timePrefix matches the time at the beginning of a line, as slog, logrus and Python's logging write it.
const timePrefix = `^(time=\S+ |\d{4}[-/]\d\d[-/]\d\d[T ][\d:.,]+(Z|[+-]\d\d:?\d\d)? )?`

// guessLevel returns the level of a line by its beginning.
func guessLevel(line []byte) zerolog.Level {
	switch {
	case errorPattern.Match(line):
		return zerolog.ErrorLevel
	case warnPattern.Match(line):
		return zerolog.WarnLevel
	case debugPattern.Match(line):
		return zerolog.DebugLevel
	}
	return zerolog.InfoLevel
}
