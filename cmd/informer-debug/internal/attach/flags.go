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

// Help tells users of --attach, in the help of a verb.
const Help = `--attach says which process to look into:
  URL                where it serves /debug/millrace/, such as http://localhost:6060
  unix:PATH          the same at a socket
  pod/NAME[:PORT]    in the cluster of your kubeconfig, through the API server's proxy;
                     pod/NAMESPACE/NAME[:PORT] where the pod is not in the namespace of -n
A manager serves it at its PprofBindAddress. Where that is the loopback interface of a
pod, the proxy does not get there: "kubectl port-forward pod/NAME 6060", and attach to
http://localhost:6060.`

// defaultPort is where most programs serve /debug.
const defaultPort = "6060"

// podForm is how a pod is named.
const podForm = "pod/[NAMESPACE/]NAME[:PORT]"

// Forms says what --attach may be, in the help of a flag.
const Forms = "URL, unix:PATH or " + podForm

// Flags say into which process to look.
type Flags struct {
	Connect   cluster.Flags // to a cluster, or how to speak to the process
	To        string        // --attach; empty for no process
	Namespace string        // of the object, and of a pod that names none

	pod     pod      // to which it was attached; zero for none
	silence *silence // of the process; nil before there is one
}

// Add adds them to a verb, with those about how to reach a server.
func (f *Flags) Add(cmd *cobra.Command) {
	f.Connect.Add(cmd)
	cmd.Flags().StringVar(&f.To, "attach", "", "process to look into: "+Forms)
	cmd.Flags().StringVarP(&f.Namespace, "namespace", "n", "", "namespace of the object, and of a pod that names none")
}

// Check finds contradictions, and a namespace that cannot be one.
func (f *Flags) Check() error {
	if f.Namespace != "" && len(validation.IsDNS1123Label(f.Namespace)) > 0 {
		return exit.Usage("--namespace %q: want the name of one namespace", f.Namespace)
	}
	return f.Connect.Check()
}

// Attach returns a client of the process, and what messages call it.
func (f *Flags) Attach(s terminal.Streams) (*debug.Client, string, error) {
	kind, rest, _ := strings.Cut(f.To, ":")
	kind = strings.ToLower(kind)
	switch {
	case f.To == "":
		return nil, "", exit.Usage("--attach is missing: say which process to look into")
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
	if host, port, err := net.SplitHostPort(f.To); err == nil && host != "" && !strings.ContainsAny(f.To, "@/") {
		if _, err := strconv.ParseUint(port, 10, 16); err == nil {
			return nil, "", exit.Usage("--attach %q: say http://%[1]s, or https:// if it serves with TLS", f.To)
		}
	}
	if strings.ContainsAny(f.To, "@") { // there may be a password before it
		return nil, "", exit.Usage("--attach: want a URL such as http://localhost:%s, unix:PATH or %s", defaultPort, podForm)
	}
	return nil, "", exit.Usage("--attach %q: want a %s", f.To, Forms)
}

// attachURL goes there with the flags about TLS and the token, and no kubeconfig's.
func (f *Flags) attachURL(s terminal.Streams, address string) (*debug.Client, string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, "", exit.Usage("--attach: want a URL such as http://localhost:%s", defaultPort) // the text may have a password
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

// attachPod goes through the API server.
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

// Unanswered is an error of a process that is looked into. It is nil where the time of ctx is
// over: only the verb knows whether that is a failure.
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
	case f.To == "": // informers of one's own
	case mute:
		e.Err = stuck // it names the process
		if stuck.What == stepHead || stuck.What == stepBody {
			e.Hint = "it takes the question and says nothing: it may be stopped, or have no CPU or memory left; --request-timeout says how long to wait"
		}
	case answered && f.InPod():
		e.Hint = f.whyNoPod(refused)
	case answered:
		e.Hint = whyRefused(refused)
	case f.InPod() && whyUnreached(err) == doesItRun:
		e.Hint = "the API server did not answer, or not to the end: --context or --server choose another one"
	default:
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" { // name says which address it was
			e.Err = fmt.Errorf("%s: %w", name, op)
		}
		e.Hint = whyUnreached(err)
	}
	return e
}

// whyUnreached is what to do about a process that could not be asked.
func whyUnreached(err error) string {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case untrusted:
		return "--certificate-authority names a file with the authority of its certificate, and --insecure-skip-tls-verify accepts any"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"): // which has no type
		return "it serves without TLS: attach to a URL with http://"
	}
	return doesItRun
}

// doesItRun is what to do where nothing else is known.
const doesItRun = "does the process run there, and serve " + debug.Path + "? --attach says where to look"

// whyRefused is what to do about an answer that is none, of a process or of what is in its place.
func whyRefused(r *debug.RefusedError) string {
	switch {
	case r.Code == http.StatusUnauthorized, r.Code == http.StatusForbidden:
		return `the process asks the API server who may look: a ClusterRole with nonResourceURLs ["` + debug.Path + `*"] and verb get allows it; give --token`
	case r.Code == http.StatusNotFound && strings.HasPrefix(r.Text, "404 page"):
		return "nothing is served at " + debug.Path + " there: a manager does at PprofBindAddress, others with debug.New"
	case r.Code == http.StatusNotFound && strings.Contains(r.Text, "could not find the requested resource"):
		return "an API server answers there, and no process that has informers: --attach wants the address of a process, and -s that of an API server"
	case r.Code == http.StatusBadRequest && strings.Contains(r.Text, "HTTP request to an HTTPS server"):
		return "it serves with TLS: attach to a URL with https://"
	}
	return ""
}

// whyNoPod is whyRefused for a pod, where the API server may have answered. That passes no
// credentials on.
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

// Silent is the error of a process that had no time left to answer.
func (f *Flags) Silent(called string) error {
	if missing := f.silence.unheard(); missing != nil {
		return missing
	}
	return fmt.Errorf("%s has not answered", called)
}

// Unheard is what the last question waited for that had no answer; nil if it had one, or soon.
func (f *Flags) Unheard() error { return f.silence.unheard() }

// Hush lets nothing be told any more of answers that are late.
func (f *Flags) Hush() { f.silence.hush() }
