package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/snapshot"
	"github.com/millrace-dev/millrace/wire"
)

func newSnapshot(s terminal.Streams) *cobra.Command {
	var keys bool
	cmd := &cobra.Command{
		Use:   "snapshot FILE",
		Short: "Show the contents of an informer's snapshot",
		Long: `snapshot shows which informer wrote a file, and how many objects it contains per namespace.
It does not show the objects themselves.

Exit codes:
  0  the file is intact
  1  the file is unreadable or damaged
  2  usage error`,
		Example: `  informer-debug snapshot /var/cache/shop/pod-15544abfb4c59443.snapshot
  informer-debug snapshot --keys /var/cache/shop/pod-15544abfb4c59443.snapshot`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usage("%d arguments: want one FILE, such as /var/cache/shop/*.snapshot", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if info, err := os.Stat(args[0]); err == nil && info.IsDir() {
				return oneOf(args[0])
			}
			if err := showSnapshot(s.Out, args[0], keys, time.Now()); err != nil {
				return &exit.Error{Code: exit.CodeRuntime, Err: err}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&keys, "keys", false, "list the objects, with UID and resource version")
	return cmd
}

// oneOf returns the error for a directory, which --snapshot accepts but this command does not.
func oneOf(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
	if err != nil || len(files) == 0 {
		return exit.Usage("%s is a directory without snapshots: want one FILE", dir)
	}
	return exit.Usage("%s is a directory: want one FILE in it, such as %s", dir, files[0])
}

func showSnapshot(to io.Writer, path string, keys bool, now time.Time) error {
	f, err := snapshot.Open(path)
	if err != nil {
		return err
	}
	heads, err := wire.ArchivedHeads(f.Content, f.Objects)
	if err != nil {
		return &snapshot.Error{Path: path, Err: err}
	}
	text := terminal.NewText()
	describeSnapshot(text, f, now)
	text.Line()
	if keys {
		text.Line("NAMESPACE", "NAME", "UID", "RV")
		for _, h := range heads {
			text.Line(terminal.OrDash(h.GetNamespace()), h.GetName(), string(h.GetUID()), h.GetResourceVersion())
		}
		return text.Print(to)
	}
	count := make(map[string]int)
	for _, h := range heads {
		count[h.GetNamespace()]++
	}
	text.Line("NAMESPACE", "OBJECTS")
	for _, namespace := range slices.Sorted(maps.Keys(count)) {
		text.Line(terminal.OrDash(namespace), strconv.Itoa(count[namespace]))
	}
	return text.Print(to)
}

// describeSnapshot prints a snapshot's header, omitting empty fields.
func describeSnapshot(to *terminal.Text, f *snapshot.File, now time.Time) {
	for _, line := range [][2]string{
		{"kind", strings.TrimPrefix(object.FormatKey(object.Key{Namespace: f.Kind.GroupVersion().String(), Name: f.Kind.Kind}), "/")},
		{"Go type", f.Type},
		{"server", f.Server},
		{"cluster", f.Cluster},
		{"namespace", f.Namespace},
		{"scope", f.Scope},
		{"label selector", f.Labels},
		{"field selector", f.Fields},
		{"fields", f.Keep},
		{"transform", f.Transform},
		{"resource version", f.RV},
		{"written", fmt.Sprintf("%s, %s ago", f.Written.Format(time.RFC3339), now.Sub(f.Written).Round(time.Second))},
		{"objects", fmt.Sprint(f.Objects)},
		{"size", fmt.Sprintf("%d bytes", f.Size)},
	} {
		if line[1] != "" {
			to.Line(line[0], line[1])
		}
	}
}
