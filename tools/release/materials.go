package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"

	"github.com/millrace-dev/millrace/tools/internal/dependency"
)

// licenses reads the licences of dependencies.
type licenses struct{ classifier *classifier.Classifier }

func newLicenses() (licenses, error) {
	c, err := assets.DefaultClassifier()
	return licenses{c}, err
}

// of returns the concatenated licence texts of all dependencies, and the names of each dependency's licences.
// It returns an error if a licence is not allowed.
func (l licenses) of(all dependency.Set) (texts []byte, names map[string][]string, err error) {
	names = map[string][]string{}
	for _, d := range all.Sorted() {
		if names[d.Path], err = d.Licenses(l.classifier); err != nil {
			return nil, nil, err
		}
		files, err := d.Files()
		if err != nil {
			return nil, nil, err
		}
		for _, name := range files {
			text, err := os.ReadFile(filepath.Join(d.Dir, name))
			if err != nil {
				return nil, nil, err
			}
			title := d.Path + ": " + filepath.ToSlash(name)
			texts = fmt.Appendf(texts, "%s\n%s\n\n%s\n\n", title, strings.Repeat("=", len(title)), bytes.TrimSpace(text))
		}
	}
	return texts, names, nil
}

// billOfMaterials returns a program's bill of materials in CycloneDX format: the modules recorded in it
// by the linker, with their licences, and Go's standard library.
func billOfMaterials(t target, of *tree, path string, licenses map[string][]string) ([]byte, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	bom := cyclonedx.NewBOM()
	main := component(info.Main.Path, info.Main.Version, []string{"Apache-2.0"})
	main.Type, main.Name = cyclonedx.ComponentTypeApplication, t.program
	if !strings.HasSuffix(info.Main.Path, "/"+t.program) { // a package in the module, not the module itself
		main.BOMRef, main.PackageURL = main.BOMRef+"#cmd/"+t.program, main.PackageURL+"#cmd/"+t.program
	}
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp:  of.time.UTC().Format(time.RFC3339),
		Component:  &main,
		Properties: &[]cyclonedx.Property{{Name: "GOOS", Value: t.system}, {Name: "GOARCH", Value: t.architecture}},
	}
	parts := []cyclonedx.Component{component("std", strings.TrimPrefix(info.GoVersion, "go"), []string{"BSD-3-Clause"})}
	for _, m := range info.Deps {
		names, ok := licenses[m.Path+"@"+m.Version]
		if of.module(m.Path) != nil {
			names, ok = []string{"Apache-2.0"}, true
		}
		if !ok {
			return nil, fmt.Errorf("%s is linked but unknown to go list", m.Path)
		}
		c := component(m.Path, m.Version, names)
		c.Properties = &[]cyclonedx.Property{{Name: "go.sum", Value: m.Sum}}
		parts = append(parts, c)
	}
	refs := make([]string, len(parts))
	for n, c := range parts {
		refs[n] = c.BOMRef
	}
	bom.Components = &parts
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var b bytes.Buffer
	err = cyclonedx.NewBOMEncoder(&b, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return b.Bytes(), err
}

// component describes a Go module as a component: see https://github.com/package-url/purl-spec.
func component(path, version string, licenses []string) cyclonedx.Component {
	c := cyclonedx.Component{
		Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version,
		PackageURL: "pkg:golang/" + path + "@" + version, BOMRef: "pkg:golang/" + path + "@" + version,
	}
	var choices cyclonedx.Licenses
	for _, name := range slices.Sorted(slices.Values(licenses)) {
		choices = append(choices, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: name}})
	}
	c.Licenses = &choices
	return c
}
