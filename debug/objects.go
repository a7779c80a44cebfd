package debug

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/internal/confidential"
	"github.com/millrace-dev/millrace/object"
)

// Objects is a page of an informer's cache, ordered by namespace and name.
type Objects struct {
	Informer string
	Cluster  string
	Synced   bool   // if false, objects may be missing
	RV       string // resource version the cache had reached
	Cached   int    // number of objects in the cache
	Heads    []Head

	// Continue is the token for the next page, or empty on the last one. Pages are not a consistent snapshot:
	// each is read from the cache as it is at the time.
	Continue string
}

// Head is the part of an object's metadata that is always shown.
type Head struct {
	Namespace  string
	Name       string
	UID        string
	RV         string
	Generation int64 `json:",omitzero"`
	Deleting   bool  `json:",omitzero"` // has a deletion timestamp
	Labels     map[string]string
	Owners     []Owner
}

// mostHeads is the approximate maximum size of the heads in a page, in bytes. The head that exceeds it is the
// last one.
const mostHeads = 8 << 20

// size estimates the JSON size of a head, in bytes.
func (h *Head) size() int {
	n := written(h.Namespace) + written(h.Name) + written(h.UID) + written(h.RV)
	for name, value := range h.Labels {
		n += written(name) + written(value)
	}
	for _, o := range h.Owners {
		n += written(o.Kind) + written(o.Name) + written(o.UID)
	}
	return n
}

// written estimates the JSON size of a string. Escaping turns some characters into six bytes.
func written(text string) int {
	escaped := 0
	for _, c := range []byte(text) {
		if c < ' ' || c == '<' || c == '>' || c == '&' {
			escaped++
		}
	}
	return len(text) + 5*escaped
}

// Owner is an owner reference.
type Owner struct {
	Kind, Name, UID string
	Controller      bool `json:",omitzero"`
}

func headOf(o object.Head) Head {
	h := Head{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()), RV: o.GetResourceVersion(),
		Generation: o.GetGeneration(), Deleting: o.GetDeletionTimestamp() != nil, Labels: o.GetLabels(),
	}
	for _, r := range o.GetOwnerReferences() {
		h.Owners = append(h.Owners, Owner{r.Kind, r.Name, string(r.UID), r.Controller != nil && *r.Controller})
	}
	return h
}

// choose returns the informer that a query selects. A match of the full name takes precedence.
func (p *Process) choose(q query) (one, error) {
	name, cluster, typ := q.get("informer"), q.get("cluster"), q.get("type")
	var found, exact []one
	var names []string
	for _, i := range p.informers() {
		resource := i.status.Reflector.Resource
		names = append(names, describe(i))
		switch {
		case !means(name, i), typ != "" && typ != i.status.Type, q.values["cluster"] != nil && cluster != i.cluster:
		default:
			if found = append(found, i); name != "" && (flight.NamesWhole(name, resource) || name == names[len(names)-1]) {
				exact = append(exact, i)
			}
		}
	}
	if len(exact) > 0 {
		found = exact
	}
	switch {
	case len(found) == 0 && len(names) == 0:
		return one{}, refuse(http.StatusNotFound, "This process exposes no informers.")
	case len(found) == 0:
		return one{}, refuse(http.StatusNotFound, "No such informer. Available: %s.", enumerated(names, "; "))
	case len(found) > 1:
		names = nil
		for _, i := range found {
			names = append(names, describe(i))
		}
		advice := "Select one by its full name, type or cluster."
		if len(slices.Compact(slices.Sorted(slices.Values(names)))) < len(names) {
			advice = "Some have the same name: share one, or name each with sharedinformer.Options.Name."
		}
		return one{}, refuse(http.StatusConflict, "Several informers match: %s. %s", enumerated(names, "; "), advice)
	case found[0].view == nil:
		return one{}, refuse(http.StatusNotFound, "Only the status of %s is available: it is not a Millrace informer.", describe(found[0]))
	}
	return found[0], nil
}

// describe returns an unambiguous name for an informer.
func describe(i one) string { return (&Informer{i.cluster, i.status}).String() }

// means reports whether text, which a user may have typed, selects the informer.
func means(text string, i one) bool {
	return text == "" || flight.Names(text, i.status.Reflector.Resource) || text == describe(i)
}

// mostRequirements limits the size of selectors, since they are matched against every object in a cache.
const mostRequirements = 64

// selectorOf parses the selector parameter of a query.
func selectorOf(q query) (labels.Selector, error) {
	text := q.get("selector")
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "selector=%s: %v", clipped(text), clipped(err.Error()))
	}
	if all, _ := selector.Requirements(); len(all) > mostRequirements {
		return nil, refuse(http.StatusBadRequest, "selector=%s: at most %d requirements are allowed, got %d", clipped(text), mostRequirements, len(all))
	}
	return selector, nil
}

// objects returns a page of objects. It stops early if ctx is canceled because the client has
// disconnected.
func (p *Process) objects(ctx context.Context, q query) (*Objects, error) {
	limit, err := q.number("limit", 100, mostItems)
	if err != nil {
		return nil, err
	}
	selector, err := selectorOf(q)
	if err != nil {
		return nil, err
	}
	i, err := p.choose(q)
	if err != nil {
		return nil, err
	}
	heads, rv := i.view.Heads().Snapshot()
	page := &Objects{Informer: i.view.Name(), Cluster: i.cluster, Synced: i.status.Synced, RV: rv}
	first := pageOf{limit: limit + 1}
	namespace, search := q.get("namespace"), q.get("search")
	after, err := behind(q.get("continue"))
	if err != nil {
		return nil, err
	}
	for o := range heads {
		if page.Cached++; page.Cached%256 == 1 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		switch {
		case namespace != "" && o.GetNamespace() != namespace, !strings.Contains(o.GetName(), search):
		case after != nil && compareKeys(o, *after) <= 0, !selector.Matches(object.Labels(o)):
		default:
			first.add(o)
		}
	}
	slices.SortFunc(first.heads, compareHeads)
	size := 0
	for n, o := range first.heads {
		if n == limit || size > mostHeads {
			page.Continue = token(first.heads[n-1])
			break
		}
		head := headOf(o)
		page.Heads = append(page.Heads, head)
		size += head.size()
	}
	return page, nil
}

func compareHeads(a, b object.Head) int {
	return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
}

// token identifies the last object of a page. It is escaped because JSON cannot represent arbitrary
// bytes.
func token(o object.Head) string {
	return url.PathEscape(o.GetNamespace()) + "/" + url.PathEscape(o.GetName())
}

// behind parses a token. It returns nil for the first page.
func behind(token string) (*object.Key, error) {
	if token == "" {
		return nil, nil
	}
	namespace, name, ok := strings.Cut(token, "/")
	key := object.Key{}
	var err1, err2 error
	key.Namespace, err1 = url.PathUnescape(namespace)
	key.Name, err2 = url.PathUnescape(name)
	if err1 != nil || err2 != nil || !ok {
		return nil, refuse(http.StatusBadRequest, "continue=%s: want the value from the previous page", clipped(token))
	}
	return &key, nil
}

func compareKeys(o object.Head, key object.Key) int {
	return cmp.Or(strings.Compare(o.GetNamespace(), key.Namespace), strings.Compare(o.GetName(), key.Name))
}

// pageOf is a heap containing the smallest heads seen so far. The largest of them is on top.
type pageOf struct {
	heads []object.Head
	limit int
}

func (p *pageOf) add(o object.Head) {
	switch {
	case len(p.heads) < p.limit:
		heap.Push(p, o)
	case compareHeads(o, p.heads[0]) < 0:
		p.heads[0] = o
		heap.Fix(p, 0)
	}
}

func (p *pageOf) Len() int           { return len(p.heads) }
func (p *pageOf) Less(a, b int) bool { return compareHeads(p.heads[a], p.heads[b]) > 0 }
func (p *pageOf) Swap(a, b int)      { p.heads[a], p.heads[b] = p.heads[b], p.heads[a] }
func (p *pageOf) Push(o any)         { p.heads = append(p.heads, o.(object.Head)) }
func (p *pageOf) Pop() any {
	last := p.heads[len(p.heads)-1]
	p.heads = p.heads[:len(p.heads)-1]
	return last
}

// Object is one cached object.
type Object struct {
	Informer string
	Cluster  string
	RV       string // resource version the cache had reached
	Head     Head

	// Contents is the object, or nil if it is withheld. Withheld is the reason.
	Contents json.RawMessage
	Withheld string
}

func (p *Process) object(q query) (*Object, error) {
	i, err := p.choose(q)
	if err != nil {
		return nil, err
	}
	key := object.Key{Namespace: q.get("namespace"), Name: q.get("name")}
	if key.Name == "" {
		return nil, refuse(http.StatusBadRequest, "Specify the object: name, and namespace if it has one.")
	}
	heads := i.view.Heads()
	head, ok := heads.Get(key)
	if !ok {
		return nil, refuse(http.StatusNotFound, "%s is not in the cache of %s, which is complete up to version %q.", clipped(object.FormatKey(key)), describe(i), heads.RV())
	}
	found := &Object{Informer: i.view.Name(), Cluster: i.cluster, RV: heads.RV(), Head: headOf(head)}
	if !p.opts.Contents {
		found.Withheld = "this process shows no contents: manager.Options.DebugContents or debug.Options.Contents would"
		return found, nil
	}
	whole, err := i.view.Object(head)
	if err != nil {
		return nil, err
	}
	if secret(i, whole) {
		found.Withheld = "contents of Secrets are not shown"
		return found, nil
	}
	if found.Contents, err = contentsIn(whole); err != nil {
		return nil, err
	}
	return found, nil
}

// contentsIn encodes an object as JSON, without the last-applied-configuration annotation.
func contentsIn(o object.Object) (json.RawMessage, error) {
	if o.GetAnnotations()[corev1.LastAppliedConfigAnnotation] == "" {
		return json.Marshal(o)
	}
	copied := o.DeepCopyObject().(object.Object)
	annotations := copied.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	copied.SetAnnotations(annotations)
	return json.Marshal(copied)
}

// secret reports whether an object is, or may be, a Secret.
func secret(i one, o object.Object) bool { return named(i) || confidential.Object(o) }

// named reports whether an informer's name, kind or Go type hints at Secrets.
func named(i one) bool {
	return confidential.Named(i.status.Reflector.Resource, i.status.Kind.Kind, i.status.Type)
}

// Indexes contains an informer's indexes.
type Indexes struct {
	Informer string
	Cluster  string
	Indexes  []indexer.IndexStatus

	// Withheld is the reason values are omitted, or empty if none are.
	Withheld string
}

func (p *Process) indexes(q query) (*Indexes, error) {
	limit, err := q.number("limit", 10, mostItems)
	if err != nil {
		return nil, err
	}
	i, err := p.choose(q)
	if err != nil {
		return nil, err
	}
	withhold := p.opts.Contents && secrets(i) // check this first, since the cache may have become empty afterwards
	all := &Indexes{Informer: i.view.Name(), Cluster: i.cluster, Indexes: i.view.Heads().Indexes(limit)}
	switch {
	case !p.opts.Contents:
		all.Withheld = "this process shows no contents, nor values that are drawn from them: manager.Options.DebugContents or debug.Options.Contents would"
	case withhold || secrets(i):
		all.Withheld = "values that are drawn from Secrets are not shown"
	}
	for _, index := range all.Indexes {
		for n := range index.Largest {
			value := &index.Largest[n].Value
			if *value = clipped(*value); all.Withheld != "" {
				*value = ""
			}
		}
	}
	return all, nil
}

// secrets reports whether an informer caches, or could cache, Secrets.
func secrets(i one) bool {
	if named(i) {
		return true
	}
	for head := range i.view.Heads().All() {
		o, err := i.view.Object(head)
		return err != nil || secret(i, o)
	}
	return false
}
