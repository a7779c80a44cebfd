package controllerruntime

import (
	"errors"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientrest "k8s.io/client-go/rest"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/rest"
)

// addressOf returns the URL of the server in cfg.
func addressOf(cfg *clientrest.Config) (string, error) {
	host := cfg.Host
	if host == "" {
		host = "localhost"
	}
	base, _, err := clientrest.DefaultServerURL(host, "", schema.GroupVersion{Version: "v1"}, clientrest.IsConfigTransportTLS(*cfg))
	if err != nil {
		// Don't wrap err: its message contains the address.
		return "", errors.New("the server's address (rest.Config.Host) is not a URL (not shown, it may contain a password): use the form https://host:port or https://host:port/prefix")
	}
	return base.String(), nil
}

// newClient returns a Millrace client for the server at address. It uses an HTTP client's transport, which
// already adds the credentials.
func newClient(address, userAgent string, through *http.Client, types *runtime.Scheme) (*rest.Client, error) {
	transport := through.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	return clientgo.FromConfigAndScheme(&clientrest.Config{Host: address, UserAgent: userAgent, Transport: transport}, types)
}
