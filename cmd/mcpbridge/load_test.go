package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestOnlyWhatOtherMachinesReachWaitsForThem(t *testing.T) {
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
		l, err := load("", nil, flags, nil)
		if err != nil {
			t.Fatal(err)
		}
		if l.Serve.PreDrain != want {
			t.Errorf("%s: %s", args, l.Serve.PreDrain)
		}
	}
	l := &loaded{Config: Config{Serve: ServeConfig{Stdio: "auto", PreDrain: -1}}}
	if p, ok := errors.AsType[*problem](l.validateServe()); !ok || !strings.Contains(p.What, "preDrain") {
		t.Errorf("a negative one: %v", p)
	}
}
