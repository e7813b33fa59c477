// Command job-go is a long job with progress that can be canceled: it finds duplicate files.
//
// Try it: mcpbridge run -- job-go
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridge"
)

// Where selects the files to compare.
type Where struct {
	Folder  string `json:"folder" jsonschema:"The folder to look in, and in those below it" schema:"minLen=1"`
	MinSize int64  `json:"min_size,omitempty" jsonschema:"Leave out smaller files, in bytes" schema:"min=0,default=1"`
}

// Report is what was found.
type Report struct {
	Files      int      `json:"files" jsonschema:"How many files there are"`
	Wasted     int64    `json:"wasted" jsonschema:"How many bytes the duplicates take"`
	Duplicates []Same   `json:"duplicates" jsonschema:"The most wasteful first"`
	Unreadable []string `json:"unreadable,omitempty" jsonschema:"What could not be looked at, and why"`
}

// Same are files with the same content.
type Same struct {
	Size  int64    `json:"size" jsonschema:"The bytes of each"`
	Files []string `json:"files"`
}

func main() { os.Exit(newApp().Run()) }

func newApp() *mcpbridge.App {
	app := mcpbridge.New("job", "1.0", mcpbridge.Instructions("Finds duplicate files. Large folders take minutes."))
	mcpbridge.Tool(app, "find_duplicates", "Find files with the same content", findDuplicates, mcpbridge.ReadOnly(),
		mcpbridge.OpenWorld(false))
	return app
}

func findDuplicates(ctx context.Context, in Where) (Report, error) {
	var r Report
	bySize, err := r.list(ctx, in)
	if err != nil {
		return r, err
	}
	// Files of different sizes are different; only the others are read.
	j := job{buffer: make([]byte, 1<<20)}
	for size, files := range bySize {
		if len(files) > 1 {
			j.total += size * int64(len(files))
		}
	}
	for size, files := range bySize {
		if len(files) < 2 {
			continue
		}
		same := map[[sha256.Size]byte][]string{}
		for _, name := range files {
			sum, err := j.hash(ctx, name)
			if ctx.Err() != nil {
				return r, ctx.Err() // The call was canceled.
			}
			if err != nil {
				r.Unreadable = append(r.Unreadable, err.Error())
				continue
			}
			same[sum] = append(same[sum], name)
		}
		for _, names := range same {
			if len(names) > 1 {
				r.Duplicates = append(r.Duplicates, Same{size, names})
				r.Wasted += size * int64(len(names)-1)
			}
		}
	}
	slices.SortFunc(r.Duplicates, func(a, b Same) int {
		return int(b.Size*int64(len(b.Files)-1) - a.Size*int64(len(a.Files)-1))
	})
	return r, nil
}

// list returns the files by their sizes.
func (r *Report) list(ctx context.Context, in Where) (map[int64][]string, error) {
	bySize := map[int64][]string{}
	err := filepath.WalkDir(in.Folder, func(name string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil && name == in.Folder {
			return mcpbridge.ToolError("%w; give the path of a folder", err)
		}
		var info fs.FileInfo
		if err == nil {
			info, err = entry.Info()
		}
		if err != nil {
			r.Unreadable = append(r.Unreadable, err.Error())
			return nil
		}
		if info.Mode().IsRegular() && info.Size() >= in.MinSize {
			r.Files++
			bySize[info.Size()] = append(bySize[info.Size()], name)
		}
		return nil
	})
	return bySize, err
}

// A job is the progress of reading.
type job struct {
	done, total int64
	buffer      []byte
}

// hash reads a file, and reports progress after each MiB. The bridge forwards as much of it as the client reads.
func (j *job) hash(ctx context.Context, name string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	for ctx.Err() == nil {
		n, err := f.Read(j.buffer)
		h.Write(j.buffer[:n])
		j.done += int64(n)
		mcpbridge.Progress(ctx, float64(j.done), float64(j.total), filepath.Base(name))
		if errors.Is(err, io.EOF) {
			return [sha256.Size]byte(h.Sum(nil)), nil
		}
		if err != nil {
			return sum, err
		}
	}
	return sum, ctx.Err()
}
