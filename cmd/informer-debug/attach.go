package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/rest/config"
)

const attachHelp = `--attach says which process to look into:
  URL                where it serves /debug/millrace/, such as http://localhost:6060
  unix:PATH          the same at a socket
  pod/NAME[:PORT]    in the cluster of your kubeconfig, through the API server's proxy
A manager serves it at its PprofBindAddress. Where that is the loopback interface of a
pod, the proxy does not get there: "kubectl port-forward pod/NAME 6060", and attach to
http://localhost:6060.`

// defaultPort is where most programs serve /debug.
const defaultPort = "6060"

// attachFlags say into which process to look.
type attachFlags struct {
	connect   connectFlags
	to        string
	namespace string
}

func (f *attachFlags) add(cmd *cobra.Command) {
	f.connect.add(cmd)
	cmd.Flags().StringVar(&f.to, "attach", "", "process to look into: URL, unix:PATH or pod/NAME[:PORT]")
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "namespace of the object, and of the pod")
}

// attach returns a client of the process, and what messages call it.
func (f *attachFlags) attach(s surroundings) (*debug.Client, string, error) {
	kind, rest, _ := strings.Cut(f.to, ":")
	kind = strings.ToLower(kind)
	switch {
	case f.to == "":
		return nil, "", usage("--attach is missing: say which process to look into")
	case kind == "http", kind == "https":
		return f.attachURL(f.to)
	case kind == "unix":
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", rest)
		}
		return attached(&config.Config{Host: "http://localhost", Dial: dial, Timeout: f.connect.load.Timeout}, "", f.to)
	case strings.HasPrefix(f.to, "pod/"):
		return f.attachPod(s)
	}
	if strings.ContainsAny(f.to, "@") { // there may be a password before it
		return nil, "", usage("--attach: want a URL such as http://localhost:%s, unix:PATH or pod/NAME[:PORT]", defaultPort)
	}
	return nil, "", usage("--attach %q: want a URL, unix:PATH or pod/NAME[:PORT]", f.to)
}

// attachURL goes there with the flags about TLS and the token, and no kubeconfig's.
func (f *attachFlags) attachURL(address string) (*debug.Client, string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, "", usage("--attach: want a URL such as http://localhost:%s", defaultPort) // the text may have a password
	}
	o := &f.connect.load
	cfg := &config.Config{
		Host: address, BearerToken: o.Token, Timeout: o.Timeout, ProxyURL: o.ProxyURL,
		TLS: config.TLS{Insecure: o.InsecureSkipTLSVerify, ServerName: o.TLSServerName, CAFile: o.CertificateAuthority},
	}
	if o.Token != "" && u.Scheme == "http" {
		return nil, "", usage("--token would be sent in the clear: attach to an https URL")
	}
	return attached(cfg, "", u.Redacted())
}

// attachPod goes through the API server.
func (f *attachFlags) attachPod(s surroundings) (*debug.Client, string, error) {
	name, port, _ := strings.Cut(strings.TrimPrefix(f.to, "pod/"), ":")
	if port == "" {
		port = defaultPort
	}
	if name == "" || strings.ContainsAny(name+port, "/?#%") {
		return nil, "", usage("--attach %q: want pod/NAME[:PORT]", f.to)
	}
	f.connect.load.Namespace, f.connect.load.Logger = f.namespace, newConsole(s, false).logger()
	cfg, err := config.LoadWith(f.connect.load)
	if err != nil {
		return nil, "", &exitError{code: exitUnavailable, err: err}
	}
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:%s/proxy", url.PathEscape(cfg.Namespace), name, port)
	return attached(cfg, path, fmt.Sprintf("pod/%s:%s in namespace %s", name, port, cfg.Namespace))
}

func attached(cfg *config.Config, path, name string) (*debug.Client, string, error) {
	client, base, err := cfg.HTTPClient()
	if err != nil {
		return nil, "", &exitError{code: exitUnavailable, err: err}
	}
	return debug.Attach(base.String()+path, client), name, nil
}

// unanswered is an error of a process that is looked into.
func (f *attachFlags) unanswered(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	e := &exitError{code: exitUnavailable, err: fmt.Errorf("%s: %w", name, err)}
	pod := strings.HasPrefix(f.to, "pod/")
	refused, answered := errors.AsType[*debug.RefusedError](err)
	switch {
	case !answered && !pod:
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" { // and no advice about an API server
			e.err = fmt.Errorf("%s: %w", name, op)
		}
		e.hint = "does the process run there, and serve " + debug.Path + "? --attach says where to look"
	case !answered:
	case pod && strings.Contains(refused.Text, "error trying to reach service"):
		e.hint = fmt.Sprintf("if the process listens at the loopback interface of its pod: kubectl port-forward %s %s, and --attach http://localhost:%[2]s", strings.Split(f.to, ":")[0], defaultPort)
	case pod && refused.Code == http.StatusForbidden && strings.Contains(refused.Text, "proxy"):
		e.hint = `ask for the verb "get" on pods/proxy, or use kubectl port-forward`
	case refused.Code == http.StatusUnauthorized, refused.Code == http.StatusForbidden:
		e.hint = `the process asks the API server who may look: a ClusterRole with nonResourceURLs ["` + debug.Path + `*"] and verb get allows it; give --token`
	case refused.Code == http.StatusNotFound && strings.HasPrefix(refused.Text, "404 page"):
		e.hint = "nothing is served at " + debug.Path + " there: a manager does at PprofBindAddress, others with debug.New"
	}
	return e
}
