package debug

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
)

// Goroutines contains the process's goroutine counts by package.
type Goroutines struct {
	Count  int
	Owners []GoroutinesOf // most goroutines first
}

// GoroutinesOf counts the goroutines whose outermost function is in a given package.
type GoroutinesOf struct {
	Package   string
	Count     int
	Functions []Function // most goroutines first
}

// Function counts the goroutines that have the same outermost function.
type Function struct {
	Name  string
	Count int
}

// goroutines counts goroutines by means of a profile, which stops the world only briefly.
func goroutines() (*Goroutines, error) {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return nil, err
	}
	return readGoroutines(&b)
}

// group is a set of goroutines with the same stack.
type group struct {
	count  int
	labels map[string]string
	frames []frame // innermost first
}

// frame is one call in a stack.
type frame struct{ function, place string }

// In the text form of the profile, each group of goroutines starts with its count, followed by its
// labels and frames, innermost first: "# 0x4a3b2c net/http.(*Server).Serve+0x1a
// /src/net/http/server.go:3285".
var (
	groupLine = regexp.MustCompile(`^(\d+) @ `)
	frameLine = regexp.MustCompile(`^#\t0x[0-9a-f]+\t(.+)\+0x[0-9a-f]+\t+(.*)`)
)

// readGroups parses a goroutine profile in text form.
func readGroups(b *bytes.Buffer) (groups []group, err error) {
	lines := bufio.NewScanner(b)
	lines.Buffer(nil, b.Len()+1) // label lines may be long
	for lines.Scan() {
		line := lines.Text()
		if m := groupLine.FindStringSubmatch(line); m != nil {
			count, _ := strconv.Atoi(m[1]) // matched digits
			groups = append(groups, group{count: count})
			continue
		}
		if len(groups) == 0 {
			continue
		}
		last := &groups[len(groups)-1]
		if labels, ok := strings.CutPrefix(line, "# labels: "); ok {
			_ = json.Unmarshal([]byte(labels), &last.labels) // if the labels are invalid, treat it like any other goroutine
		} else if m := frameLine.FindStringSubmatch(line); m != nil {
			last.frames = append(last.frames, frame{m[1], m[2]})
		}
	}
	return groups, lines.Err()
}

// starters are functions that start goroutines on behalf of other code.
var starters = []string{"sync.(*WaitGroup).Go.func1", "golang.org/x/sync/errgroup.(*Group).Go.func1"}

func readGoroutines(b *bytes.Buffer) (*Goroutines, error) {
	groups, err := readGroups(b)
	counts := map[string]int{}
	all := &Goroutines{}
	for _, g := range groups {
		outermost := ""
		for _, f := range g.frames {
			if !slices.Contains(starters, f.function) {
				outermost = f.function
			}
		}
		counts[outermost] += g.count
		all.Count += g.count
	}
	owners := map[string]*GoroutinesOf{}
	for function, n := range counts {
		pkg := packageOf(function)
		if owners[pkg] == nil {
			owners[pkg] = &GoroutinesOf{Package: pkg}
		}
		owners[pkg].Count += n
		owners[pkg].Functions = append(owners[pkg].Functions, Function{function, n})
	}
	for _, o := range owners {
		slices.SortFunc(o.Functions, func(a, b Function) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
		})
		all.Owners = append(all.Owners, *o)
	}
	slices.SortFunc(all.Owners, func(a, b GoroutinesOf) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Package, b.Package))
	})
	return all, err
}

// packageOf returns the import path part of a function name.
func packageOf(function string) string {
	path, name := "", function
	if slash := strings.LastIndexByte(function, '/'); slash >= 0 {
		path, name = function[:slash+1], function[slash+1:]
	}
	pkg, _, _ := strings.Cut(name, ".")
	return path + pkg
}
