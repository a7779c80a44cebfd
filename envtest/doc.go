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
// works with any client. Configure the client with Kubeconfig, with URL, CA and AdminToken, or with a
// client certificate instead of the token. README.md shows how to do this for client-go and
// controller-runtime, and maps the API of controller-runtime's envtest package to this one.
//
// The server provides the complete API: all built-in groups, custom resources, RBAC, admission, and API
// priority and fairness. There are no controllers, no scheduler and no kubelet. As a result, Pods remain
// Pending, a bound Pod is not removed unless deleted with gracePeriodSeconds=0, a deleted Namespace
// remains Terminating, owner references have no effect, and the roles admin, edit and view are empty,
// since it takes a controller to aggregate their rules.
//
// # The first run
//
// The go command builds the program from source. Downloading modules and compiling takes 2 to 10 minutes.
// go test times out after ten minutes, so use a longer -timeout for the first run. The sources are embedded
// in this package; no binary is downloaded. The program takes up 110 MB. It is cached under
// os.UserCacheDir()/millrace, and its name includes a hash of the sources and the Go environment. A file
// lock serializes concurrent builds, so any number of test binaries may call Start at once. To build it
// outside a test's time limit, call [Build] beforehand. Once it is built, the program starts in 2 seconds
// and uses 300 MB of memory.
//
// # Versions
//
// The default is Kubernetes 1.36. The environment variable MILLRACE_KUBERNETES selects
// another minor version, 1.35 or 1.37:
//
//	MILLRACE_KUBERNETES=1.37 go test -count=1 ./...
//
// The go command does not know that the test depends on this variable, so a cached test result may be from
// a different version. Use -count=1 to avoid that. A directory (Options.Dir) can only be reused by the
// same version or the next one.
//
// # Guarantees
//
// The API server listens on 127.0.0.1, and etcd on a Unix socket in the server's directory. URL, CA, tokens
// and data survive a restart. The server exits when Stop is called. It also exits when the process that
// started it dies for any reason, since that closes its stdin. If the server is suspended at that moment,
// it is woken up on Linux so that it can exit; on other systems it is left behind. Start removes temporary
// directories left behind by processes that died at least an hour ago.
//
// A directory can be used by only one server at a time. Kill and Stop do not wait for other calls.
// Instead, they abort calls that are waiting for the server.
//
// # A real 410 Expired
//
// The watch cache keeps its own history of events, so compacting etcd is not enough. Either call
// [Server.Compact] and then [Server.Restart], so that the new watch cache starts at the current resource
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
// A Server's methods are safe for concurrent use. Restart, Compact and Defragment
// run one at a time, and so do calls of AddUser. The fields do not change once the server has started.
//
// # Failure
//
// If the server fails to start, the error contains the cause, if the server was able to report it,
// followed by the last lines of the log or the beginning of a crash report. Start also prints the last
// lines if the test fails. If the server cannot start, the call fails as soon as the cause is known, or
// after three minutes at the latest. Calls to a server that has exited or is suspended fail immediately.
//
// # Debugging
//
// Set Options.Dir to keep the log, the data and the kubeconfig in a directory of your choice. In a Millrace
// checkout, make kube starts the same server from the command line.
package envtest
