package main

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// canary returns a unique secret.
func canary(of string) string { return "canary-" + of + "-" + rand.Text() }

// carolCanary is the value of a claim, which only backends may receive.
var carolCanary = canary("carol")

func unquote(s string) (string, error) { return strconv.Unquote(`"` + s + `"`) }

// leaks searches for secrets in the log, in the backend's journal, in the environments of child processes, and in files
// of /proc that other users can read.
func (r *rig) leaks(b *bridge) error {
	secrets := []string{aliceToken, bobToken, "canary-of-a-row"}
	where := map[string][]byte{"the log": b.logged()}
	journal, err := os.ReadFile(b.journal)
	if err != nil {
		return err
	}
	where["the backend's journal"] = journal
	procs := []string{strconv.Itoa(b.cmd.Process.Pid)}
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", b.cmd.Process.Pid))
	if err != nil {
		return err
	}
	found := 0
	for _, file := range children {
		list, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has exited
		}
		for pid := range strings.FieldsSeq(string(list)) {
			found++
			procs = append(procs, pid)
			env, err := os.ReadFile("/proc/" + pid + "/environ")
			if err != nil {
				return err
			}
			where["the environment of a child"] = append(where["the environment of a child"], env...)
		}
	}
	if found == 0 {
		return fmt.Errorf("the bridge has no child process whose environment could be checked")
	}
	for _, pid := range procs {
		for _, name := range []string{"cmdline", "comm"} {
			data, err := os.ReadFile("/proc/" + pid + "/" + name)
			if err != nil {
				return err
			}
			where["/proc/PID/"+name] = append(where["/proc/PID/"+name], data...)
		}
	}
	r.places += len(where)
	for place, data := range where {
		for _, s := range secrets {
			if bytes.Contains(data, []byte(s)) {
				r.leaked++
				return fmt.Errorf("%s contains a secret", place)
			}
		}
	}
	if bytes.Contains(where["the log"], []byte(carolCanary)) {
		r.leaked++
		return fmt.Errorf("the log contains a claim")
	}
	return nil
}
