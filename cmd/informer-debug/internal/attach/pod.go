package attach

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
)

// pod is a process in a cluster, reached through the API server.
type pod struct {
	namespace string // empty to use the namespace from the flags or the kubeconfig
	name      string
	port      string // numeric, because the API server's proxy does not resolve port names
}

// InPod reports whether the value of --attach is a pod rather than an address.
func (f *Flags) InPod() bool {
	kind, _, found := strings.Cut(f.To, "/")
	return found && (kind == "pod" || kind == "pods" || kind == "po")
}

// podOf parses pod/[NAMESPACE/]NAME[:PORT].
func podOf(to string) (p pod, err error) {
	_, rest, _ := strings.Cut(to, "/")
	rest, p.port, _ = strings.Cut(rest, ":")
	p.port = cmp.Or(p.port, defaultPort)
	names := strings.Split(rest, "/")
	if len(names) == 2 {
		p.namespace, names = names[0], names[1:]
	}
	p.name = names[0]
	lacking := len(names) != 1 || p.name == "" || strings.HasPrefix(rest, "/") || strings.ContainsAny(rest+p.port, "?#%") || strings.Contains(p.port, "/")
	if lacking || p.namespace != "" && len(validation.IsDNS1123Label(p.namespace)) > 0 {
		return pod{}, exit.Usage("--attach %q: want %s", to, podForm)
	}
	if number, err := strconv.ParseUint(p.port, 10, 16); err != nil || number == 0 {
		return pod{}, exit.Usage("--attach %q: port %q is not a number from 1 to 65535", to, p.port)
	}
	return p, nil
}

// path returns the path to the process through the API server's proxy.
func (p pod) path() string {
	return fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:%s/proxy", url.PathEscape(p.namespace), p.name, p.port)
}

// String returns the name used in messages.
func (p pod) String() string {
	return fmt.Sprintf("pod/%s:%s in namespace %s", p.name, p.port, p.namespace)
}

// forward returns the command for reaching the pod without the API server's proxy.
func (p pod) forward() string {
	in := ""
	if p.namespace != "" {
		in = " -n " + p.namespace
	}
	return fmt.Sprintf("kubectl port-forward pod/%s%s %s and --attach http://localhost:%[3]s", p.name, in, p.port)
}
