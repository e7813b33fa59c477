package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/bridgetest"
)

func TestConfigurationPageListsEveryKey(t *testing.T) {
	whole, ok := bridgetest.Fenced(t, "../../docs/configuration.md")["this is the whole configuration"]
	if !ok {
		t.Fatal("docs/configuration.md does not have the whole configuration")
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "mcpbridge.yaml")
	if err := os.WriteFile(name, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Load(name, []string{"WEATHER_KEY=w", "ISSUES_TOKEN=i", "MAIL_SECRET=m", "ADA_TOKEN=a"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Validate(); err != nil {
		t.Error(err)
	}
	if l.Backends[0].Launch.Dir != dir || l.Serve.Drain != 30*time.Second ||
		l.Serve.HTTP.AllowedHosts[0] != "tools.example.com" {
		t.Errorf("it was read as %+v", l.Settings)
	}
	for _, k := range environKeys() {
		if _, ok := l.file.places[k.path]; !ok {
			t.Errorf("the page does not have the key %s", k.path)
		}
	}
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range keyNames(reflect.TypeFor[Backend]()) {
		if !regexp.MustCompile("`" + name + "`|\\b" + name + ":").Match(page) {
			t.Errorf("the page does not have the key %s of a backend", name)
		}
	}
}

// keyNames returns the names of all keys in a struct and in those in it.
func keyNames(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		names = append(names, f.Tag.Get("koanf"))
		if f.Type.Kind() == reflect.Pointer {
			names = append(names, keyNames(f.Type.Elem())...)
		}
	}
	return names
}
