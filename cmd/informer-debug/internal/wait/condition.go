package wait

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/diff"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/jsonpath"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/object"
)

// The possible prefixes of --for.
const (
	forSynced    = "synced"
	forRV        = "rv"
	forLag       = "lag"
	forQueue     = "queue"
	forCondition = "condition"
	forPath      = "jsonpath"
	forCreate    = "create"
	forDelete    = "delete"
)

// conditions lists the prefixes of --for, for completion.
var conditions = []string{forSynced, forRV + "=", forCreate, forDelete, forCondition + "=", forPath + "=", forLag + "<", forQueue + "="}

// condition is a parsed --for.
type condition struct {
	text  string // as typed
	kind  string
	rv    string
	lag   time.Duration
	most  int    // number of keys in the queue
	name  string // type of the condition in status.conditions
	path  jsonpath.Path
	value string // expected condition status or value at the path; if empty, any value at the path will do
}

// wantCondition lists the forms of --for.
const wantCondition = "want synced, rv=N, lag<1s, queue=0, condition=Ready[=True], jsonpath={.status.phase}[=Running], create or delete"

// parseCondition parses --for.
func parseCondition(text string) (c condition, err error) {
	c.text = text
	switch kind, value, _ := strings.Cut(text, "="); {
	case text == forSynced, text == forCreate, text == forDelete:
		c.kind = text
		return c, nil
	case kind == forRV:
		c.kind, c.rv = kind, value
		if _, err := object.CompareRV(value, value); err != nil {
			return c, exit.Usage("--for=%s: want a resource version, such as rv=1042", text)
		}
	case strings.HasPrefix(text, forLag+"<"):
		c.kind = forLag
		if c.lag, err = time.ParseDuration(text[len(forLag)+1:]); err != nil || c.lag <= 0 {
			return c, exit.Usage("--for=%s: want a positive duration, such as lag<1s", text)
		}
	case kind == forQueue:
		c.kind = kind
		if c.most, err = strconv.Atoi(value); err != nil || c.most < 0 {
			return c, exit.Usage("--for=%s: want a number, such as queue=0", text)
		}
	case kind == forCondition:
		c.kind = kind
		if c.name, c.value, _ = strings.Cut(value, "="); c.value == "" {
			c.value = "True"
		}
		if c.name == "" {
			return c, exit.Usage("--for=%s: specify the condition, such as condition=Ready", text)
		}
	case kind == forPath:
		c.kind = kind
		where := value
		if end := strings.LastIndex(value, "}"); end >= 0 {
			where, c.value = value[:end+1], strings.TrimPrefix(value[end+1:], "=")
		}
		if c.path, err = jsonpath.ParsePath(where); err != nil {
			return c, exit.Usage("--for: %w", err)
		}
		c.value = unquoted(c.value)
	default:
		return c, exit.Usage("--for=%s: %s", text, wantCondition)
	}
	return c, nil
}

// ofObject reports whether the condition is about objects rather than informers.
func (c *condition) ofObject() bool {
	return slices.Contains([]string{forCondition, forPath, forCreate, forDelete}, c.kind)
}

// holds reports whether an object meets the condition, and describes its state.
func (c *condition) holds(tree map[string]any) (bool, string) {
	if c.kind == forPath {
		return c.pathHolds(tree)
	}
	status, _ := tree["status"].(map[string]any)
	all, _ := status["conditions"].([]any)
	for _, one := range all {
		found, ok := one.(map[string]any)
		if name, _ := found["type"].(string); !ok || !strings.EqualFold(name, c.name) {
			continue
		}
		if seen, made := observed(status, found), generation(tree); seen >= 0 && seen < made {
			return false, fmt.Sprintf("condition %s is for generation %d, but the object has %d", c.name, seen, made)
		}
		value := plain(found["status"])
		text := fmt.Sprintf("condition %s is %s", c.name, terminal.OrDash(value))
		if strings.EqualFold(value, c.value) {
			return true, text
		}
		for _, why := range []string{"reason", "message"} {
			if said := plain(found[why]); said != "" {
				text += ": " + said
			}
		}
		return false, text
	}
	return false, fmt.Sprintf("no condition %s", c.name)
}

func (c *condition) pathHolds(tree map[string]any) (bool, string) {
	var texts []string
	for _, v := range c.path.Find(tree) {
		text := plain(v)
		if text == c.value && c.value != "" || c.value == "" && v != nil {
			return true, "it is " + diff.Brief(text)
		}
		texts = append(texts, diff.Brief(text))
	}
	if len(texts) == 0 {
		return false, "no value at that path"
	}
	return false, "it is " + strings.Join(texts, ", ")
}

// observed returns the generation that a condition refers to, or a negative number if unknown.
func observed(status, condition map[string]any) int64 {
	for _, from := range []map[string]any{condition, status} {
		if n, err := strconv.ParseInt(plain(from["observedGeneration"]), 10, 64); err == nil {
			return n
		}
	}
	return -1
}

func generation(tree map[string]any) int64 {
	meta, _ := tree["metadata"].(map[string]any)
	n, _ := strconv.ParseInt(plain(meta["generation"]), 10, 64) // 0 if absent
	return n
}

// plain formats a value as text: strings unchanged, anything else as JSON.
func plain(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// unquoted removes single or double quotes around text.
func unquoted(text string) string {
	if len(text) >= 2 && (text[0] == '"' || text[0] == '\'') && text[len(text)-1] == text[0] {
		return text[1 : len(text)-1]
	}
	return text
}
