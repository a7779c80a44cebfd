package main

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// downloads is the URL format for a version's archives.
const downloads = "https://%s/releases/download/%s/%s"

// krewManifest returns the krew manifest for informer-debug as the kubectl plugin "informer": see
// https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest.
func krewManifest(t *tree, files map[string][]byte) ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: informer
spec:
  version: %s
  homepage: https://%s
  shortDescription: See what an informer sees
  description: |
    Shows each change of a resource as an informer receives it, how long it
    took, and what goes wrong; looks into running programs that use informers.
  platforms:
`, t.version, t.modules[0].path)
	for _, of := range targets() {
		if of.program != "informer-debug" {
			continue
		}
		name := of.archive(t.version)
		text, ok := files[name]
		if !ok {
			return nil, fmt.Errorf("the krew manifest needs %s, which was not built", name)
		}
		fmt.Fprintf(&b, `  - selector:
      matchLabels:
        os: %s
        arch: %s
    uri: %s
    sha256: %x
    bin: %s
`, of.system, of.architecture, fmt.Sprintf(downloads, t.modules[0].path, t.version, name), sha256.Sum256(text), of.executable())
	}
	return []byte(b.String()), nil
}
