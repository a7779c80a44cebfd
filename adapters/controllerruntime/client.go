package controllerruntime

import (
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientrest "k8s.io/client-go/rest"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/rest"
)

// newClient returns a Millrace client for the server of cfg. It has the transport
// of an HTTP client, which knows the credentials already.
func newClient(cfg *clientrest.Config, through *http.Client, types *runtime.Scheme) (*rest.Client, error) {
	host := cfg.Host
	if host == "" {
		host = "localhost"
	}
	base, _, err := clientrest.DefaultServerURL(host, "", schema.GroupVersion{Version: "v1"}, clientrest.IsConfigTransportTLS(*cfg))
	if err != nil {
		return nil, fmt.Errorf("read the server's address: %w", err)
	}
	transport := through.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	return clientgo.FromConfigAndScheme(&clientrest.Config{Host: base.String(), UserAgent: cfg.UserAgent, Transport: transport}, types)
}
