package config

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrNoConfig says that there is neither a kubeconfig nor a pod's service
// account. The error that wraps it tells where was looked.
var ErrNoConfig = errors.New("no configuration for an API server")

// LoadOptions choose among what a kubeconfig offers and override parts of it,
// like kubectl's flags of the same names. The zero value changes nothing.
type LoadOptions struct {
	// Kubeconfig is the one file to read. It must exist, and nothing else is
	// looked at then. Empty means the files of the environment variable KUBECONFIG,
	// then ~/.kube/config, then the pod's service account.
	Kubeconfig string

	// Context, Cluster and User are names in the kubeconfig. Context replaces
	// current-context; Cluster and User replace those of the context.
	Context string
	Cluster string
	User    string

	// Namespace replaces the context's namespace.
	Namespace string

	// Server replaces the cluster's URL, and with it the name that the server's certificate is
	// checked for.
	Server string
	// TLSServerName replaces the name that the server's certificate is checked for.
	TLSServerName string
	// CertificateAuthority is a file that replaces the cluster's authorities.
	CertificateAuthority string
	// InsecureSkipTLSVerify accepts any server certificate.
	InsecureSkipTLSVerify bool
	// ProxyURL replaces the cluster's proxy.
	ProxyURL string

	// Token is used instead of all credentials of the user, the client certificate
	// included: the server would look at that first.
	Token string

	// Inline refuses a kubeconfig whose context names a file or a program: a kubeconfig
	// that somebody else wrote can have any file of this machine that holds a token sent to
	// its server, and any program run. The files of CertificateAuthority and of a pod's
	// service account are not affected.
	Inline bool

	// Impersonate replaces the user's impersonation if its UserName is set.
	Impersonate Impersonation

	// The rest is copied to the Config.

	UserAgent string
	Timeout   time.Duration
	Logger    *slog.Logger

	// serviceAccountDir is where a pod finds its service account, for tests.
	serviceAccountDir string
}

// Load finds out how to reach the API server, as kubectl does. It is LoadWith
// without options.
func Load() (*Config, error) { return LoadWith(LoadOptions{}) }

// LoadWith finds out how to reach the API server, as kubectl does:
//
//  1. The file named by LoadOptions.Kubeconfig, alone.
//  2. Or else the files listed in the environment variable KUBECONFIG, merged;
//     files that do not exist are skipped.
//  3. Or else, if KUBECONFIG is not set, ~/.kube/config.
//  4. If 2 and 3 find nothing and no context, cluster, user or server is asked
//     for: the service account of the pod that the program runs in.
//
// Of merged files, the first that sets current-context wins, and so does the first
// that defines a cluster, user or context of a name; entries are not mixed. A
// relative path is relative to its file. The credentials of a kubeconfig are not
// sent to a server whose address is http; the Logger is told.
//
// If there is nothing to load, the error wraps ErrNoConfig.
// https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
func LoadWith(o LoadOptions) (*Config, error) {
	paths, explicit, err := kubeconfigPaths(o)
	if err != nil {
		return nil, err
	}
	var merged kubeconfig
	var missing, found []string
	for _, path := range paths {
		k, err := readKubeconfig(path)
		if !explicit && errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, path)
			continue
		}
		if err != nil {
			return nil, err
		}
		merged.merge(k)
		found = append(found, path)
	}
	merged.sources = found
	if !merged.empty() || o.Server != "" {
		return merged.config(o)
	}

	looked := describePaths(missing, found)
	if explicit || o.Context != "" || o.Cluster != "" || o.User != "" {
		return nil, fmt.Errorf("%w: %s: name a kubeconfig that has a context", ErrNoConfig, looked)
	}
	c, err := inCluster(o.accountDir())
	if errors.Is(err, ErrNotInCluster) {
		return nil, fmt.Errorf("%w: %s, and %w: set KUBECONFIG or name a kubeconfig, or run in a pod with a service account", ErrNoConfig, looked, err)
	}
	if err != nil {
		return nil, err
	}
	if err := o.override(c); err != nil {
		return nil, err
	}
	return c, nil
}

// Parse makes a Config of the text of a kubeconfig, in YAML or JSON: one from a
// Secret, for example. Relative paths in it are relative to the working directory. A text that
// somebody else wrote may name files and programs of this machine: see LoadOptions.Inline.
func Parse(data []byte) (*Config, error) { return ParseWith(data, LoadOptions{}) }

// ParseWith is Parse with options. LoadOptions.Kubeconfig must be empty.
func ParseWith(data []byte, o LoadOptions) (*Config, error) {
	if o.Kubeconfig != "" {
		return nil, errors.New("parse kubeconfig: the options name a kubeconfig file too: use LoadWith for files")
	}
	k, err := parseKubeconfig(data)
	if err != nil {
		return nil, fmt.Errorf("parse kubeconfig: %w", err)
	}
	return k.config(o)
}

// kubeconfigPaths returns the files to read, in order, without duplicates.
// Explicit means that the file must exist.
func kubeconfigPaths(o LoadOptions) (paths []string, explicit bool, err error) {
	if o.Kubeconfig != "" {
		return []string{o.Kubeconfig}, true, nil
	}
	if env := os.Getenv("KUBECONFIG"); env != "" {
		for _, p := range filepath.SplitList(env) {
			if p != "" && !slices.Contains(paths, p) {
				paths = append(paths, p)
			}
		}
		return paths, false, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		// A container often has no home; it has a service account then.
		return nil, false, nil
	}
	return []string{filepath.Join(home, ".kube", "config")}, false, nil
}

func describePaths(missing, empty []string) string {
	var parts []string
	for _, p := range missing {
		parts = append(parts, fmt.Sprintf("kubeconfig %s does not exist", p))
	}
	for _, p := range empty {
		parts = append(parts, fmt.Sprintf("kubeconfig %s is empty", p))
	}
	if len(parts) == 0 {
		return "there is no kubeconfig to look in (KUBECONFIG names none, or there is no home directory)"
	}
	return strings.Join(parts, ", ")
}

func (o *LoadOptions) accountDir() string {
	if o.serviceAccountDir != "" {
		return o.serviceAccountDir
	}
	return serviceAccountDir
}

// override applies the options to a configuration and checks the result.
func (o *LoadOptions) override(c *Config) error {
	if o.Namespace != "" {
		c.Namespace = o.Namespace
	}
	if o.Server != "" {
		c.Host = o.Server
	}
	if o.Server != "" || o.TLSServerName != "" {
		c.TLS.ServerName = o.TLSServerName
	}
	if o.CertificateAuthority != "" || o.InsecureSkipTLSVerify {
		c.TLS.CAFile, c.TLS.CAData = o.CertificateAuthority, nil
		c.TLS.Insecure = o.InsecureSkipTLSVerify
	}
	if o.ProxyURL != "" {
		c.ProxyURL = o.ProxyURL
	}
	if o.Token != "" {
		c.clearCredentials()
		c.BearerToken = o.Token
	}
	if err := o.Impersonate.validate(); err != nil {
		return err
	}
	if o.Impersonate.UserName != "" {
		c.Impersonate = o.Impersonate
	}
	c.UserAgent, c.Timeout, c.Logger = o.UserAgent, o.Timeout, o.Logger
	return c.validate()
}
