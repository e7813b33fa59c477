package config

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mcpbridge/mcpbridge/internal/problem"
)

func TestPreDrainDefaultDependsOnTheAddress(t *testing.T) {
	for args, want := range map[string]time.Duration{
		"serve.http.addr=127.0.0.1:8080":                      0,
		"serve.http.addr=localhost:8080":                      0,
		"serve.http.addr=0.0.0.0:8080":                        defaultPreDrain,
		"serve.http.addr=:8080":                               defaultPreDrain,
		"serve.http.addr=:8080 serve.preDrain=0s":             0,
		"serve.http.addr=127.0.0.1:8080 serve.preDrain=5s":    5 * time.Second,
		"serve.grpc.addr=unix:///run/m.sock":                  0,
		"serve.grpc.addr=10.0.0.1:50051":                      defaultPreDrain,
		"serve.grpc.addr=tcp:127.0.0.1:50051 serve.stdio=yes": 0,
	} {
		flags := map[string]any{}
		for arg := range strings.FieldsSeq(args) {
			name, value, _ := strings.Cut(arg, "=")
			flags[name] = value
		}
		l, err := Load("", nil, flags, nil)
		if err != nil {
			t.Fatal(err)
		}
		l.ChooseFronts(false)
		if l.Serve.PreDrain != want {
			t.Errorf("%s: %s", args, l.Serve.PreDrain)
		}
	}
	l := &Config{Settings: Settings{Serve: Serve{Stdio: "auto", PreDrain: -1}}}
	if p, ok := errors.AsType[*problem.Error](l.validateServe()); !ok || !strings.Contains(p.What, "preDrain") {
		t.Errorf("a negative one: %v", p)
	}
}
