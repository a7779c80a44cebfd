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

// ErrNoConfig means that there is neither a kubeconfig nor a pod's service account. The error that
// wraps it lists the searched locations.
var ErrNoConfig = errors.New("no configuration for an API server")

// LoadOptions selects parts of a kubeconfig and overrides others, like the kubectl flags with the same
// names. The zero value changes nothing.
type LoadOptions struct {
	// Kubeconfig is the only file to read. It must exist. If Kubeconfig is empty, see [LoadWith] for the
	// locations that are searched.
	Kubeconfig string

	// Context, Cluster and User are names in the kubeconfig. Context overrides current-context;
	// Cluster and User override the context's.
	Context string
	Cluster string
	User    string

	// Namespace overrides the context's namespace.
	Namespace string

	// Server overrides the cluster's URL, and thereby the name that the server's certificate must match.
	Server string
	// TLSServerName overrides the name that the server's certificate must match.
	TLSServerName string
	// CertificateAuthority is a file that overrides the cluster's CAs.
	CertificateAuthority string
	// InsecureSkipTLSVerify accepts any server certificate.
	InsecureSkipTLSVerify bool
	// ProxyURL overrides the cluster's proxy.
	ProxyURL string

	// Token overrides all of the user's credentials, including the client certificate, which the
	// server would check first.
	Token string

	// Inline rejects a kubeconfig whose context refers to a file or a program. An untrusted author of a
	// kubeconfig could otherwise make the client send any local file to the author's server as a token, or
	// run any program. The CertificateAuthority file and a pod's service account files are still allowed.
	Inline bool

	// Impersonate overrides the user's impersonation if its UserName is set.
	Impersonate Impersonation

	// The remaining fields are copied to the Config.

	UserAgent string
	Timeout   time.Duration
	Logger    *slog.Logger

	// serviceAccountDir overrides the service account's mount point in tests.
	serviceAccountDir string
}

// Load finds the API server the way kubectl does. It is [LoadWith] without options.
func Load() (*Config, error) { return LoadWith(LoadOptions{}) }

// LoadWith finds the API server the way kubectl does. It uses the first of these that exists:
//
//  1. The file set in LoadOptions.Kubeconfig, which must exist.
//  2. The files listed in the environment variable KUBECONFIG, merged; missing files
//     are skipped.
//  3. If KUBECONFIG is not set, ~/.kube/config.
//  4. The service account of the pod that the program runs in, unless the options specify
//     a context, cluster, user or server.
//
// When files are merged, the first current-context wins, and so does the first cluster, user or context with
// a given name; entries are not combined. Relative paths are resolved relative to the file that contains
// them. A kubeconfig's credentials are not sent to a server with an http address; instead, LoadWith logs a
// warning.
//
// If there is nothing to load, the error wraps [ErrNoConfig].
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
		return nil, fmt.Errorf("%w: %s: use a kubeconfig that has a context", ErrNoConfig, looked)
	}
	c, err := inCluster(o.accountDir())
	if errors.Is(err, ErrNotInCluster) {
		return nil, fmt.Errorf("%w: %s, and %w: set KUBECONFIG, specify a kubeconfig, or run in a pod with a service account", ErrNoConfig, looked, err)
	}
	if err != nil {
		return nil, err
	}
	if err := o.override(c); err != nil {
		return nil, err
	}
	return c, nil
}

// Parse builds a Config from the contents of a kubeconfig in YAML or JSON, for example from a Secret.
// Relative paths are resolved against the working directory. A kubeconfig may refer to local files and
// programs; if it is untrusted, set LoadOptions.Inline.
func Parse(data []byte) (*Config, error) { return ParseWith(data, LoadOptions{}) }

// ParseWith is [Parse] with options. LoadOptions.Kubeconfig must be empty.
func ParseWith(data []byte, o LoadOptions) (*Config, error) {
	if o.Kubeconfig != "" {
		return nil, errors.New("parse kubeconfig: the options also specify a kubeconfig file: use LoadWith for files")
	}
	k, err := parseKubeconfig(data)
	if err != nil {
		return nil, fmt.Errorf("parse kubeconfig: %w", err)
	}
	return k.config(o)
}

// kubeconfigPaths returns the files to read, in order, without duplicates. If explicit
// is true, the file must exist.
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
		// Containers often have no home directory but use a service account.
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
		return "there is no kubeconfig to read (KUBECONFIG lists none, or there is no home directory)"
	}
	return strings.Join(parts, ", ")
}

func (o *LoadOptions) accountDir() string {
	if o.serviceAccountDir != "" {
		return o.serviceAccountDir
	}
	return serviceAccountDir
}

// override applies the options to c and validates the result.
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
