package cluster

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
)

// mostKubeconfig is the maximum size of a kubeconfig read for completion, in bytes.
const mostKubeconfig = 1 << 20

// complete registers completion for the flags that refer to entries in the kubeconfig.
func (f *Flags) complete(cmd *cobra.Command) {
	for flag, pick := range map[string]func(*kubeconfigNames) []kubeconfigEntry{
		"context": func(k *kubeconfigNames) []kubeconfigEntry { return k.Contexts },
		"cluster": func(k *kubeconfigNames) []kubeconfigEntry { return k.Clusters },
		"user":    func(k *kubeconfigNames) []kubeconfigEntry { return k.Users },
	} {
		_ = cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, file := range kubeconfigs(f.Load.Kubeconfig) {
				for _, one := range pick(readNames(file)) {
					names = append(names, one.Name)
				}
			}
			slices.Sort(names)
			return terminal.Completions(slices.Compact(names)), cobra.ShellCompDirectiveNoFileComp
		})
	}
}

// kubeconfigNames contains the names in a kubeconfig.
type kubeconfigNames struct{ Contexts, Clusters, Users []kubeconfigEntry }

type kubeconfigEntry struct{ Name string }

// kubeconfigs returns the kubeconfig files to merge.
func kubeconfigs(flag string) []string {
	if flag != "" {
		return []string{flag}
	}
	if files := filepath.SplitList(os.Getenv("KUBECONFIG")); len(files) > 0 {
		return files
	}
	home, _ := os.UserHomeDir() // without a home directory there is no default file
	return []string{filepath.Join(cmp.Or(home, "."), ".kube", "config")}
}

// readNames reads the names in a kubeconfig. The result is empty if the file is missing or invalid.
func readNames(file string) *kubeconfigNames {
	var k kubeconfigNames
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || info.Size() > mostKubeconfig {
		return &k
	}
	if text, err := os.ReadFile(file); err != nil || yaml.Unmarshal(text, &k) != nil {
		return &kubeconfigNames{}
	}
	return &k
}
