package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// A machine describes the environment of a run.
type machine struct {
	Cores       int               `json:"cores"`
	CPU         string            `json:"cpu"`
	Kernel      string            `json:"kernel"`
	Go          string            `json:"go"`
	LoadAverage string            `json:"loadAverageAtStart"`
	Modules     map[string]string `json:"modules"`
}

func thisMachine() machine {
	m := machine{Cores: runtime.NumCPU(), Go: runtime.Version(), Modules: map[string]string{}}
	m.LoadAverage = firstLine("/proc/loadavg")
	m.Kernel = firstLine("/proc/sys/kernel/osrelease")
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo")
	for line := range bytes.Lines(cpuinfo) {
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(name)) == "model name" {
			m.CPU = string(bytes.TrimSpace(value))
			break
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			switch d.Path {
			case "github.com/modelcontextprotocol/go-sdk", "github.com/mark3labs/mcp-go", "google.golang.org/grpc":
				m.Modules[d.Path] = d.Version
			}
		}
	}
	return m
}

func (m machine) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d cores (%s), Linux %s, %s, load average %s\n", m.Cores, m.CPU, m.Kernel, m.Go, m.LoadAverage)
	fmt.Fprintf(&b, "go-sdk %s, mcp-go %s, grpc-go %s; the load generator shares the cores\n",
		m.Modules["github.com/modelcontextprotocol/go-sdk"], m.Modules["github.com/mark3labs/mcp-go"],
		m.Modules["google.golang.org/grpc"])
	return b.String()
}

func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

// ownCPU returns the CPU time of this process, the load generator.
func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail for oneself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
