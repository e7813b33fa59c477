package child

import (
	"os"
	"strings"
)

// inherited are the variables that a program inherits: those for paths, the user and the language, without likely
// secrets. The last ones are for Windows.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR",
	"PYTHON*", "VIRTUAL_ENV", "JAVA_HOME", "NODE_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA",
	"LOCALAPPDATA",
}

// Env returns the inherited variables of ours, those of pass, and then add. The last of two entries wins.
func Env(ours, pass, add []string) []string {
	var env []string
	for _, kv := range ours {
		name, _, _ := strings.Cut(kv, "=")
		if named(name, inherited) || named(name, pass) {
			env = append(env, kv)
		}
	}
	return append(env, add...)
}

// named reports whether name matches one of the patterns.
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

// Lookup returns the value of name in env, or else in the environment of the bridge.
func Lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if k, v, _ := strings.Cut(env[i], "="); k == name {
			return v
		}
	}
	return os.Getenv(name)
}
