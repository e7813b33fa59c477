package child

import (
	"os"
	"strings"
)

// passed names the variables of our environment that a child gets: what programs need to find themselves, their user and
// their language, and nothing that is likely to be a secret. Windows programs do not even start without some of the last.
var passed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR",
	"PYTHON*", "VIRTUAL_ENV", "JAVA_HOME", "NODE_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
}

// Env returns what of ours a child gets, and what else was asked for. The last of two entries wins.
func Env(ours, pass, add []string) []string {
	var env []string
	for _, kv := range ours {
		name, _, _ := strings.Cut(kv, "=")
		if named(name, passed) || named(name, pass) {
			env = append(env, kv)
		}
	}
	return append(env, add...)
}

// named reports whether name is one of patterns.
func named(name string, patterns []string) bool {
	for _, p := range patterns {
		prefix, open := strings.CutSuffix(p, "*")
		if name == p || open && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// ValidEnv reports whether kv is an environment entry.
func ValidEnv(kv string) bool {
	return strings.IndexByte(kv, '=') > 0 && strings.IndexByte(kv, 0) < 0
}

// Lookup returns the value of name in env, or in ours if it is not there.
func Lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if k, v, _ := strings.Cut(env[i], "="); k == name {
			return v
		}
	}
	return os.Getenv(name)
}
