// Package envtest runs a real kube-apiserver, with etcd, for the duration of a
// test.
//
// # Usage
//
//	func TestPods(t *testing.T) {
//		srv := envtest.Start(t, envtest.Options{})
//		// srv.Kubeconfig, or srv.URL with srv.CA and srv.AdminToken
//	}
//
// [Start] skips the test under -short. Tests that share a server use [Launch]
// in TestMain. Any client can be used: give it URL, CA and AdminToken, or a certificate, or
// Kubeconfig. README.md has the lines for client-go and controller-runtime, and says which
// calls of controller-runtime's package of the same name have their like here.
//
// There is the API: every built-in group, custom resources, RBAC, admission, priority and
// fairness. There are no controllers, no scheduler and no kubelet. So Pods
// stay Pending, a bound Pod is only gone when it is deleted with
// gracePeriodSeconds=0, a deleted Namespace stays Terminating, owner references collect
// nothing, and the roles admin, edit and view are empty, since a controller gathers their rules.
//
// # The first run
//
// The program is built from source by the go command, which downloads its
// modules and compiles for 2 to 10 minutes, of which go test allows ten: give it a
// longer -timeout that time. Its sources are embedded in this package; no
// binary is downloaded. The result, 110 MB, is kept under
// os.UserCacheDir()/millrace, named by a hash of the sources and of the Go
// environment, and builds excuse themselves from each other by a file lock: any
// number of test binaries may call Start at once. Call [Build] beforehand to
// have this outside of a test's time limit. A start then takes 2 seconds and
// 300 MB of memory.
//
// # Versions
//
// The program is Kubernetes 1.36. The environment variable MILLRACE_KUBERNETES chooses
// another minor version, 1.35 or 1.37:
//
//	MILLRACE_KUBERNETES=1.37 go test -count=1 ./...
//
// The go command does not see that the variable is read, so a cached result may be
// another version's; -count=1 avoids that. A directory (Options.Dir) goes on with the version
// that it had and with the next one, and is refused to others.
//
// # Guarantees
//
// The API server listens on 127.0.0.1, etcd on a unix socket in the server's
// directory. A restart has the same URL, CA, tokens and
// data. The server ends when Stop is called, and also when the process that
// started it dies in whatever way, because its stdin then closes. One that is suspended at
// that moment is woken for it on Linux, and elsewhere stays. A temporary directory that is
// left is removed by a start that comes an hour later or more.
//
// A directory has one server at a time. The methods of a Server may be called from several
// goroutines. Kill and Stop wait for no other call, and end those that wait for the server.
//
// # A real 410 Expired
//
// The watch cache remembers events on its own, so compacting etcd is not enough.
// Either [Server.Compact] and then [Server.Restart]: the new watch cache begins
// at the current resource version. Or start with the flag --watch-cache=false
// and Compact: every read then goes to etcd.
//
// # Parts
//
// Options.OnlyEtcd and Options.Etcd run etcd and kube-apiserver as processes of their
// own, which can be killed and suspended one by one, with a proxy between them. Several
// API servers of one store must share their keys: see Options.Like.
//
// # Concurrency
//
// The methods of a Server may be called from several goroutines; but for Install,
// InstallFiles and AuditEvents they run one after the other. Its fields do not change after
// the start.
//
// # Failure
//
// An error of a start begins with the cause, where the server could still say it, and has the
// last lines of its log, or the beginning of a crash. Start prints the last lines also when
// the test has failed. A start that cannot succeed ends as soon as that is known, and after
// three minutes at the latest. What is asked of a server that has ended, or is suspended,
// fails at once.
//
// # Debugging
//
// Give Options.Dir a directory of your own to keep the log, the data and the
// kubeconfig. In a checkout of Millrace, make kube starts the same server by hand.
package envtest
