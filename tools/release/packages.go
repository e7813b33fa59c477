package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers its format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers its format
)

// writePackages writes the deb and the rpm of a platform.
func (r *release) writePackages(p platform, program string) error {
	contents, err := r.installed(program)
	if err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		info := nfpm.WithDefaults(&nfpm.Info{
			Name: "mcpbridge", Arch: p.arch, Platform: p.os, Version: r.version, Release: "1", MTime: r.time,
			Section: "net", Priority: "optional", Maintainer: "The mcpbridge authors",
			Description: "Sidecar between MCP and gRPC\nIt " + summary + ".", Homepage: homepage, License: "Apache-2.0",
			Overridables: nfpm.Overridables{
				Contents: contents, Umask: 0o022,
				RPM: nfpm.RPM{BuildHost: "localhost", Summary: "Sidecar between MCP and gRPC"},
			},
		})
		if err := nfpm.PrepareForPackager(info, format); err != nil {
			return err
		}
		packager, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		f, err := os.Create(filepath.Join(r.out, "archives", packager.ConventionalFileName(info)))
		if err != nil {
			return err
		}
		if err := errors.Join(packager.Package(info, f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// installed returns the files of the packages, where Debian and Fedora look for them.
func (r *release) installed(program string) (files.Contents, error) {
	documents := r.documents()
	var contents files.Contents
	add := func(source, destination, format string, mode fs.FileMode) {
		contents = append(contents, &files.Content{
			Source: source, Destination: destination, Packager: format,
			FileInfo: &files.ContentFileInfo{Mode: mode, MTime: r.time, Owner: "root", Group: "root"},
		})
	}
	document := func(name, destination string) { add(filepath.Join(documents, name), destination, "", 0o644) }

	add(program, "/usr/bin/mcpbridge", "", 0o755)
	document("completions/mcpbridge.bash", "/usr/share/bash-completion/completions/mcpbridge")
	document("completions/mcpbridge.fish", "/usr/share/fish/vendor_completions.d/mcpbridge.fish")
	zsh := filepath.Join(documents, "completions", "_mcpbridge")
	add(zsh, "/usr/share/zsh/vendor-completions/_mcpbridge", "deb", 0o644)
	add(zsh, "/usr/share/zsh/site-functions/_mcpbridge", "rpm", 0o644)
	for _, name := range []string{"README.md", "CHANGELOG.md", "THIRD_PARTY_LICENSES"} {
		document(name, "/usr/share/doc/mcpbridge/"+name)
	}
	license := filepath.Join(documents, "LICENSE")
	add(license, "/usr/share/doc/mcpbridge/copyright", "deb", 0o644)
	add(license, "/usr/share/licenses/mcpbridge/LICENSE", "rpm", 0o644)

	services, err := fs.Glob(os.DirFS(documents), "deploy/systemd/*")
	if err != nil {
		return nil, err
	}
	for _, name := range services {
		document(name, "/usr/lib/systemd/system/"+filepath.Base(name))
	}
	for _, p := range pages {
		file, section := p.file+".gz", p.file[len(p.file)-1:]
		add(filepath.Join(r.work, file), "/usr/share/man/man"+section+"/"+file, "", 0o644)
	}
	return contents, nil
}
