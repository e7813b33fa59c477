// Command image writes the container image of mcpbridge as an OCI layout, without a container engine. The same binaries
// and the same time result in the same bytes.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the user and group of the image: by convention "nonroot", which exists on no host.
const user = "65532"

// A file is a file or directory of the image.
type file struct {
	name string // a directory has a slash at the end
	mode int64
	data []byte
}

func main() {
	bin := flag.String("bin", "", "the `DIRECTORY` with the binaries: amd64/mcpbridge and arm64/mcpbridge")
	out := flag.String("out", "", "the `DIRECTORY` of the layout, which is replaced")
	version := flag.String("version", "", "the `VERSION` in the labels")
	created := flag.Int64("created", 0, "the `TIME` of the image and its files, in seconds since 1970")
	license := flag.String("license", "LICENSE", "the license `FILE`")
	flag.Parse()
	if err := write(*out, *bin, *license, *version, time.Unix(*created, 0).UTC()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// write writes a layout with one index, which has an image for each architecture.
func write(out, bin, license, version string, created time.Time) error {
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	text, err := os.ReadFile(license)
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range []string{"amd64", "arm64"} {
		program, err := os.ReadFile(filepath.Join(bin, arch, "mcpbridge"))
		if err != nil {
			return err
		}
		img, err := image(arch, version, created, []file{
			{"etc/", 0o755, nil},
			{"etc/group", 0o644, []byte("nonroot:x:" + user + ":\n")},
			{"etc/mcpbridge/", 0o755, nil},
			{"etc/passwd", 0o644, []byte("nonroot:x:" + user + ":" + user + "::/tmp:/nonexistent\n")},
			{"etc/ssl/", 0o755, nil},
			{"etc/ssl/certs/", 0o755, nil},
			{"etc/ssl/certs/ca-certificates.crt", 0o644, certificates()},
			{"tmp/", 0o1777, nil},
			{"usr/", 0o755, nil},
			{"usr/bin/", 0o755, nil},
			{"usr/bin/mcpbridge", 0o755, program},
			{"usr/share/", 0o755, nil},
			{"usr/share/doc/", 0o755, nil},
			{"usr/share/doc/mcpbridge/", 0o755, nil},
			{"usr/share/doc/mcpbridge/LICENSE", 0o644, text},
		})
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	path, err := layout.Write(out, empty.Index)
	if err != nil {
		return err
	}
	return path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": "latest",
	}))
}

// image returns the image of an architecture, with one layer.
func image(arch, version string, created time.Time, files []file) (v1.Image, error) {
	content, err := archive(created, files)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "mcpbridge/tools/image"},
	})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: created}
	config.Config = v1.Config{
		User:         user + ":" + user,
		Entrypoint:   []string{"/usr/bin/mcpbridge"},
		Cmd:          []string{"run", "--config", "/etc/mcpbridge/mcpbridge.yaml"},
		Env:          []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp"},
		WorkingDir:   "/",
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "mcpbridge",
			"org.opencontainers.image.description": "Serves tools that are written in any language to every MCP client",
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.version":     version,
		},
	}
	return mutate.ConfigFile(img, config)
}

// archive returns a tar archive of files that belong to root.
func archive(modified time.Time, files []file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{
			Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: modified, Typeflag: tar.TypeReg,
			Format: tar.FormatUSTAR,
		}
		if f.data == nil {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// certificates returns the root certificates that Mozilla trusts without constraints, in PEM form.
func certificates() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer returns no error
		}
	}
	return b.Bytes()
}
