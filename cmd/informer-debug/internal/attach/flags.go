package attach

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/cluster"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/rest/config"
	"github.com/millrace-dev/millrace/source"
)

// Help describes --attach in a command's help.
const Help = `--attach selects the process to inspect:
  URL                where it serves /debug/millrace/, such as http://localhost:6060
  unix:PATH          the same over a Unix socket
  pod/NAME[:PORT]    in the cluster of your kubeconfig, through the API server's proxy;
                     pod/NAMESPACE/NAME[:PORT] if the pod is not in the -n namespace
A manager serves it at its PprofBindAddress. If that is the pod's loopback interface,
the proxy cannot reach it: use "kubectl port-forward pod/NAME 6060" and attach to
http://localhost:6060.`

// defaultPort is the port on which most programs serve /debug.
const defaultPort = "6060"

// podForm is the syntax for specifying a pod.
const podForm = "pod/[NAMESPACE/]NAME[:PORT]"

// Forms lists the possible values of --attach, for flag descriptions.
const Forms = "URL, unix:PATH or " + podForm

// Flags holds the flags that select the process to inspect.
type Flags struct {
	Connect   cluster.Flags // connection to the cluster or the process
	To        string        // value of --attach; empty for none
	Namespace string        // namespace of the object, and the default for attached pods

	pod     pod      // the attached pod; zero for none
	silence *silence // transport to the attached process; nil before Attach
}

// Add registers the flags with a command, including those for connecting to a server.
func (f *Flags) Add(cmd *cobra.Command) {
	f.Connect.Add(cmd)
	cmd.Flags().StringVar(&f.To, "attach", "", "process to inspect: "+Forms)
	cmd.Flags().StringVarP(&f.Namespace, "namespace", "n", "", "namespace of the object, and of the pod if not part of --attach")
}

// Check validates the flags.
func (f *Flags) Check() error {
	if f.Namespace != "" && len(validation.IsDNS1123Label(f.Namespace)) > 0 {
		return exit.Usage("--namespace %q: want the name of one namespace", f.Namespace)
	}
	return f.Connect.Check()
}

// Attach returns a client for the process, and a name for use in messages.
func (f *Flags) Attach(s terminal.Streams) (*debug.Client, string, error) {
	kind, rest, _ := strings.Cut(f.To, ":")
	kind = strings.ToLower(kind)
	switch {
	case f.To == "":
		return nil, "", exit.Usage("--attach is missing: specify the process to inspect")
	case kind == "http", kind == "https":
		return f.attachURL(s, f.To)
	case kind == "unix":
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", rest)
		}
		return f.attached(s, &config.Config{Host: "http://localhost", Dial: dial, Timeout: f.Connect.Load.Timeout}, "", f.To)
	case f.InPod():
		return f.attachPod(s)
	}
	if _, err := strconv.ParseUint(strings.TrimPrefix(f.To, ":"), 10, 16); err == nil {
		return nil, "", exit.Usage("--attach %q: use http://localhost:%s, or https:// if it serves TLS", f.To, strings.TrimPrefix(f.To, ":"))
	}
	if host, port, err := net.SplitHostPort(f.To); err == nil && host != "" && !strings.ContainsAny(f.To, "@/") {
		if _, err := strconv.ParseUint(port, 10, 16); err == nil {
			return nil, "", exit.Usage("--attach %q: use http://%[1]s, or https:// if it serves TLS", f.To)
		}
	}
	if strings.ContainsAny(f.To, "@") { // a password may precede it
		return nil, "", exit.Usage("--attach: want a URL such as http://localhost:%s, unix:PATH or %s", defaultPort, podForm)
	}
	return nil, "", exit.Usage("--attach %q: want a %s", f.To, Forms)
}

// attachURL connects to a URL using only the TLS and token flags, ignoring the kubeconfig.
func (f *Flags) attachURL(s terminal.Streams, address string) (*debug.Client, string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, "", exit.Usage("--attach: want a URL such as http://localhost:%s", defaultPort) // the text may include a password
	}
	o := &f.Connect.Load
	cfg := &config.Config{
		Host: address, BearerToken: o.Token, Timeout: o.Timeout, ProxyURL: o.ProxyURL,
		TLS: config.TLS{Insecure: o.InsecureSkipTLSVerify, ServerName: o.TLSServerName, CAFile: o.CertificateAuthority},
	}
	if o.Token != "" && u.Scheme == "http" {
		return nil, "", exit.Usage("--token would be sent in clear text: attach to an https URL")
	}
	return f.attached(s, cfg, "", u.Redacted())
}

// attachPod connects through the API server.
func (f *Flags) attachPod(s terminal.Streams) (*debug.Client, string, error) {
	p, err := podOf(f.To)
	if err != nil {
		return nil, "", err
	}
	f.Connect.Load.Namespace, f.Connect.Load.Logger = f.Namespace, terminal.NewConsole(s, false).Logger()
	cfg, err := config.LoadWith(f.Connect.Load)
	if err != nil {
		return nil, "", &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	p.namespace = cmp.Or(p.namespace, cfg.Namespace)
	f.pod = p
	return f.attached(s, cfg, p.path(), p.String())
}

func (f *Flags) attached(s terminal.Streams, cfg *config.Config, path, name string) (*debug.Client, string, error) {
	client, base, err := cfg.HTTPClient()
	if err != nil {
		return nil, "", &exit.Error{Code: exit.CodeUnavailable, Err: err}
	}
	f.silence = breakSilence(client, name, cfg, path == "", terminal.NewConsole(s, false))
	process := debug.Attach(base.String()+path, client)
	process.ConcealWith(cfg.Conceal)
	return process, name, nil
}

// Unanswered returns the error to report if a process did not respond. It returns nil if ctx timed out,
// because only the command knows whether that is a failure.
func (f *Flags) Unanswered(ctx context.Context, name string, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return &exit.Error{Code: exit.CodeRuntime, Err: exit.ErrInterrupted}
	case ctx.Err() != nil:
		return nil
	}
	e := &exit.Error{Code: exit.CodeUnavailable, Err: fmt.Errorf("%s: %w", name, err)}
	refused, answered := errors.AsType[*debug.RefusedError](err)
	stuck, mute := errors.AsType[*source.StuckError](err)
	switch {
	case f.To == "": // our own informers
	case mute:
		e.Err = stuck // the message already contains the process's name
		if stuck.What == stepHead || stuck.What == stepBody {
			e.Hint = "it accepts requests but does not respond: it may be stopped, or out of CPU or memory; --request-timeout sets how long to wait"
		}
	case answered && f.InPod():
		e.Hint = f.whyNoPod(refused)
	case answered:
		e.Hint = whyRefused(refused)
	case f.InPod() && whyUnreached(err) == doesItRun:
		e.Hint = "the API server did not respond, or not completely: use --context or --server to select another one"
	default:
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" { // name already contains the address
			e.Err = fmt.Errorf("%s: %w", name, op)
		}
		e.Hint = whyUnreached(err)
	}
	return e
}

// whyUnreached returns advice for a process that could not be reached.
func whyUnreached(err error) string {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case untrusted:
		return "use --certificate-authority to specify the CA of its certificate, or --insecure-skip-tls-verify to accept any certificate"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"): // this error has no distinct type
		return "it does not serve TLS: attach to an http:// URL"
	}
	return doesItRun
}

// doesItRun is the advice of last resort.
const doesItRun = "is the process running there, and does it serve " + debug.Path + "? A manager does so at its PprofBindAddress"

// whyRefused returns advice for a request that was refused by the process, or by some other server at its
// address.
func whyRefused(r *debug.RefusedError) string {
	switch {
	case r.Code == http.StatusUnauthorized:
		return "the process checks tokens with its API server: use --token to provide one that this server accepts"
	case r.Code == http.StatusForbidden:
		return `the process checks access with its API server: grant it with a ClusterRole for nonResourceURLs ["` + debug.Path + `*"] and verb get`
	case r.Code == http.StatusNotFound && strings.HasPrefix(r.Text, "Unknown profile"): // the response of net/http/pprof
		return "attach to the address only, without /debug/pprof"
	case r.Code == http.StatusNotFound && strings.HasPrefix(r.Text, "404 page"):
		return "nothing is served at " + debug.Path + " there: a manager serves it at PprofBindAddress, other programs with debug.New"
	case r.Code == http.StatusNotFound && strings.Contains(r.Text, "could not find the requested resource"):
		return "this is an API server, not a process with informers: use --attach for the address of a process, and -s for that of an API server"
	case r.Code == http.StatusBadRequest && strings.Contains(r.Text, "HTTP request to an HTTPS server"):
		return "it serves TLS: attach to an https:// URL"
	}
	return ""
}

// whyNoPod is like whyRefused, for a pod: the request may have been refused by the API server, which
// also does not forward credentials to the pod.
func (f *Flags) whyNoPod(r *debug.RefusedError) string {
	switch {
	case strings.Contains(r.Text, "error trying to reach service"):
		return "if the process listens only on its pod's loopback interface, use " + f.pod.forward()
	case strings.Contains(r.Text, "address not allowed"):
		return "the pod has no address that the API server can connect to: check whether it is running, or use " + f.pod.forward()
	case r.Code == http.StatusForbidden && strings.Contains(r.Text, "pods/proxy"):
		return `request the verb "get" on pods/proxy, or use ` + f.pod.forward()
	case r.Code == http.StatusNotFound && strings.HasPrefix(r.Text, "pods ") && strings.HasSuffix(r.Text, "not found"):
		return fmt.Sprintf("is the pod in namespace %s of this cluster? Use --attach %s and --context to specify where it is", f.pod.namespace, podForm)
	case r.Code == http.StatusUnauthorized && strings.HasPrefix(r.Text, "Unauthorized"):
		return "the API server does not accept the credentials: check the user of the context, --user and --token"
	case r.Code == http.StatusUnauthorized, r.Code == http.StatusForbidden:
		return "the process requires authentication, which the API server does not forward: use " + f.pod.forward()
	}
	return whyRefused(r)
}

// Silent returns the error for a process that did not respond in time.
func (f *Flags) Silent(called string) error {
	if missing := f.silence.unheard(); missing != nil {
		return missing
	}
	return fmt.Errorf("%s has not responded", called)
}

// Unheard returns an error describing the wait if the last request has gone unanswered for a while, or nil
// otherwise.
func (f *Flags) Unheard() error { return f.silence.unheard() }
