// Package config says where an API server is, how to recognise it, and how to authenticate
// to it.
//
// # Usage
//
//	cfg, err := config.Load() // KUBECONFIG, ~/.kube/config, or the pod's service account
//	cfg, err = config.LoadWith(config.LoadOptions{Context: "staging"})
//	client, err := rest.NewClient(cfg, scheme.New())
//
// # Guarantees
//
//   - Tokens, certificates and authorities that stand in files are read again when
//     they change. Exec plugins (v1 and v1beta1 of client.authentication.k8s.io) run
//     when their credentials expire or are refused.
//   - A Config and its parts print without their secrets, as JSON too. No secret is
//     written to the log or into an error. What an exec plugin writes to standard
//     error is shown there only as far as it reads as prose.
//   - Credentials go to the server that they are for, and to no other.
//
// # Concurrency
//
// A Config is a value: do not change it while it is being read. What HTTPClient
// returns may be used from many goroutines. It starts none that outlives a request,
// but for those of net/http's connections and one for an exec plugin at work: a run
// belongs to no caller and ends by itself, when nobody has waited for it for half a
// minute, or after five minutes, fifteen with a terminal.
//
// # Failure
//
// Errors name the file, the entry of the kubeconfig or the plugin, and what to do.
// ErrNoConfig says that there was nothing to load.
//
// # Debugging
//
// Config.Logger hears of files that cannot be read again and of slow plugins.
package config
