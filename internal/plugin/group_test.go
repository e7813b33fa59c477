package plugin

import "syscall"

// ownGroup returns the process group of this process.
func ownGroup() int { return syscall.Getpgrp() }
