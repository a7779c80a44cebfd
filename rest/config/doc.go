// Package config describes how to reach an API server, verify it and authenticate to it.
//
// # Usage
//
//	cfg, err := config.Load() // KUBECONFIG, ~/.kube/config, or the pod's service account
//	cfg, err = config.LoadWith(config.LoadOptions{Context: "staging"})
//	client, err := rest.NewClient(cfg, scheme.New())
//
// # Guarantees
//
//   - Token, certificate and authority files are read again when they change. Exec plugins
//     (v1 and v1beta1 of client.authentication.k8s.io) run when their credentials expire or
//     are refused.
//   - A Config and its parts print without their secrets, also as JSON. Secrets never appear in logs or
//     errors. Of an exec plugin's standard error, only text that reads like prose is shown.
//   - Credentials are sent only to the server that they are meant for.
//
// # Concurrency
//
// A Config is a plain value, so do not change it while it is in use. The client returned by HTTPClient
// is safe for concurrent use. The only goroutines that outlive a request are those of net/http's
// connections and one per running exec plugin. A run of a plugin does not belong to any caller. It is
// ended half a minute after the last caller stopped waiting, or after five minutes, or fifteen if the
// plugin has a terminal.
//
// # Failure
//
// Errors name the file, the kubeconfig entry or the plugin, and say what to do. If there is
// nothing to load, the error is ErrNoConfig.
//
// # Debugging
//
// Config.Logger reports files that cannot be read again and slow plugins.
package config
