package plugin

import (
	"context"
	"fmt"
	"os"
)

// beBridge is a bridge process: it launches the plugin spec and reports when it is ready.
func beBridge(spec string) {
	p, err := New(Options{
		Command: []string{spec, os.Getenv("PLUGIN_TEST_MODE"), "ignore-stdin"},
		PassEnv: []string{"PIDS"},
	})
	if err != nil {
		panic(err)
	}
	go func() {
		if err := p.Ready(context.Background()); err != nil {
			panic(err)
		}
		fmt.Println("ready")
	}()
	panic(p.Run(context.Background()))
}
