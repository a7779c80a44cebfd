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
//   - Token, certificate and CA files are reread when they change. Exec plugins (v1 and v1beta1 of
//     client.authentication.k8s.io) are run when their credentials expire or are rejected.
//   - When printed, a Config and its nested structs omit their secrets, including in JSON. Secrets never
//     appear in logs or errors. Of an exec plugin's standard error, only the parts that read like prose are
//     shown.
//   - Credentials are sent only to the server for which they are intended.
//
// # Concurrency
//
// A Config is plain data and must not be modified while it is in use. The client returned by HTTPClient is
// safe for concurrent use. The only goroutines that outlive a request are net/http's connection
// goroutines, one per running exec plugin, and one while a credential file is being read. A plugin run does not belong to any particular caller. It is stopped
// half a minute after the last caller stopped waiting for it, and in any case after five minutes, or
// fifteen if the plugin has a terminal.
//
// # Failure
//
// Errors include the file, the kubeconfig entry or the plugin, and suggest a fix. If there is nothing to
// load, the error is ErrNoConfig.
//
// # Debugging
//
// Config.Logger logs slow plugins and files that cannot be reread.
package config
