// Package envtest runs a real kube-apiserver with etcd for the duration of a test.
//
// # Usage
//
//	func TestPods(t *testing.T) {
//		srv := envtest.Start(t, envtest.Options{})
//		// srv.Kubeconfig, or srv.URL with srv.CA and srv.AdminToken
//	}
//
// [Start] skips the test under -short. Tests that share a server call [Launch] in TestMain. The server
// works with any client: configure the client with URL, CA and AdminToken, with a certificate, or with
// Kubeconfig. README.md shows how to do this for client-go and controller-runtime, and maps the API of
// controller-runtime's package of the same name to this one.
//
// The server provides the complete API: all built-in groups, custom resources, RBAC, admission, priority
// and fairness. There are no controllers, no scheduler and no kubelet. Therefore Pods remain Pending, a
// bound Pod is removed only if deleted with gracePeriodSeconds=0, a deleted Namespace remains Terminating,
// owner references have no effect, and the roles admin, edit and view are empty, since a controller
// aggregates their rules.
//
// # The first run
//
// The go command builds the program from source. Downloading modules and compiling takes 2 to 10 minutes.
// go test times out after ten minutes, so use a longer -timeout for the first run. The sources are embedded
// in this package; no binary is downloaded. The program is 110 MB in size. It is cached under
// os.UserCacheDir()/millrace, named after a hash of the sources and the Go environment. A file lock
// serializes concurrent builds, so any number of test binaries may call Start at once. Call [Build]
// beforehand to build outside a test's time limit. Once the program is built, starting it takes 2 seconds
// and 300 MB of memory.
//
// # Versions
//
// The default is Kubernetes 1.36. The environment variable MILLRACE_KUBERNETES selects
// another minor version, 1.35 or 1.37:
//
//	MILLRACE_KUBERNETES=1.37 go test -count=1 ./...
//
// The go command does not notice that the test depends on the variable, so a cached result may be from a
// different version; use -count=1 to avoid that. A directory (Options.Dir) can only be reused with the same
// version or the next one.
//
// # Guarantees
//
// The API server listens on 127.0.0.1, and etcd on a Unix socket in the server's directory. URL, CA, tokens
// and data survive a restart. The server exits when Stop is called. It also exits when the process that
// started it dies for any reason, since that closes its stdin. On Linux, a server that is suspended at that
// moment is woken up so that it can exit; on other systems it remains. Start removes the temporary
// directories of servers whose process died at least an hour ago.
//
// A directory can be used by only one server at a time. Kill and Stop do not wait for other calls; they
// abort calls that are waiting for the server.
//
// # A real 410 Expired
//
// The watch cache keeps its own history of events, so compacting etcd is not enough. There are two ways.
// Call [Server.Compact] and then [Server.Restart]; the new watch cache starts at the current resource
// version. Or start the server with --watch-cache=false, so that all reads go to etcd, and call Compact.
//
// # Separate processes
//
// Options.OnlyEtcd and Options.Etcd run etcd and kube-apiserver as separate processes, which can be
// killed and suspended individually, with a proxy between them. API servers that share a store must also
// share their keys; see Options.Like.
//
// # Concurrency
//
// A Server's methods are safe for concurrent use. Except for Install, InstallFiles and AuditEvents, they
// run one at a time. The fields do not change after the start.
//
// # Failure
//
// If the server fails to start, the error starts with the cause, if the server could report it, and
// includes the last lines of the log or the beginning of a crash report. Start also prints the last lines
// if the test fails. A start that cannot succeed fails as soon as the cause is known, and after three
// minutes at the latest. Calls to a server that has exited or is suspended fail immediately.
//
// # Debugging
//
// Set Options.Dir to keep the log, the data and the kubeconfig in a directory of your choice. In a Millrace
// checkout, make kube starts the same server from the command line.
package envtest
