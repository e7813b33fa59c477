package child

import (
	"testing"
	"testing/fstest"
)

func TestOOMKills(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, c := range map[string]struct {
		root fstest.MapFS
		want int
	}{
		"nothing": {fstest.MapFS{}, 0},
		"version 2": {fstest.MapFS{
			"proc/self/cgroup":                file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/memory.events": file("low 0\noom 4\noom_kill 3\n"),
		}, 3},
		"version 2, in a container": {fstest.MapFS{
			"proc/self/cgroup":            file("0::/elsewhere\n"),
			"sys/fs/cgroup/memory.events": file("oom_kill 2\n"),
		}, 2},
		"version 1": {fstest.MapFS{
			"proc/self/cgroup":                             file("9:name=systemd:/\n4:memory:/a\n0::/\n"),
			"sys/fs/cgroup/memory/a/memory.oom_control":    file("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"),
			"sys/fs/cgroup/memory/memory.oom_control":      file("oom_kill 9\n"),
			"sys/fs/cgroup/unified/memory.events.nonsense": file(""),
		}, 7},
		"nonsense": {fstest.MapFS{
			"proc/self/cgroup":              file("x\n0::/a"),
			"sys/fs/cgroup/a/memory.events": file("oom_kill x\n"),
		}, 0},
	} {
		if got := oomKills(c.root); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
