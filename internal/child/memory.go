package child

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
)

// cgroups is the file system with the files about control groups.
var cgroups = os.DirFS("/")

// oomKills returns the number of OOM kills in the bridge's control group, as far as the system reports them.
func oomKills(root fs.FS) int {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(groups)) {
		// ID:controllers:path. Version 2 has no controllers, and comes last.
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		base, file := "sys/fs/cgroup", "memory.events"
		switch {
		case controllers == "memory":
			base, file = "sys/fs/cgroup/memory", "memory.oom_control"
		case controllers != "":
			continue
		}
		for _, dir := range []string{path.Join(base, group), base} { // a container may see its group as the root
			if text, err := fs.ReadFile(root, path.Join(dir, file)); err == nil {
				return oomKillsIn(string(text))
			}
		}
	}
	return 0
}

func oomKillsIn(text string) int {
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			kills, err := strconv.Atoi(n)
			if err == nil {
				return kills
			}
		}
	}
	return 0
}
