// Command failing is a backend whose tools fail.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridge"
)

type none struct{}

func throw() {
	var p *struct{ n int }
	fmt.Println(p.n)
}

func main() {
	app := mcpbridge.New("failing", "1")
	for name, tool := range map[string]func(context.Context, none) (string, error){
		"throw": func(context.Context, none) (string, error) { throw(); return "", nil },
		"error": func(context.Context, none) (string, error) { return "", errors.New("boom") },
		"exit": func(context.Context, none) (string, error) {
			fmt.Fprintln(os.Stderr, "about to exit")
			os.Exit(3)
			return "", nil
		},
	} {
		mcpbridge.Tool(app, name, "fails", tool)
	}
	os.Exit(app.Run())
}
