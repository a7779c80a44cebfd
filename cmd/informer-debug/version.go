package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the program, Go and the Kubernetes libraries",
		Args:  exit.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				info = &debug.BuildInfo{}
			}
			if err := writeVersion(cmd.OutOrStdout(), info); err != nil {
				return &exit.Error{Code: exit.CodeRuntime, Err: fmt.Errorf("stdout: %w", err)}
			}
			return nil
		},
	}
}

func writeVersion(w io.Writer, info *debug.BuildInfo) error {
	version := info.Main.Version
	if version == "" {
		version = "(unknown)"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			version += " " + s.Value
		}
	}
	lines := []string{
		"informer-debug      " + version,
		fmt.Sprintf("go                  %s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH),
	}
	for _, dep := range info.Deps {
		if dep.Path == "k8s.io/api" || dep.Path == "k8s.io/apimachinery" {
			lines = append(lines, fmt.Sprintf("%-19s %s", dep.Path, dep.Version))
		}
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}
