package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/debugtest"
	"github.com/millrace-dev/millrace/controller"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// faults are the functions that plant the faults in the table of results/faults.md. Each returns
// the flags that the command needs.
func faults() map[string]func(p *sick) []string {
	frozen := func(p *sick) []string {
		const initial = 3 // events of a streaming list
		p.server.Faults().Add(apiservertest.Fault{Verb: "watch", Resource: "pods", Do: []apiservertest.Action{apiservertest.Silence{AfterFrames: initial}}})
		flag := p.run()
		require.NoError(p, p.factory.WaitForSync(p.Context()))
		debugtest.Put(p.T, p.server, object.Key{Namespace: "shop", Name: "web-1"}, corev1.PodFailed)
		return []string{flag, p.address}
	}
	return map[string]func(p *sick) []string{
		"a right is missing": func(p *sick) []string {
			p.server.SetAuthorizer(apiservertest.Deny("", "pods"))
			return []string{p.address}
		},
		"the client certificate has expired": func(p *sick) []string {
			secured, err := p.server.Listen(apiservertest.ListenOptions{TLS: true})
			require.NoError(p, err)
			return []string{"--kubeconfig=" + kubeconfigWith(p.T, secured, expiredPair(p.T))}
		},
		"the token has expired": func(p *sick) []string {
			token := "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, time.Now().Add(-26*time.Hour).Unix())) + ".c2lnbmVk"
			refuses := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusUnauthorized)
				fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`)
			}))
			p.Cleanup(refuses.Close)
			return []string{"--server=" + refuses.URL, "--insecure-skip-tls-verify", "--token=" + token}
		},
		"the clocks differ": func(p *sick) []string {
			return []string{p.behind(func(r *http.Response) {
				r.Header.Set("Date", time.Now().Add(-5*time.Minute).UTC().Format(http.TimeFormat))
			})}
		},
		"a proxy answers instead of the server": func(p *sick) []string {
			page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, "<html><title>Log in</title>")
			}))
			p.Cleanup(page.Close)
			return []string{"--server=" + page.URL}
		},
		"a streaming list never ends": func(p *sick) []string {
			p.server.Faults().Add(apiservertest.Fault{Resource: "pods", Do: []apiservertest.Action{apiservertest.WithholdEnd{}}})
			return []string{p.address}
		},
		"the server accepts connections and says nothing": func(p *sick) []string {
			p.server.Faults().Add(apiservertest.Fault{Resource: "pods", Do: []apiservertest.Action{apiservertest.Silence{}}})
			return []string{p.run()}
		},
		"a custom resource definition is missing": func(p *sick) []string {
			factory.InformerWith(p.factory, factory.For[*unstructured.Unstructured]{Kind: object.GVK{Group: "stable.example.com", Version: "v1", Kind: "CronTab"}})
			return []string{p.run()}
		},
		"the server forgets changes too soon": func(p *sick) []string {
			const initial = 3 // events of a streaming list
			gone := apierrors.NewResourceExpired("too old resource version").Status()
			p.server.Faults().Add(apiservertest.Fault{Verb: "watch", Resource: "pods", Do: []apiservertest.Action{apiservertest.ErrorEvent{AfterFrames: initial + 1, Status: gone}}})
			p.changes()
			return []string{p.run()}
		},
		"a transform fails": func(p *sick) []string {
			factory.InformerWith(p.factory, factory.For[*corev1.Pod]{
				Scope:     factory.Scope{Namespaces: []string{"bank"}},
				Transform: func(*corev1.Pod) (*corev1.Pod, error) { return nil, errQuota },
			})
			return []string{p.run()}
		},
		"a handler is blocked": func(p *sick) []string {
			p.handles(func(ctx context.Context, _ *corev1.Pod, _ bool) error { return hang(ctx, "") })
			return []string{p.run()}
		},
		"a handler panics": func(p *sick) []string {
			p.handles(func(_ context.Context, pod *corev1.Pod, _ bool) error {
				return fmt.Errorf("never %s", pod.Status.ContainerStatuses[0].Name)
			})
			return []string{p.run()}
		},
		"an index has one huge bucket": func(p *sick) []string {
			for n := range 1000 {
				p.put(fmt.Sprint("web-", n))
			}
			sharedinformer.AddIndex(p.pods, "phase", func(p *corev1.Pod) []string { return []string{string(p.Status.Phase)} })
			return []string{p.run()}
		},
		"two informers cache the same": func(p *sick) []string {
			other := factory.New(p.client, factory.Options{Namespaces: []string{"shop"}, Flight: p.recorder})
			factory.Informer[*corev1.Pod](other)
			return []string{p.run(other)}
		},
		"a controller writes what it watches": func(p *sick) []string {
			p.keeper(p.rewrites)
			return []string{p.run()}
		},
		"an object is hot": func(p *sick) []string {
			p.changes()
			return []string{p.run()}
		},
		"something else writes what a controller reconciles": func(p *sick) []string {
			p.changes()
			p.keeper(func(context.Context, string) error { return nil })
			return []string{p.run()}
		},
		"every worker is stuck": func(p *sick) []string {
			p.keeper(hang)
			return []string{p.run()}
		},
		"changes lead to no reconcile": func(p *sick) []string {
			p.keeper(hang, controller.PredicateFunc[*corev1.Pod](func(e sharedinformer.Event[*corev1.Pod]) bool { return false }))
			p.put("web-2", "web-3")
			return []string{p.run()}
		},
		"a handler writes to a cached object": func(p *sick) []string {
			p.handles(func(_ context.Context, pod *corev1.Pod, _ bool) error {
				if pod.Name == "web-1" {
					pod.Labels["app"] = "evil"
				}
				return nil
			})
			return []string{p.run(), p.address}
		},
		"a selector leaves everything out": func(p *sick) []string {
			p.pods = nil
			p.factory = factory.New(p.client, factory.Options{Scope: factory.Scope{Namespaces: []string{"shop"}, Labels: labels.Set{"app": "shop"}.AsSelector()}, Flight: p.recorder})
			factory.Informer[*corev1.Pod](p.factory)
			return []string{p.run(), p.address}
		},
		"a watch is frozen":        frozen,
		"a watch delivers nothing": frozen,
		"more comes than the workers do": func(p *sick) []string {
			p.keeper(func(ctx context.Context, _ string) error {
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
				return nil
			})
			p.often(func(n int) { p.put(fmt.Sprint("web-", n)) })
			return []string{p.run()}
		},
		"a controller waits for an informer": func(p *sick) []string {
			p.keeper(hang)
			p.server.SetAuthorizer(apiservertest.Deny("", "pods"))
			return []string{p.run()}
		},
		"the cache has drifted":       (*sick).drift,
		"the cache misses a deletion": (*sick).drift,
		"a reconcile fails each time": func(p *sick) []string {
			p.keeper(func(context.Context, string) error { return errQuota })
			return []string{p.run()}
		},
		"a reconcile hangs": func(p *sick) []string {
			p.keeper(func(ctx context.Context, name string) error {
				if name == "web-1" {
					return hang(ctx, name)
				}
				return nil
			})
			return []string{p.run()}
		},
		"an object starves behind another": func(p *sick) []string {
			p.keeper(func(ctx context.Context, name string) error {
				if name == "cart-1" {
					return hang(ctx, name)
				}
				return nil
			})
			return []string{p.run()}
		},
		"a predicate leaves the change out": func(p *sick) []string {
			p.changes()
			p.keeper(hang, controller.PredicateFunc[*corev1.Pod](func(e sharedinformer.Event[*corev1.Pod]) bool { return false }))
			return []string{p.run()}
		},
		"another namespace is watched": func(p *sick) []string { return []string{p.run()} },
		"another replica leads": func(p *sick) []string {
			p.election = &leaderelection.Status{Identity: "keeper-0", Holder: "keeper-1", Lease: object.Key{Namespace: "ops", Name: "keeper"}}
			return []string{p.run()}
		},
		"shared work is nobody's": func(p *sick) []string {
			memberLease(p.T, p.server, "m1", "0-11")
			return []string{p.address}
		},
		"another replica has the object": func(p *sick) []string {
			us := &replica{
				Share:   nothingOwned(),
				status:  membership.Status{Group: "carts", Identity: "m1", Slots: 16, Seen: time.Now(), Members: []membership.Member{{Identity: "m1", Weight: 1}, {Identity: "m2", Weight: 1}}},
				holding: membership.Holding{Owner: "m2", To: "m2", Since: time.Now().Add(-time.Hour)},
			}
			f := factory.New(p.client, factory.Options{})
			pods := factory.InformerWith(f, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Share: us}}})
			f.Start(p.Context())
			p.Cleanup(f.Wait)
			require.NoError(p, pods.WaitForSync(p.Context()))
			shown := httptest.NewServer(debug.New(debug.Options{Informers: debug.Of(f), Groups: func() []debug.Membership { return []debug.Membership{us} }}))
			p.Cleanup(shown.Close)
			return []string{"--attach=" + shown.URL, p.address}
		},
		"a controller's own write is not in its cache": func(p *sick) []string {
			const initial = 3 // events of a streaming list
			p.server.Faults().Add(apiservertest.Fault{Verb: "watch", Resource: "pods", Do: []apiservertest.Action{apiservertest.Silence{AfterFrames: initial}}})
			p.keeper(func(ctx context.Context, name string) error {
				if err := p.rewrites(ctx, name); err != nil {
					return err
				}
				return errQuota
			})
			return []string{p.run()}
		},
	}
}

// drift makes an informer miss a deletion.
func (p *sick) drift() []string {
	i, from, process := listener(p.T, p.server, sharedinformer.Options{})
	at := httptest.NewServer(process)
	p.Cleanup(at.Close)
	from.ignore(object.Key{Namespace: "shop", Name: "web-1"})
	require.NoError(p, p.server.Delete(corev1.SchemeGroupVersion.WithResource("pods"), object.Key{Namespace: "shop", Name: "web-1"}))
	p.put("cart-2")
	require.NoError(p, i.WaitForRV(p.Context(), p.server.RV()))
	return []string{"--attach=" + at.URL, p.address}
}

// planted is a row of the table: a fault, the command that finds it, and the beginning of its
// output.
type planted struct{ fault, command, says string }

// tableOfFaults reads the table of results/faults.md.
func tableOfFaults(t *testing.T) (all []planted) {
	t.Helper()
	text, err := os.ReadFile("../../results/faults.md")
	require.NoError(t, err)
	rest := string(text)
	for _, m := range regexp.MustCompile("(?m)^\\| ([^|`]+) \\| `informer-debug ([^`]+)` \\| `([^`]+)` \\|$").FindAllStringSubmatch(rest, -1) {
		all = append(all, planted{m[1], m[2], m[3]})
	}
	require.Equal(t, strings.Count(rest, "\n| "), len(all)+1, "a row is not understood")
	return all
}

// figures matches everything that differs from run to run.
var figures = regexp.MustCompile(`\b\d[\d.]*(?:(?:ns|µs|ms|s|m|h)(?:\d+(?:s|m))*)?\b`)

// matches reports whether line is the expected output, ignoring numbers. "..." at the end matches
// anything.
func (p planted) matches(line string) bool {
	want, open := strings.CutSuffix(figures.ReplaceAllString(p.says, "#"), "...")
	line = figures.ReplaceAllString(line, "#")
	return line == want || open && strings.HasPrefix(line, want)
}

// Every fault in the table is planted, and the command next to it names the fault in its first
// line.
func TestFaultsAreFoundWithOneCommand(t *testing.T) {
	table, faults := tableOfFaults(t), faults()
	says := make([]string, len(table))
	var looking sync.WaitGroup
	for n, row := range table {
		plant := faults[row.fault]
		require.NotNil(t, plant, "nobody plants %q", row.fault)
		flags := plant(newSick(t))
		looking.Go(func() { says[n] = row.look(t, flags) })
	}
	looking.Wait()
	for n, row := range table {
		t.Run(row.fault, func(t *testing.T) {
			require.True(t, row.matches(says[n]), "informer-debug %s says\n%s\nand the table\n%s", row.command, says[n], row.says)
		})
		delete(faults, row.fault)
	}
	require.Empty(t, slices.Collect(maps.Keys(faults)), "the table lacks them")
}

// look runs the command until it prints what it should, or times out, and returns the first line.
// If it prints nothing, look returns the reason why it ended.
func (p planted) look(t *testing.T, flags []string) (first string) {
	args := strings.Fields(strings.ReplaceAll(p.command, " --attach ...", ""))
	for late := time.Now().Add(45 * time.Second); time.Now().Before(late); time.Sleep(100 * time.Millisecond) {
		var stdout, stderr debugtest.Transcript
		run(t.Context(), append(args, flags...), around(&stdout, &stderr))
		if first, _, _ = strings.Cut(stdout.String(), "\n"); first == "" {
			_, first, _ = strings.Cut(strings.TrimSpace(stderr.String()), "informer-debug: ")
		}
		if p.matches(first) {
			return first
		}
	}
	return first
}

// kubeconfigWith writes a kubeconfig with one user.
func kubeconfigWith(t *testing.T, server *apiservertest.Endpoint, user string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(name, []byte("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: '"+server.URL+"', certificate-authority-data: "+base64.StdEncoding.EncodeToString(server.CA)+"}}]\nusers: [{name: u, user: {"+user+"}}]\n"), 0o600))
	return name
}

// behind returns the flag for a reverse proxy that alters answers of the server.
func (p *sick) behind(alter func(*http.Response)) string {
	p.Helper()
	target, err := url.Parse(p.address[len("--server="):])
	require.NoError(p, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(r *http.Response) error { alter(r); return nil }
	front := httptest.NewServer(proxy)
	p.Cleanup(front.Close)
	return "--server=" + front.URL
}

// expiredPair returns a certificate that expired yesterday and its key, in the form of a
// kubeconfig.
func expiredPair(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	until := time.Now().Add(-26 * time.Hour)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "keeper"}, NotBefore: until.Add(-time.Hour), NotAfter: until}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	text := func(kind string, der []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return fmt.Sprintf("client-certificate-data: %s, client-key-data: %s", text("CERTIFICATE", cert), text("PRIVATE KEY", secret))
}
