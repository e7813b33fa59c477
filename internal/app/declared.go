package app

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/config"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

const (
	// maxDeclared is the maximum size of a declaration in bytes, and maxDeclarations the maximum number of
	// declarations.
	maxDeclared     = 256 << 10
	maxDeclarations = 128
)

// A declaration is a file with the capabilities and the instructions that the backends declared when they last ran. A
// stdio client receives them if a backend starts slowly; without them, it would not receive the backend's instructions.
// The file is a cache: if it cannot be used, the client is served as if there were none.
type declaration struct {
	file string
	log  zerolog.Logger
}

// declarationsOf returns the files of the backends of a configuration, one for each era. A program that has changed
// gets new files.
func declarationsOf(cfg *config.Config, log zerolog.Logger) (d [bridge.Eras]declaration, ok bool) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return d, false
	}
	key := sha256.New()
	for i := range cfg.Backends {
		b := &cfg.Backends[i]
		fmt.Fprintf(key, "%q %q\n", b.Name, b.Text())
		c := b.Command()
		if c == nil {
			continue
		}
		fmt.Fprintf(key, "%q %q\n", c.Command, c.Dir)
		for j, word := range c.Command {
			if path, err := exec.LookPath(word); j == 0 && err == nil {
				word = path
			}
			if !filepath.IsAbs(word) {
				word = filepath.Join(c.Dir, word)
			}
			if info, err := os.Stat(word); err == nil && info.Mode().IsRegular() {
				fmt.Fprintf(key, "%d %d\n", info.Size(), info.ModTime().UnixNano())
			}
		}
	}
	for era := range d {
		file := fmt.Sprintf("%x-%d", key.Sum(nil), era)
		d[era] = declaration{filepath.Join(dir, "mcpbridge", "declared", file), log}
	}
	return d, true
}

// read returns the stored declarations, or nil.
func (d declaration) read() *pb.DiscoverResponse {
	info, err := os.Stat(d.file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxDeclared {
		return nil
	}
	data, err := os.ReadFile(d.file)
	declared := &pb.DiscoverResponse{}
	if err != nil || proto.Unmarshal(data, declared) != nil || declared.GetCapabilities() == nil {
		return nil
	}
	return declared
}

// write stores the declarations.
func (d declaration) write(declared *pb.DiscoverResponse) {
	if err := d.replace(bridge.ShallowCopy(declared)); err != nil {
		d.log.Debug().Err(err).Msg("cannot store the declarations of the backends")
	}
}

func (d declaration) replace(declared *pb.DiscoverResponse) error {
	data, err := proto.Marshal(declared)
	if err != nil || len(data) > maxDeclared {
		return err
	}
	dir := filepath.Dir(d.file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "new-*") // which only this user can read
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = cmp.Or(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), d.file)
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	return prune(dir)
}

// prune removes the oldest files of a directory, if there are too many.
func prune(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= maxDeclarations {
		return err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for _, info := range files[:max(len(files)-maxDeclarations, 0)] {
		os.Remove(filepath.Join(dir, info.Name()))
	}
	return nil
}
