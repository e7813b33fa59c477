package child

import (
	"bytes"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rs/zerolog"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest/fuzzing"
	"github.com/mcpbridge/mcpbridge/internal/limits"
)

// FuzzLogLine writes any bytes as the output of a backend, in any pieces: every logged line is one record of strict
// JSON with a limited length, and the backend can set only its own fields.
func FuzzLogLine(f *testing.F) {
	for _, s := range []string{
		"", "hello\n\n \nworld\r\n", "ERROR: x\n", `{"level":"warn","msg":"x"}` + "\n",
		`{"@level":"error","@message":"x","a":{"b":[1]}}` + "\n",
		`{"level":"info","msg":"x"}` + "\n" + `{"level":"info","stream":"stdout","message":"forged"}` + "\n",
		"{\"msg\":\"a\"\r,\t\"b\":1}\n", "{\"msg\":\"\xff\"}\n",
		`{"msg":"a","msg":"b"}` + "\n", strings.Repeat("x", defaults.LogLine+5) + "\nnext\n", "\x1b[31mred\x1b[0m\n",
		"Traceback (most recent call last):\n", `{"level":"fatal","message":"end"}`,
	} {
		f.Add([]byte(s), false)
		f.Add([]byte(s), true)
	}
	fuzzing.Run(f, func(t *testing.T, data []byte, slowly bool) {
		var out bytes.Buffer
		logged := 0
		write := func() {
			out.Reset()
			logged = 0
			log := zerolog.New(&out)
			in := bytes.NewReader(data)
			l := NewLog(&log, limits.Limits{LogRate: 1 << 30}) // no limit here
			each := func(line []byte, length int) { l.Line("stdout", line, length); logged++ }
			if slowly {
				CopyLines(iotest.OneByteReader(in), each)
			} else {
				CopyLines(in, each)
			}
		}
		fuzzing.Within(t, len(data), 1<<20, write)
		if lines := bytes.Count(data, []byte("\n")) + 1; logged > lines {
			t.Fatalf("%q: got %d records for %d lines", data, logged, lines)
		}
		for line := range bytes.Lines(out.Bytes()) {
			if len(line) > 6*defaults.LogLine+256 {
				t.Fatalf("%q: got a record of %d bytes", data, len(line))
			}
			if bytes.ContainsFunc(bytes.TrimSuffix(line, []byte("\n")),
				func(r rune) bool { return r < ' ' && r != '\t' }) {
				t.Fatalf("%q: control character in the record %q", data, line)
			}
			v, err := fuzzing.Value(line)
			if err != nil {
				t.Fatalf("%q: record %q: %v", data, line, err)
			}
			for name, value := range v.(map[string]any) {
				if name == "stream" && value != "stdout" ||
					!strings.Contains(" level stream message record length ", " "+name+" ") {
					t.Fatalf("%q: unexpected field in the record %q: %s", data, line, name)
				}
			}
		}
	})
}
