package cluster

import (
	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/rest/config"
)

// Flags are kubectl's flags for reaching the server.
type Flags struct {
	Load config.LoadOptions // the values of the flags
}

// Add registers the flags and their completion with a verb.
func (f *Flags) Add(cmd *cobra.Command) {
	o, flags := &f.Load, cmd.Flags()
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "kubeconfig file (default $KUBECONFIG, then ~/.kube/config, then the pod's service account)")
	flags.StringVar(&o.Context, "context", "", "context of the kubeconfig")
	flags.StringVar(&o.Cluster, "cluster", "", "cluster of the kubeconfig")
	flags.StringVar(&o.User, "user", "", "user of the kubeconfig")
	flags.StringVarP(&o.Server, "server", "s", "", "address of the API server")
	flags.StringVar(&o.TLSServerName, "tls-server-name", "", "name that the server's certificate is checked for")
	flags.StringVar(&o.CertificateAuthority, "certificate-authority", "", "file with the authority of the server's certificate")
	flags.BoolVar(&o.InsecureSkipTLSVerify, "insecure-skip-tls-verify", false, "accept any server certificate")
	flags.StringVar(&o.ProxyURL, "proxy-url", "", "proxy for all requests")
	flags.StringVar(&o.Token, "token", "", "bearer token, instead of the user's credentials")
	flags.StringVar(&o.Impersonate.UserName, "as", "", "user to act as")
	flags.StringVar(&o.Impersonate.UID, "as-uid", "", "UID to act as")
	flags.StringArrayVar(&o.Impersonate.Groups, "as-group", nil, "group to act as; may be repeated")
	flags.DurationVar(&o.Timeout, "request-timeout", 0, "how long to wait for the head of each answer; 0 is 90s")
	f.complete(cmd)
}

// Check returns an error for contradictory flags.
func (f *Flags) Check() error {
	o := &f.Load
	switch {
	case o.InsecureSkipTLSVerify && o.CertificateAuthority != "":
		return exit.Usage("--insecure-skip-tls-verify and --certificate-authority contradict each other: leave one out")
	case o.Impersonate.UserName == "" && (o.Impersonate.UID != "" || len(o.Impersonate.Groups) > 0):
		return exit.Usage("--as-uid and --as-group need --as: name the user to act as")
	case o.Timeout < 0:
		return exit.Usage("--request-timeout is %s: want 0 or more", o.Timeout)
	}
	return nil
}
