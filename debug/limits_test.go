package debug_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/workqueue"
)

// viewed are informers built by a test.
type viewed []sharedinformer.View

func (v viewed) Status() []sharedinformer.Status { return nil }
func (v viewed) Views() []sharedinformer.View    { return v }

// renamed is an informer with a neutral name and other objects.
type renamed struct {
	sharedinformer.View
	open func(object.Head) object.Object
}

func (renamed) Name() string { return "plain" }

func (r renamed) Status() sharedinformer.Status {
	s := r.View.Status()
	s.Reflector.Resource, s.Type = "plain", "*v1.Plain"
	return s
}

func (r renamed) Object(h object.Head) (object.Object, error) { return r.open(h), nil }

type wrapped struct{ corev1.Secret }

// A Secret is recognized regardless of the informer's name and the Go type.
func TestASecretUnderAnotherName(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		controllertest.Put(e, pod("shop", "p", "open sesame"))
		pods := factory.Informer[*corev1.Pod](e.Factory)
		sharedinformer.AddIndex(pods, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
		e.Factory.Start(e.Context())
		require.NoError(e, e.Factory.WaitForSync(e.Context()))
		for name, o := range map[string]object.Object{
			"metadata": &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "Secret"}},
			"no kind":  &metav1.PartialObjectMetadata{},
			"wrapped":  &wrapped{},
			"own kind": &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "SealedSecret"}},
		} {
			view := renamed{pods.View(), func(object.Head) object.Object { return o }}
			client := attached(debug.New(debug.Options{Informers: debug.Of(viewed{view}), Contents: true}))
			got, err := client.Object(e.Context(), debug.Which{}, object.Key{Namespace: "shop", Name: "p"})
			require.NoError(e, err)
			require.Nil(e, got.Contents, name)
			require.Contains(e, got.Withheld, "Secrets", name)
			indexes, err := client.Indexes(e.Context(), debug.Which{}, 5)
			require.NoError(e, err)
			require.Empty(e, indexes.Indexes[0].Largest[0].Value, name)
		}
	})
}

// vault is a Go type for Secrets whose name and objects do not reveal that.
type vault struct {
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string][]byte `json:"data"`
}

func (*vault) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

func (v *vault) DeepCopyObject() runtime.Object {
	return &vault{*v.ObjectMeta.DeepCopy(), maps.Clone(v.Data)}
}

// The informer asks its source for the kind, through all wrappers.
func TestASecretOfATypeWithoutAKind(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		controllertest.Put(e, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s"}, Data: map[string][]byte{"word": []byte("open sesame")}})
		vaults := rest.ResourceForKind[*vault](e.Client, corev1.SchemeGroupVersion.WithKind("Secret"))
		all := func(object.Head) bool { return true }
		same := func(v *vault) (*vault, error) { return v, nil }
		for name, from := range map[string]source.ListerWatcher{
			"plain":       vaults.Source(),
			"chosen":      source.Filtered(vaults.Source(), all),
			"transformed": reflector.Transformed(vaults.Source(), same),
			"both":        source.Filtered(reflector.Transformed(vaults.Source(), same), all),
		} {
			for _, store := range []sharedinformer.Store{sharedinformer.Whole, sharedinformer.Packed} {
				i := sharedinformer.New[*vault](from, sharedinformer.Options{Name: name, Store: store})
				sharedinformer.AddIndex(i, "word", func(v *vault) []string { return []string{string(v.Data["word"])} })
				stop := e.Start(i)
				require.NoError(e, i.WaitForSync(e.Context()))
				require.Equal(e, "Secret", i.Status().Kind.Kind, name)
				client := attached(debug.New(debug.Options{Informers: debug.Of(viewed{i.View()}), Contents: true}))
				got, err := client.Object(e.Context(), debug.Which{}, object.Key{Namespace: "shop", Name: "s"})
				require.NoError(e, err)
				require.Nil(e, got.Contents, name)
				require.Contains(e, got.Withheld, "Secrets", name)
				indexes, err := client.Indexes(e.Context(), debug.Which{}, 5)
				require.NoError(e, err)
				require.Empty(e, indexes.Indexes[0].Largest[0].Value, name)
				stop()
			}
		}
	})
}

// A page of large heads is short, and any name can be continued from.
func TestPagesOfLargeHeads(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		const all = 10
		for n := range all {
			p := pod("shop", fmt.Sprintf("p%02d%%", n), "")
			p.Labels["long"] = strings.Repeat("x", 1<<20)
			controllertest.Put(e, p)
		}
		factory.Informer[*corev1.Pod](e.Factory)
		e.Factory.Start(e.Context())
		require.NoError(e, e.Factory.WaitForSync(e.Context()))
		client := attached(debug.New(debug.Options{Informers: debug.Of(e.Factory)}))
		seen, pages := 0, 0
		for page := (debug.Page{Limit: 1000}); ; pages++ {
			o, err := client.Objects(e.Context(), debug.Which{}, page)
			require.NoError(e, err)
			require.NotEmpty(e, o.Heads)
			require.Less(e, len(o.Heads), all)
			seen += len(o.Heads)
			if page.Continue = o.Continue; page.Continue == "" {
				break
			}
		}
		require.Equal(e, all, seen)
		require.Equal(e, 1, pages)
	})
}

// A response that is not from a process is reported as such.
func TestHTMLPageInsteadOfAnAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<html>Log in</html>")
	}))
	defer server.Close()
	client := debug.Attach(server.URL, nil)
	_, err := client.Status(t.Context())
	require.ErrorContains(t, err, `is not a Millrace process: it sent "text/html"`)
	events := 0
	for _, err := range client.Events(t.Context(), "", object.Key{}) {
		require.ErrorContains(t, err, "is not a Millrace process")
		events++
	}
	require.Equal(t, 1, events)
}

// So is an empty response, with its cause.
func TestEmptyAnswer(t *testing.T) {
	for _, code := range []int{http.StatusOK, http.StatusNoContent, http.StatusNotFound, http.StatusServiceUnavailable} {
		client := debug.Attach("http://there", &http.Client{Transport: direct{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
		})}})
		_, err := client.Status(t.Context())
		require.EqualError(t, err, fmt.Sprintf("the server at http://there/debug/millrace/v1/status is not a Millrace process: it sent no Content-Type (HTTP %d)", code))
	}
}

// Keys are formatted by a function of the user.
func TestLongNamesAreShortened(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	queue := workqueue.New(workqueue.Options[int]{Name: "mine"})
	queue.Add(1)
	client := attached(debug.New(debug.Options{Queues: func() (all []debug.Queue) {
		for n := range 50 {
			all = append(all, debug.QueueOf(workqueue.New(workqueue.Options[int]{Name: fmt.Sprint("other-", n)}), strconv.Itoa))
		}
		return append(all, debug.QueueOf(queue, func(int) string { return long }))
	}}))
	keys, err := client.Queue(t.Context(), "mine", 10)
	require.NoError(t, err)
	require.Len(t, keys.Waiting, 1)
	require.Regexp(t, `^é{512}\.\.\.$`, keys.Waiting[0].Key)
	_, err = client.Queue(t.Context(), "none", 10)
	require.ErrorContains(t, err, "Available: other-0, other-1, ")
	require.ErrorContains(t, err, "other-19, and 31 more")
}
