package config

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

const modulePath = "github.com/millrace-dev/millrace"

// defaultUserAgent returns, for example,
// "informer-debug millrace/v1.2.3 (linux/amd64)".
func defaultUserAgent() string {
	agent := "millrace/" + moduleVersion() + " (" + runtime.GOOS + "/" + runtime.GOARCH + ")"
	if len(os.Args) == 0 {
		return agent
	}
	program := strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r) {
			return '_'
		}
		return r
	}, strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"))
	return program + " " + agent
}

func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	modules := append([]*debug.Module{&info.Main}, info.Deps...)
	for _, m := range modules {
		if m.Path == modulePath && m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return "devel"
}
