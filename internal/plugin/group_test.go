package plugin

import "syscall"

// ownGroup returns our process group.
func ownGroup() int { return syscall.Getpgrp() }
