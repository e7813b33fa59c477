//go:build unix

package main

import (
	"os"
	"syscall"
)

// checkOwner refuses a file that names commands to start if somebody else could have written it: whoever writes it can run
// anything as this user.
func (f *file) checkOwner() error {
	if f == nil || f.mode == nil {
		return nil
	}
	stat, ok := f.mode.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	p := &problem{
		Exit: exitConfig, Code: "config_writable", Where: f.name,
		Why: "the file says which commands mcpbridge starts, so whoever can write it can run anything as this user",
	}
	switch mode := f.mode.Mode(); {
	case mode.Perm()&0o022 != 0:
		p.What = "other users can write the configuration file: its mode is " + mode.String()
		p.Fix = "run `chmod go-w " + f.name + "`"
		return p
	case int(stat.Uid) != os.Geteuid() && stat.Uid != 0:
		p.What = "the configuration file belongs to another user"
		p.Fix = "let it belong to root, or to the user that runs mcpbridge: chown"
		return p
	}
	return nil
}
