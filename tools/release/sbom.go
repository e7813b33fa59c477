package main

import (
	"debug/buildinfo"
	"errors"
	"os"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM lists the modules and the standard library of a program.
func (r *release) writeSBOM(p platform, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	component := func(kind cdx.ComponentType, name, version string) cdx.Component {
		purl := "pkg:golang/" + name + "@" + version
		return cdx.Component{BOMRef: purl, Type: kind, Name: name, Version: version, PackageURL: purl}
	}
	main := component(cdx.ComponentTypeApplication, info.Main.Path, "v"+r.version)
	components := []cdx.Component{component(cdx.ComponentTypeLibrary, "std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		components = append(components, component(cdx.ComponentTypeLibrary, m.Path, m.Version))
	}
	refs := make([]string, len(components))
	for i := range components {
		refs[i] = components[i].BOMRef
	}

	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format("2006-01-02T15:04:05Z"), Component: &main}
	bom.Components, bom.Dependencies = &components, &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	f, err := os.Create(r.archive(p, ".cdx.json"))
	if err != nil {
		return err
	}
	return errors.Join(cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom), f.Close())
}
