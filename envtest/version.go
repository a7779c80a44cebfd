package envtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// versionFile contains the Kubernetes minor version, such as "1.36", of the last server that was ready in a
// directory.
const versionFile = "kubernetes"

// required matches the Kubernetes version in a go.mod.
var required = regexp.MustCompile(`(?m)\bk8s\.io/kubernetes v1\.(\d+)\.`)

// minor returns the Kubernetes minor version that [Build] builds: 36 for 1.36.
func minor() (int, error) {
	src, err := parse(program).of(os.Getenv(versionVariable))
	if err != nil {
		return 0, err
	}
	_, text, ok := strings.Cut(src.minor(), ".")
	if !ok {
		return 0, errors.New("the API server program's go.mod does not require k8s.io/kubernetes")
	}
	return strconv.Atoi(text)
}

// minor returns the Kubernetes version in go.mod, such as "1.36", or "".
func (src source) minor() string {
	found := required.FindStringSubmatch(src["go.mod"])
	if found == nil {
		return ""
	}
	return "1." + found[1]
}

// checkVersion returns an error if a server of the given minor version cannot use a directory. A server can
// use data from its own minor version or the previous one, as in a cluster upgrade. An older server may not
// be able to read the data, and Kubernetes does not support skipping versions.
func checkVersion(dir string, now int) error {
	name := filepath.Join(dir, versionFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	major, after, _ := strings.Cut(strings.TrimSpace(string(text)), ".")
	before, err := strconv.Atoi(after)
	if err != nil || major != "1" {
		return fmt.Errorf("%s contains no Kubernetes version: remove it if you know that 1.%d can read the directory's data", name, now)
	}
	why, wanted := "an older version may not read the data of a newer one", before
	switch {
	case before < now-1:
		why, wanted = fmt.Sprintf("Kubernetes is upgraded by one minor version at a time, so 1.%d comes first", before+1), before+1
	case before <= now:
		return nil
	}
	advice := "choose another directory"
	if slices.Contains(parse(program).minors(), fmt.Sprintf("1.%d", wanted)) {
		advice = fmt.Sprintf("set %s=1.%d, or %s", versionVariable, wanted, advice)
	}
	return fmt.Errorf("the last server in %s was Kubernetes 1.%d, but this is 1.%d: %s: %s", dir, before, now, why, advice)
}

// keepVersion records the version of a server that was ready, for checkVersion.
func keepVersion(dir string, now int) error {
	return writeFile(filepath.Join(dir, versionFile), fmt.Appendf(nil, "1.%d\n", now))
}

// writeFile atomically replaces a file.
func writeFile(name string, text []byte) error {
	tmp := name + ".tmp"
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		_ = os.Remove(tmp) // the file may not exist
		return err
	}
	return os.Rename(tmp, name)
}
