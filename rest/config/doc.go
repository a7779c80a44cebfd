// Package config describes how to connect to an API server, verify it and authenticate to it.
//
// # Usage
//
//	cfg, err := config.Load() // KUBECONFIG, ~/.kube/config, or the pod's service account
//	cfg, err = config.LoadWith(config.LoadOptions{Context: "staging"})
//	client, err := rest.NewClient(cfg, scheme.New())
//
// # Guarantees
//
//   - Token, certificate and authority files are reread when they change. Exec plugins
//     (v1 and v1beta1 of client.authentication.k8s.io) run when their credentials expire or
//     are rejected.
//   - When printed, a Config and its nested structs omit their secrets, including in JSON. Secrets never
//     appear in logs or errors. An exec plugin's standard error is shown only as far as it reads like prose.
//   - Credentials are sent only to the server that they are intended for.
//
// # Concurrency
//
// A Config is plain data, so do not modify it while it is in use. The client returned by HTTPClient is safe
// for concurrent use. The only goroutines that outlive a request are those of net/http's connections and one
// per running exec plugin. A plugin run is not tied to any particular caller. It is stopped half a minute
// after the last caller stopped waiting, or after five minutes, or fifteen if the plugin has a terminal.
//
// # Failure
//
// Errors include the file, the kubeconfig entry or the plugin, and suggest a remedy. If there is nothing to
// load, the error is ErrNoConfig.
//
// # Debugging
//
// Config.Logger reports files that cannot be reread and slow plugins.
package config
