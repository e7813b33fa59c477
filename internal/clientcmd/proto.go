package clientcmd

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mcpbridge/mcpbridge/internal/problem"
	"github.com/mcpbridge/mcpbridge/proto"
	"github.com/mcpbridge/mcpbridge/sdkgen/templates"
)

const protoLong = `Writes the .proto files that a backend or a gRPC client in any language needs, in the version of
this program: the contract (mcpbridge/v1), gRPC's health service, the controller of go-plugin, and google.rpc.Status
with its error details. Beside them are templates of ` + "`buf generate`" + ` for languages without an SDK;
their first lines name the tools to install.

Files that differ are overwritten, and no others are touched.`

// ProtoCommand returns the command `proto`.
func (e *Env) ProtoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "proto DIR",
		Short: "Write the .proto files for stubs in any language",
		Long:  protoLong,
		Example: "  mcpbridge proto proto\n" +
			"  npx @bufbuild/buf generate proto --template proto/buf.gen.ruby.yaml -o gen",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return problem.Usage("the arguments", "write mcpbridge proto DIR",
					"there is no directory to write to, or more than one")
			}
			for _, files := range []fs.FS{proto.Files, templates.Files} {
				if err := writeFiles(args[0], files); err != nil {
					return &problem.Error{
						Exit: problem.ExitUnexpected, Code: "write", What: "the .proto files cannot be written",
						Why: err.Error(),
						Fix: "name a directory that can be written to", Cause: err,
					}
				}
			}
			_, err := fmt.Fprintf(e.Stdout, "wrote the .proto files of mcpbridge %s to %s\n", e.Version, args[0])
			return err
		},
	}
}

// writeFiles writes all files of from below dir.
func writeFiles(dir string, from fs.FS) error {
	return fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(path))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755) //nolint:gosec // Everybody may read it.
		}
		text, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		if old, err := os.ReadFile(to); err == nil && bytes.Equal(old, text) {
			return nil // Its modification time stays, so that nothing is rebuilt.
		}
		return os.WriteFile(to, text, 0o644) //nolint:gosec // Everybody may read it.
	})
}
