package envtest_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"net/http"
	"os"
	"testing"

	"github.com/millrace-dev/millrace/envtest"
)

// One server for one test. It stops when the test ends.
func ExampleStart() {
	test := func(t *testing.T) {
		srv := envtest.Start(t, envtest.Options{Files: []string{"config/crd/bases"}})
		t.Log(srv.URL, srv.Kubeconfig)
	}
	_ = test
}

// One server for all tests of a package.
func ExampleLaunch() {
	var shared *envtest.Server
	testMain := func(m *testing.M) {
		var err error
		if shared, err = envtest.Launch(context.Background(), envtest.Options{}); err != nil {
			log.Fatal(err)
		}
		code := m.Run()
		if err := shared.Stop(); err != nil {
			log.Fatal(err)
		}
		os.Exit(code)
	}
	_ = testMain
}

// Any client works: this one is net/http.
func ExampleServer() {
	ctx := context.Background()
	srv, err := envtest.Launch(ctx, envtest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Stop()

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(srv.CA)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/api/v1/namespaces/default", nil)
	if err != nil {
		log.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+srv.AdminToken)
	resp, err := client.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output: 200 OK
}

// A user that may read ConfigMaps in one namespace, to test a controller with only
// these rights.
func ExampleServer_AddUser() {
	test := func(t *testing.T) {
		srv := envtest.Start(t, envtest.Options{})
		ann, err := srv.AddUser(t.Context(), envtest.User{Name: "ann", Rules: []envtest.Rule{
			{Namespace: "default", Verbs: []string{"get", "list", "watch"}, Resources: []string{"configmaps"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("KUBECONFIG", ann.Kubeconfig)
	}
	_ = test
}

// How a program copes when its server freezes, dies and returns.
func ExampleServer_Suspend() {
	test := func(t *testing.T) {
		srv := envtest.Start(t, envtest.Options{})
		if err := srv.Suspend(); err != nil { // connections stay open but silent
			t.Fatal(err)
		}
		if err := srv.Resume(); err != nil {
			t.Fatal(err)
		}
		srv.Kill()
		if err := srv.Restart(t.Context()); err != nil { // the same URL, keys and data
			t.Fatal(err)
		}
	}
	_ = test
}

// Two API servers on one etcd, indistinguishable for clients.
func ExampleOptions_replicas() {
	test := func(t *testing.T) {
		etcd := envtest.Start(t, envtest.Options{OnlyEtcd: true})
		one := envtest.Start(t, envtest.Options{Etcd: etcd.URL})
		two := envtest.Start(t, envtest.Options{Etcd: etcd.URL, Like: one})
		one.Kill()
		t.Log("go on with", two.URL)
	}
	_ = test
}

// The webhooks of a configuration in a file are called at Host and Port. The program
// under test serves them there, with the certificates in CertDir.
func ExampleServer_Webhook() {
	test := func(t *testing.T) {
		srv := envtest.Start(t, envtest.Options{Files: []string{"config/crd/bases", "config/webhook/manifests.yaml"}})
		hook, err := srv.Webhook()
		if err != nil {
			t.Fatal(err)
		}
		t.Log(hook.Host, hook.Port, hook.CertDir)
	}
	_ = test
}
