//go:build unix

package config

import (
	"io/fs"
	"os"
	"syscall"

	"github.com/mcpbridge/mcpbridge/internal/problem"
)

// checkOwner returns the problem with a configuration file that another user could have written.
func checkOwner(name string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	p := &problem.Error{
		Exit: problem.ExitConfig, Code: "config_writable", Where: name,
		Why: "the file configures which commands mcpbridge starts, where it sends tokens and which callers it " +
			"accepts, " +
			"so any user that can write it\n" +
			"can do all of that as this user",
	}
	switch mode := info.Mode(); {
	case mode.Perm()&0o022 != 0:
		p.What = "other users can write the configuration file: its mode is " + mode.String()
		p.Fix = "run `chmod go-w " + name + "`"
		return p
	case int(stat.Uid) != os.Geteuid() && stat.Uid != 0:
		p.What = "the configuration file belongs to another user"
		p.Fix = "change its owner to root, or to the user that runs mcpbridge: chown"
		return p
	}
	return nil
}
