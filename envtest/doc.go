// Package envtest runs a real kube-apiserver with etcd for the duration of a test.
//
// # Usage
//
//	func TestPods(t *testing.T) {
//		srv := envtest.Start(t, envtest.Options{})
//		// srv.Kubeconfig, or srv.URL with srv.CA and srv.AdminToken
//	}
//
// [Start] skips the test under -short. Tests that share a server use [Launch] in TestMain. The server
// works with any client: pass the client URL, CA and AdminToken, or a certificate, or Kubeconfig.
// README.md shows this for client-go and controller-runtime, and maps the calls of controller-runtime's
// package of the same name to this one.
//
// The server has the complete API: all built-in groups, custom resources, RBAC, admission, priority and
// fairness. There are no controllers, no scheduler and no kubelet. Therefore Pods stay Pending, a bound
// Pod is removed only if it is deleted with gracePeriodSeconds=0, a deleted Namespace stays Terminating,
// owner references have no effect, and the roles admin, edit and view are empty, since a controller
// aggregates their rules.
//
// # The first run
//
// The go command builds the program from source. It downloads modules and compiles for 2 to 10 minutes.
// The time limit of go test is ten minutes, so use a longer -timeout for the first run. The sources are
// embedded in this package; no binary is downloaded. The program takes 110 MB. It is kept under
// os.UserCacheDir()/millrace, named by a hash of the sources and the Go environment. A file lock
// serializes concurrent builds, so any number of test binaries may call Start at once. Call [Build]
// beforehand to build outside of a test's time limit. Once the program is built, a start takes 2 seconds
// and 300 MB of memory.
//
// # Versions
//
// The default is Kubernetes 1.36. The environment variable MILLRACE_KUBERNETES selects
// another minor version, 1.35 or 1.37:
//
//	MILLRACE_KUBERNETES=1.37 go test -count=1 ./...
//
// The go command does not notice that the test reads the variable, so a cached result may be from
// another version; use -count=1 to prevent that. A directory (Options.Dir) can only be used with the
// same version as before or with the next one.
//
// # Guarantees
//
// The API server listens on 127.0.0.1, etcd on a unix socket in the server's directory. URL, CA, tokens
// and data survive a restart. The server ends when Stop is called. It also ends when the process that
// started it dies in any way, since that closes its stdin. On Linux, a server that is suspended at that
// moment is woken up so that it can end; on other systems it remains. A start removes the temporary
// directories of servers whose process died at least an hour ago.
//
// A directory can be used by only one server at a time. Kill and Stop do not wait for other calls; they
// end calls that wait for the server.
//
// # A real 410 Expired
//
// The watch cache has its own memory of events, so compacting etcd is not enough. There are two ways.
// Call [Server.Compact] and then [Server.Restart]; the new watch cache starts at the current resource
// version. Or start with the flag --watch-cache=false, so that all reads go to etcd, and call Compact.
//
// # Separate processes
//
// Options.OnlyEtcd and Options.Etcd run etcd and kube-apiserver as separate processes, which can be
// killed and suspended individually, with a proxy between them. Several API servers with one store must
// share their keys; see Options.Like.
//
// # Concurrency
//
// The methods of a Server are safe for concurrent use. Except for Install, InstallFiles
// and AuditEvents, they run one after the other. The fields do not change after the
// start.
//
// # Failure
//
// If a start fails, the error begins with the cause, if the server could report it, and contains the
// last lines of the log or the beginning of a crash. Start also prints the last lines if the test fails.
// A start that cannot succeed fails as soon as the cause is known, and after three minutes at the
// latest. Calls to a server that has ended or is suspended fail immediately.
//
// # Debugging
//
// Set Options.Dir to keep the log, the data and the kubeconfig in a directory of your choice. In a
// checkout of Millrace, make kube starts the same server from the command line.
package envtest
