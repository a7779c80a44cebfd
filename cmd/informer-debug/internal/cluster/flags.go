package cluster

import (
	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/rest/config"
)

// Flags holds kubectl's flags for connecting to a server.
type Flags struct {
	Load config.LoadOptions // the flag values
}

// Add registers the flags with a command, including completion.
func (f *Flags) Add(cmd *cobra.Command) {
	o, flags := &f.Load, cmd.Flags()
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, then ~/.kube/config, then the pod's service account)")
	flags.StringVar(&o.Context, "context", "", "context of the kubeconfig")
	flags.StringVar(&o.Cluster, "cluster", "", "cluster of the kubeconfig")
	flags.StringVar(&o.User, "user", "", "user of the kubeconfig")
	flags.StringVarP(&o.Server, "server", "s", "", "address of the API server")
	flags.StringVar(&o.TLSServerName, "tls-server-name", "", "host name to check the server's certificate against")
	flags.StringVar(&o.CertificateAuthority, "certificate-authority", "", "file with the certificate authority for the server's certificate")
	flags.BoolVar(&o.InsecureSkipTLSVerify, "insecure-skip-tls-verify", false, "accept any server certificate")
	flags.StringVar(&o.ProxyURL, "proxy-url", "", "proxy for all requests")
	flags.StringVar(&o.Token, "token", "", "bearer token, instead of the user's credentials")
	flags.StringVar(&o.Impersonate.UserName, "as", "", "user to impersonate")
	flags.StringVar(&o.Impersonate.UID, "as-uid", "", "UID to impersonate")
	flags.StringArrayVar(&o.Impersonate.Groups, "as-group", nil, "group to impersonate; may be repeated")
	flags.DurationVar(&o.Timeout, "request-timeout", 0, "how long to wait for the header of each response; 0 means 90s")
	f.complete(cmd)
}

// Check validates the flags.
func (f *Flags) Check() error {
	o := &f.Load
	switch {
	case o.InsecureSkipTLSVerify && o.CertificateAuthority != "":
		return exit.Usage("--insecure-skip-tls-verify and --certificate-authority cannot be used together")
	case o.Impersonate.UserName == "" && (o.Impersonate.UID != "" || len(o.Impersonate.Groups) > 0):
		return exit.Usage("--as-uid and --as-group require --as: also specify the user to impersonate")
	case o.Timeout < 0:
		return exit.Usage("--request-timeout must not be negative, got %s", o.Timeout)
	}
	return nil
}
