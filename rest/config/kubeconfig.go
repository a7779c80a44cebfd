package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const defaultNamespace = "default"

// kubeconfig is the content of one file, or of several files merged together.
// https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
type kubeconfig struct {
	currentContext string
	contexts       map[string]kubeContext
	clusters       map[string]kubeCluster
	users          map[string]kubeUser
	sources        []string // the files it was read from, for messages
}

// kubeconfigFile is the format of a file. Its sections are lists of named entries.
type kubeconfigFile struct {
	APIVersion     string `json:"apiVersion"`
	Kind           string `json:"kind"`
	CurrentContext string `json:"current-context"`
	Contexts       []struct {
		Name    string      `json:"name"`
		Context kubeContext `json:"context"`
	} `json:"contexts"`
	Clusters []struct {
		Name    string      `json:"name"`
		Cluster kubeCluster `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string   `json:"name"`
		User kubeUser `json:"user"`
	} `json:"users"`
}

type kubeContext struct {
	Cluster   string `json:"cluster"`
	User      string `json:"user"`
	Namespace string `json:"namespace"`
}

type kubeCluster struct {
	Server        string `json:"server"`
	TLSServerName string `json:"tls-server-name"`
	Insecure      bool   `json:"insecure-skip-tls-verify"`
	CAFile        string `json:"certificate-authority"`
	CAData        []byte `json:"certificate-authority-data"`
	ProxyURL      string `json:"proxy-url"`
	Extensions    []struct {
		Name      string          `json:"name"`
		Extension json.RawMessage `json:"extension"`
	} `json:"extensions"`
}

type kubeUser struct {
	CertFile     string              `json:"client-certificate"`
	CertData     []byte              `json:"client-certificate-data"`
	KeyFile      string              `json:"client-key"`
	KeyData      []byte              `json:"client-key-data"`
	Token        string              `json:"token"`
	TokenFile    string              `json:"tokenFile"`
	Username     string              `json:"username"`
	Password     string              `json:"password"`
	As           string              `json:"as"`
	AsUID        string              `json:"as-uid"`
	AsGroups     []string            `json:"as-groups"`
	AsUserExtra  map[string][]string `json:"as-user-extra"`
	Exec         *kubeExec           `json:"exec"`
	AuthProvider *struct {
		Name string `json:"name"`
	} `json:"auth-provider"`
}

type kubeExec struct {
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Env     []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"env"`
	APIVersion         string              `json:"apiVersion"`
	InstallHint        string              `json:"installHint"`
	ProvideClusterInfo bool                `json:"provideClusterInfo"`
	InteractiveMode    ExecInteractiveMode `json:"interactiveMode"`
}

// readKubeconfig reads one file and makes its paths absolute.
func readKubeconfig(path string) (*kubeconfig, error) {
	data, err := ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	k, err := parseKubeconfig(data)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	k.resolvePaths(dir)
	return k, nil
}

// unmarshalYAML reads YAML or JSON. Like kubectl, it treats keys as case-sensitive, so that both interpret a
// file in the same way.
func unmarshalYAML(data []byte, into any) error {
	text, err := yaml.YAMLToJSON(data)
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(text, into)
}

func parseKubeconfig(data []byte) (*kubeconfig, error) {
	var f kubeconfigFile
	if err := unmarshalYAML(data, &f); err != nil {
		return nil, describeSyntax(err)
	}
	if f.Kind != "" && f.Kind != "Config" || f.APIVersion != "" && f.APIVersion != "v1" {
		return nil, fmt.Errorf("it is of kind %q, version %q, not a kubeconfig (kind Config, version v1)", f.Kind, f.APIVersion)
	}
	k := &kubeconfig{
		currentContext: f.CurrentContext,
		contexts:       map[string]kubeContext{},
		clusters:       map[string]kubeCluster{},
		users:          map[string]kubeUser{},
	}
	var twice error
	define := func(what, name string, first bool) {
		if !first {
			twice = fmt.Errorf("there are two %ss %q: remove one", what, name)
		}
	}
	for _, c := range f.Contexts {
		define("context", c.Name, putFirst(k.contexts, c.Name, c.Context))
	}
	for _, c := range f.Clusters {
		define("cluster", c.Name, putFirst(k.clusters, c.Name, c.Cluster))
	}
	for _, u := range f.Users {
		define("user", u.Name, putFirst(k.users, u.Name, u.User))
	}
	if twice != nil {
		return nil, twice
	}
	return k, nil
}

// putFirst sets a key unless it is already set, and reports whether it did. If there are several
// definitions, the first one wins.
func putFirst[V any](m map[string]V, key string, value V) bool {
	_, ok := m[key]
	if !ok {
		m[key] = value
	}
	return !ok
}

// These match the position in a parse error, and the offending text that it quotes, which may be a
// password.
var (
	yamlLine   = regexp.MustCompile(`line \d+: `)
	yamlQuoted = regexp.MustCompile("`[^`]*`?|'[^']*'?|\"[^\"]*\"?")
)

// describeSyntax converts a YAML or JSON decoding error to one that contains the position of the mistake
// but does not quote the file.
func describeSyntax(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		kind, _, _ := strings.Cut(e.Value, " ")  // "number 123" would reveal the number
		if kind == "string" && isBytes(e.Type) { // since Go 1.27; the error includes the field
			return notBase64(e.Field)
		}
		advice := ""
		if e.Type.Kind() == reflect.String && (kind == "number" || kind == "bool") {
			advice = ": put it in quotes"
		}
		return fmt.Errorf("%s contains a JSON %s, but %s is expected%s", cmp.Or(e.Field, "the top level"), kind, describeType(e.Type), advice)
	}
	text := err.Error()
	if at := yamlLine.FindStringIndex(text); at != nil {
		return fmt.Errorf("malformed YAML: %s", yamlQuoted.ReplaceAllString(text[at[0]:], "..."))
	}
	switch {
	case strings.Contains(text, "unknown anchor"):
		return errors.New("malformed YAML: a value starts with * but is not an alias: put it in quotes")
	case strings.Contains(text, "map key"):
		return errors.New("malformed YAML: a key is not a string")
	case strings.Contains(text, "base64"):
		return notBase64("a certificate or key")
	}
	return errors.New("malformed YAML or JSON")
}

func notBase64(what string) error {
	return fmt.Errorf("%s is not valid base64: fields ending in -data contain base64-encoded PEM", what)
}

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

func describeType(t reflect.Type) string {
	if isBytes(t) {
		return "a base64 string"
	}
	switch t.Kind() {
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map, reflect.Pointer:
		return "a mapping"
	case reflect.Bool:
		return "true or false"
	default:
		return "a string"
	}
}

// resolvePaths resolves paths relative to dir. A command without a slash is looked up
// in PATH.
func (k *kubeconfig) resolvePaths(dir string) {
	resolve := func(path *string) {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	for name, c := range k.clusters {
		resolve(&c.CAFile)
		k.clusters[name] = c
	}
	for name, u := range k.users {
		resolve(&u.CertFile)
		resolve(&u.KeyFile)
		resolve(&u.TokenFile)
		if u.Exec != nil && strings.ContainsRune(filepath.ToSlash(u.Exec.Command), '/') {
			resolve(&u.Exec.Command)
		}
		k.users[name] = u
	}
}

// merge adds the entries of other that k lacks.
func (k *kubeconfig) merge(other *kubeconfig) {
	if k.contexts == nil {
		k.contexts, k.clusters, k.users = map[string]kubeContext{}, map[string]kubeCluster{}, map[string]kubeUser{}
	}
	k.currentContext = cmp.Or(k.currentContext, other.currentContext)
	for name, v := range other.contexts {
		putFirst(k.contexts, name, v)
	}
	for name, v := range other.clusters {
		putFirst(k.clusters, name, v)
	}
	for name, v := range other.users {
		putFirst(k.users, name, v)
	}
}

func (k *kubeconfig) empty() bool {
	return k.currentContext == "" && len(k.contexts) == 0 && len(k.clusters) == 0 && len(k.users) == 0
}

// config selects a context and builds its Config.
func (k *kubeconfig) config(o LoadOptions) (*Config, error) {
	where := "kubeconfig"
	if len(k.sources) > 0 {
		where += " " + strings.Join(k.sources, string(filepath.ListSeparator))
	}
	c, err := k.pick(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return c, nil
}

func (k *kubeconfig) pick(o LoadOptions) (*Config, error) {
	var kc kubeContext
	name := cmp.Or(o.Context, k.currentContext)
	if name != "" {
		var err error
		if kc, err = lookup(k.contexts, "context", name); err != nil {
			return nil, err
		}
	}
	clusterName, userName := cmp.Or(o.Cluster, kc.Cluster), cmp.Or(o.User, kc.User)
	if clusterName == "" && o.Server == "" {
		if name == "" {
			return nil, fmt.Errorf("no current-context is set: choose one of %s (kubectl config use-context NAME)", names(k.contexts))
		}
		return nil, fmt.Errorf("context %q has no cluster: choose one of %s", name, names(k.clusters))
	}
	c := &Config{Namespace: cmp.Or(kc.Namespace, defaultNamespace)}
	var extension json.RawMessage
	if clusterName != "" {
		cluster, err := lookup(k.clusters, "cluster", clusterName)
		if err != nil {
			return nil, err
		}
		cluster.apply(c)
		extension = cluster.execExtension()
		if c.Host == "" && o.Server == "" {
			return nil, fmt.Errorf("cluster %q has no server: add its URL", clusterName)
		}
	}
	if userName != "" {
		user, err := lookup(k.users, "user", userName)
		if err != nil {
			return nil, err
		}
		if err := user.apply(c, extension); err != nil {
			return nil, fmt.Errorf("user %q: %w", userName, err)
		}
	}
	if o.Inline {
		if names := c.external(); names != "" {
			return nil, fmt.Errorf("context %q, cluster %q, user %q: it refers to %s on this machine, which LoadOptions.Inline forbids: put the contents in the fields ending in -data, or in token", name, clusterName, userName, names)
		}
	}
	if err := o.override(c); err != nil {
		return nil, fmt.Errorf("context %q, cluster %q, user %q: %w", name, clusterName, userName, err)
	}
	base, err := c.baseURL()
	if err != nil {
		return nil, err
	}
	if base.Scheme == "http" && o.Token == "" && c.clearCredentials() {
		c.logger().Warn("the server's address is http: the user's credentials are not sent, since anyone could read them", "user", userName, "server", base)
	}
	return c, nil
}

func lookup[V any](m map[string]V, what, name string) (V, error) {
	v, ok := m[name]
	if !ok {
		return v, fmt.Errorf("there is no %s %q: choose one of %s", what, name, names(m))
	}
	return v, nil
}

func names[V any](m map[string]V) string {
	if len(m) == 0 {
		return "(there are none)"
	}
	quoted := slices.Sorted(maps.Keys(m))
	for i, n := range quoted {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(quoted, ", ")
}

func (k *kubeCluster) apply(c *Config) {
	c.Host = k.Server
	c.ProxyURL = k.ProxyURL
	c.TLS.ServerName = k.TLSServerName
	c.TLS.Insecure = k.Insecure
	c.TLS.CAFile, c.TLS.CAData = k.CAFile, k.CAData
}

// execExtension returns the cluster's extension for exec plugins.
func (k *kubeCluster) execExtension() json.RawMessage {
	for _, e := range k.Extensions {
		if e.Name == "client.authentication.k8s.io/exec" {
			return e.Extension
		}
	}
	return nil
}

// external describes the first local file or program that the configuration refers to, or returns "" if
// there is none.
func (c *Config) external() string {
	switch {
	case c.Exec != nil:
		return "a program"
	case c.TLS.CAFile != "":
		return "a file with a certificate authority"
	case c.TLS.CertFile != "" || c.TLS.KeyFile != "":
		return "a file with a client certificate or its key"
	case c.BearerTokenFile != "":
		return "a file with a token"
	}
	return ""
}

func (u *kubeUser) apply(c *Config, extension json.RawMessage) error {
	if u.AuthProvider != nil {
		return fmt.Errorf("auth-provider %q is not supported: use an exec plugin instead, such as kubelogin for oidc", u.AuthProvider.Name)
	}
	c.TLS.CertFile, c.TLS.CertData = u.CertFile, u.CertData
	c.TLS.KeyFile, c.TLS.KeyData = u.KeyFile, u.KeyData
	c.BearerToken, c.BearerTokenFile = u.Token, u.TokenFile
	c.Username, c.Password = u.Username, u.Password
	c.Impersonate = Impersonation{UserName: u.As, UID: u.AsUID, Groups: u.AsGroups, Extra: u.AsUserExtra}
	if u.Exec != nil {
		c.Exec = &Exec{
			Command:            u.Exec.Command,
			Args:               u.Exec.Args,
			APIVersion:         u.Exec.APIVersion,
			InstallHint:        u.Exec.InstallHint,
			ProvideClusterInfo: u.Exec.ProvideClusterInfo,
			InteractiveMode:    u.Exec.InteractiveMode,
			ClusterConfig:      extension,
		}
		for _, e := range u.Exec.Env {
			c.Exec.Env = append(c.Exec.Env, e.Name+"="+e.Value)
		}
	}
	return nil
}

// maxFile limits the size of configured files, in bytes. Even kubeconfigs with hundreds of clusters and CA
// bundles are much smaller.
const maxFile = 16 << 20

// ReadFile is like os.ReadFile, for files named in a configuration, which could be any file. It fails if
// the file is larger than 16 MiB.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return data, nil
}
