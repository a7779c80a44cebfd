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

// Help explains --attach in the help of a verb.
const Help = `--attach selects the process to inspect:
  URL                where it serves /debug/millrace/, such as http://localhost:6060
  unix:PATH          the same on a socket
  pod/NAME[:PORT]    in the cluster of your kubeconfig, through the API server's proxy;
                     pod/NAMESPACE/NAME[:PORT] if the pod is not in the namespace of -n
A manager serves it at its PprofBindAddress. If that is the loopback interface of a pod,
the proxy cannot reach it: use "kubectl port-forward pod/NAME 6060" and attach to
http://localhost:6060.`

// defaultPort is the port at which most programs serve /debug.
const defaultPort = "6060"

// podForm is the syntax that names a pod.
const podForm = "pod/[NAMESPACE/]NAME[:PORT]"

// Forms lists the values of --attach for the help of a flag.
const Forms = "URL, unix:PATH or " + podForm

// Flags select the process to inspect.
type Flags struct {
	Connect   cluster.Flags // how to reach the cluster or the process
	To        string        // --attach; empty means no process
	Namespace string        // of the object, and the default for pods

	pod     pod      // the attached pod; zero for none
	silence *silence // of the attached process; nil before Attach
}

// Add registers the flags with a verb, including those for reaching a server.
func (f *Flags) Add(cmd *cobra.Command) {
	f.Connect.Add(cmd)
	cmd.Flags().StringVar(&f.To, "attach", "", "process to inspect: "+Forms)
	cmd.Flags().StringVarP(&f.Namespace, "namespace", "n", "", "namespace of the object, and of the pod if --attach names none")
}

// Check returns an error for contradictory flags and invalid namespaces.
func (f *Flags) Check() error {
	if f.Namespace != "" && len(validation.IsDNS1123Label(f.Namespace)) > 0 {
		return exit.Usage("--namespace %q: want the name of one namespace", f.Namespace)
	}
	return f.Connect.Check()
}

// Attach returns a client for the process and the name that messages use for it.
func (f *Flags) Attach(s terminal.Streams) (*debug.Client, string, error) {
	kind, rest, _ := strings.Cut(f.To, ":")
	kind = strings.ToLower(kind)
	switch {
	case f.To == "":
		return nil, "", exit.Usage("--attach is missing: name the process to inspect")
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
		return nil, "", exit.Usage("--attach %q: say http://localhost:%s, or https:// if it serves with TLS", f.To, strings.TrimPrefix(f.To, ":"))
	}
	if host, port, err := net.SplitHostPort(f.To); err == nil && host != "" && !strings.ContainsAny(f.To, "@/") {
		if _, err := strconv.ParseUint(port, 10, 16); err == nil {
			return nil, "", exit.Usage("--attach %q: say http://%[1]s, or https:// if it serves with TLS", f.To)
		}
	}
	if strings.ContainsAny(f.To, "@") { // a password may precede it
		return nil, "", exit.Usage("--attach: want a URL such as http://localhost:%s, unix:PATH or %s", defaultPort, podForm)
	}
	return nil, "", exit.Usage("--attach %q: want a %s", f.To, Forms)
}

// attachURL connects to a URL with the TLS and token flags, ignoring the kubeconfig.
func (f *Flags) attachURL(s terminal.Streams, address string) (*debug.Client, string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, "", exit.Usage("--attach: want a URL such as http://localhost:%s", defaultPort) // the text may contain a password
	}
	o := &f.Connect.Load
	cfg := &config.Config{
		Host: address, BearerToken: o.Token, Timeout: o.Timeout, ProxyURL: o.ProxyURL,
		TLS: config.TLS{Insecure: o.InsecureSkipTLSVerify, ServerName: o.TLSServerName, CAFile: o.CertificateAuthority},
	}
	if o.Token != "" && u.Scheme == "http" {
		return nil, "", exit.Usage("--token would be sent in the clear: attach to an https URL")
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

// Unanswered returns the error for a process that did not answer. It returns nil if ctx timed out, because only the
// verb knows whether that is a failure.
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
		e.Err = stuck // it names the process
		if stuck.What == stepHead || stuck.What == stepBody {
			e.Hint = "it accepts requests but does not answer: it may be stopped, or out of CPU or memory; --request-timeout sets how long to wait"
		}
	case answered && f.InPod():
		e.Hint = f.whyNoPod(refused)
	case answered:
		e.Hint = whyRefused(refused)
	case f.InPod() && whyUnreached(err) == doesItRun:
		e.Hint = "the API server did not answer, or not to the end: --context or --server choose another one"
	default:
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" { // name already contains the address
			e.Err = fmt.Errorf("%s: %w", name, op)
		}
		e.Hint = whyUnreached(err)
	}
	return e
}

// whyUnreached returns advice about a process that could not be reached.
func whyUnreached(err error) string {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case untrusted:
		return "--certificate-authority names a file with the authority of its certificate, and --insecure-skip-tls-verify accepts any"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"): // the error has no type
		return "it serves without TLS: attach to a URL with http://"
	}
	return doesItRun
}

// doesItRun is the advice when nothing else is known.
const doesItRun = "does the process run there, and serve " + debug.Path + "? A manager does at its PprofBindAddress"

// whyRefused returns advice about a refused request. The process may have refused it, or another server
// at its address.
func whyRefused(r *debug.RefusedError) string {
	switch {
	case r.Code == http.StatusUnauthorized:
		return "the process asks its API server whose token this is: --token gives one that this server accepts"
	case r.Code == http.StatusForbidden:
		return `the process asks its API server who may look: a ClusterRole with nonResourceURLs ["` + debug.Path + `*"] and verb get allows it`
	case r.Code == http.StatusNotFound && strings.HasPrefix(r.Text, "Unknown profile"): // as net/http/pprof answers
		return "attach to the address alone, without /debug/pprof"
	case r.Code == http.StatusNotFound && strings.HasPrefix(r.Text, "404 page"):
		return "nothing is served at " + debug.Path + " there: a manager does at PprofBindAddress, others with debug.New"
	case r.Code == http.StatusNotFound && strings.Contains(r.Text, "could not find the requested resource"):
		return "an API server answers there, and no process that has informers: --attach wants the address of a process, and -s that of an API server"
	case r.Code == http.StatusBadRequest && strings.Contains(r.Text, "HTTP request to an HTTPS server"):
		return "it serves with TLS: attach to a URL with https://"
	}
	return ""
}

// whyNoPod is like whyRefused for a pod, where the API server may have refused the request. The API
// server does not forward credentials to the pod.
func (f *Flags) whyNoPod(r *debug.RefusedError) string {
	switch {
	case strings.Contains(r.Text, "error trying to reach service"):
		return "if the process listens at the loopback interface of its pod: " + f.pod.forward()
	case strings.Contains(r.Text, "address not allowed"):
		return "the pod has no address that the API server connects to: see whether it runs, or go by " + f.pod.forward()
	case r.Code == http.StatusForbidden && strings.Contains(r.Text, "pods/proxy"):
		return `ask for the verb "get" on pods/proxy, or go by ` + f.pod.forward()
	case r.Code == http.StatusNotFound && strings.HasPrefix(r.Text, "pods ") && strings.HasSuffix(r.Text, "not found"):
		return fmt.Sprintf("is the pod in namespace %s of this cluster? --attach %s and --context say where it is", f.pod.namespace, podForm)
	case r.Code == http.StatusUnauthorized && strings.HasPrefix(r.Text, "Unauthorized"):
		return "the API server does not accept the credentials: check the user of the context, --user and --token"
	case r.Code == http.StatusUnauthorized, r.Code == http.StatusForbidden:
		return "the process wants to know who asks, and the API server does not pass that on: " + f.pod.forward()
	}
	return whyRefused(r)
}

// Silent returns the error for a process that did not answer in time.
func (f *Flags) Silent(called string) error {
	if missing := f.silence.unheard(); missing != nil {
		return missing
	}
	return fmt.Errorf("%s has not answered", called)
}

// Unheard returns a description of the wait if the last request is still unanswered after a while, and nil otherwise.
func (f *Flags) Unheard() error { return f.silence.unheard() }

// Hush stops the messages about late answers.
func (f *Flags) Hush() { f.silence.hush() }
