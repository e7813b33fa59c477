package app

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// holderText returns the process that listens on addr, or nothing if this user may not see it: ", process 123
// (python3)".
func holderText(addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return ""
	}
	socket := listeningSocket(fmt.Sprintf(":%04X", n))
	if socket == "" {
		return ""
	}
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return ""
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != socket {
			continue
		}
		pid := strings.Split(link, "/")[2]
		name, err := os.ReadFile("/proc/" + pid + "/comm")
		if err != nil {
			return ", process " + pid
		}
		return fmt.Sprintf(", process %s (%s)", pid, strings.TrimSpace(string(name)))
	}
	return ""
}

// listeningSocket returns the target of links to the socket that listens on a port, or "". The port has the format of
// /proc/net/tcp.
func listeningSocket(port string) string {
	const stateListen = "0A"
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 9 && strings.HasSuffix(f[1], port) && f[3] == stateListen {
				return "socket:[" + f[9] + "]"
			}
		}
	}
	return ""
}
