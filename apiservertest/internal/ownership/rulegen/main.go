// Command rulegen generates rules.json, which specifies how lists and maps in the built-in types merge,
// from the OpenAPI documents in the Kubernetes source.
//
//	go run ./rulegen v1.37.0 > rules.json
//
// It reads only stable versions of types. It omits the format's defaults: lists are replaced as a whole,
// maps are merged by key.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// property holds the attributes of a type or field that this command reads.
type property struct {
	Ref        string              `json:"$ref"`
	AllOf      []property          `json:"allOf"`
	Properties map[string]property `json:"properties"`
	Items      *property           `json:"items"`
	Default    json.RawMessage     `json:"default"`
	ListType   string              `json:"x-kubernetes-list-type"`
	ListKeys   []string            `json:"x-kubernetes-list-map-keys"`
	MapType    string              `json:"x-kubernetes-map-type"`
}

// rule is one entry of rules.json; see package ownership.
type rule struct {
	Keys    []string        `json:"keys,omitempty"`
	Set     bool            `json:"set,omitempty"`
	Atomic  bool            `json:"atomic,omitempty"`
	Default json.RawMessage `json:"default,omitempty"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: rulegen VERSION")
		os.Exit(2)
	}
	rules, err := generate(os.Args[1])
	if err == nil {
		err = write(os.Stdout, rules)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rulegen:", err)
		os.Exit(1)
	}
}

// write writes the rules, one type per line.
func write(out io.Writer, rules map[string]map[string]rule) error {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		line, err := json.Marshal(rules[name])
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%q: %s", name, line))
	}
	_, err := fmt.Fprintf(out, "{\n%s\n}\n", strings.Join(lines, ",\n"))
	return err
}

// generate reads the OpenAPI documents of a Kubernetes version. The rules are keyed by type and field, with
// "" for the type itself.
func generate(version string) (map[string]map[string]rule, error) {
	types, err := download(version)
	if err != nil {
		return nil, err
	}
	rules := map[string]map[string]rule{}
	set := func(name, field string, change func(*rule)) {
		if rules[name] == nil {
			rules[name] = map[string]rule{}
		}
		r := rules[name][field]
		change(&r)
		rules[name][field] = r
	}
	for name, t := range types {
		if t.MapType == "atomic" {
			set(name, "", func(r *rule) { r.Atomic = true })
		}
		for field, p := range t.Properties {
			switch {
			case p.MapType == "atomic":
				set(name, field, func(r *rule) { r.Atomic = true })
			case p.ListType == "set":
				set(name, field, func(r *rule) { r.Set = true })
			case p.ListType == "map":
				set(name, field, func(r *rule) { r.Keys = p.ListKeys })
				item := p.Items.target()
				for _, key := range p.ListKeys {
					if value := types[item].Properties[key].Default; value != nil {
						set(item, key, func(r *rule) { r.Default = value })
					}
				}
			}
		}
	}
	return rules, nil
}

// target returns the type that a property refers to.
func (p *property) target() string {
	ref := p.Ref
	if ref == "" && len(p.AllOf) == 1 {
		ref = p.AllOf[0].Ref
	}
	return strings.TrimPrefix(ref, "#/components/schemas/")
}

// download fetches the source with the go command and reads the types from all documents.
func download(version string) (map[string]property, error) {
	out, err := exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes@"+version).Output()
	if err != nil {
		return nil, fmt.Errorf("download k8s.io/kubernetes %s: %w", version, err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, fmt.Errorf("parse the output of go mod download: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(module.Dir, "api", "openapi-spec", "v3", "*_openapi.json"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no OpenAPI documents in %s: %w", module.Dir, err)
	}
	stable := regexp.MustCompile(`\.v[0-9]+\.[A-Za-z]+$`)
	types := map[string]property{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var document struct {
			Components struct{ Schemas map[string]property }
		}
		if err := json.Unmarshal(text, &document); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for name, t := range document.Components.Schemas {
			if stable.MatchString(name) {
				types[name] = t
			}
		}
	}
	return types, nil
}
