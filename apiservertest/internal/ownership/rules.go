package ownership

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

//go:generate sh -c "go run ./rulegen v1.37.0 > rules.json.new && mv rules.json.new rules.json"

// rulesFile is made by rulegen. What it says of types that the Go packages of
// k8s.io/api do not have yet, or have no longer, harms nobody.
//
//go:embed rules.json
var rulesFile []byte

// rule says how a field, or a type wherever it is used, merges. The zero value is
// the default of the format: a list is replaced as a whole, a map is merged by key.
type rule struct {
	Keys    []string `json:"keys"`    // a list whose items are told apart by these fields
	Set     bool     `json:"set"`     // a list of scalars that each stand for themselves
	Atomic  bool     `json:"atomic"`  // a map or struct that is replaced as a whole
	Default any      `json:"default"` // of a key that an item leaves out
}

// rules are the rules by type, as OpenAPI names it, and field; those of the type
// itself are under the empty field.
type rules map[string]map[string]rule

func readRules() rules {
	var r rules
	if err := json.Unmarshal(rulesFile, &r); err != nil {
		panic(fmt.Sprintf("rules.json: %v", err)) // it is a part of the program
	}
	return r
}

// named is a type that knows its name in OpenAPI documents, as the types of
// k8s.io/api and apimachinery do.
type named interface{ OpenAPIModelName() string }

// of gives the rules of a type's fields; none for a type without a name in OpenAPI,
// or with one that it has from a struct embedded in it.
func (r rules) of(t reflect.Type) map[string]rule {
	n, ok := reflect.Zero(t).Interface().(named)
	if !ok || !strings.HasSuffix(n.OpenAPIModelName(), "."+t.Name()) {
		return nil
	}
	return r[n.OpenAPIModelName()]
}
