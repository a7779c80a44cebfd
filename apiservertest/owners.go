package apiservertest

import (
	"errors"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/apiservertest/internal/ownership"
	"github.com/millrace-dev/millrace/object"
)

// directManager is the field manager for changes by [Server.Update] and [Server.Put].
const directManager = "test"

// owners maintains the managed fields of one resource.
type owners struct {
	main   *ownership.Manager // for the resource without its status
	status *ownership.Manager // for the status subresource
	scale  *ownership.Manager // for the scale subresource; nil if there is none
	whole  *ownership.Manager // for the resource and its status together, for writes that bypass HTTP
}

func newOwners(types *ownership.Types, r *Resource) (*owners, error) {
	opts := ownership.Options{Kind: r.GVK(), New: r.New, Schema: r.Schema, Default: r.defaults}
	var o owners
	var errs [4]error
	o.whole, errs[0] = ownership.New(types, opts)
	if r.Status {
		opts.Reset = [][]string{{"status"}}
	}
	o.main, errs[1] = ownership.New(types, opts)
	opts.Subresource, opts.Default, opts.Reset = "status", nil, r.statusKeeps()
	o.status, errs[2] = ownership.New(types, opts)
	if r.Scale != nil {
		opts.Subresource, opts.Reset = "scale", nil
		o.scale, errs[3] = ownership.New(types, opts)
	}
	return &o, errors.Join(errs[:]...)
}

// statusKeeps returns the fields that a status write does not change.
func (r *Resource) statusKeeps() [][]string {
	kept := [][]string{{"spec"}}
	for field, writable := range map[string]bool{
		"labels": r.statusLabels, "annotations": r.statusAnnotations,
		"finalizers": false, "ownerReferences": false, "deletionTimestamp": false,
		"deletionGracePeriodSeconds": !r.custom(), "generateName": !r.custom(),
	} {
		if !writable {
			kept = append(kept, []string{"metadata", field})
		}
	}
	return kept
}

// owners returns the manager for the requested resource or subresource.
func (c *call) owners() (*ownership.Manager, error) {
	o, err := c.coll.owners()
	switch {
	case err != nil:
		return nil, apierrors.NewInternalError(err)
	case c.subresource == "status":
		return o.status, nil
	case c.subresource == "scale":
		return o.scale, nil
	}
	return o.main, nil
}

// owned sets obj's managed fields for a request that replaces live with obj or, if live is nil, creates it.
// Like a real server, it accepts an object that violates its schema.
func (c *call) owned(live, obj object.Object) (object.Object, error) {
	o, err := c.owners()
	if err != nil {
		return nil, err
	}
	if obj, err = o.Update(live, obj, c.manager()); err != nil {
		c.server.opts.Logger.Warn("managed fields not updated", "path", c.r.URL.Path, "error", err)
	}
	return obj, nil
}

// applied merges the request's apply patch into live, which is nil for a creation.
func (c *call) applied(live object.Object, patch *unstructured.Unstructured) (object.Object, error) {
	o, err := c.owners()
	if err != nil {
		return nil, err
	}
	obj, err := o.Apply(live, patch, c.manager(), boolParam(c.r, "force"))
	if _, status := errors.AsType[*apierrors.StatusError](err); err != nil && !status {
		return nil, unclassified(err.Error())
	}
	return obj, err
}

// maxManager is the maximum length of a manager's name.
const maxManager = 128

// manager returns the name of the field manager: the fieldManager parameter or, if it is empty, the
// User-Agent up to the first slash.
func (c *call) manager() string {
	if manager := c.r.URL.Query().Get("fieldManager"); manager != "" {
		return manager
	}
	agent, _, _ := strings.Cut(c.r.UserAgent(), "/")
	for i, r := range agent {
		if i >= maxManager || !unicode.IsPrint(r) {
			return agent[:i]
		}
	}
	return agent
}

// sameButTimes reports whether two states of an object are equal except for their managed fields'
// timestamps.
func sameButTimes(old, obj object.Object) bool {
	entries := obj.GetManagedFields()
	before := old.GetManagedFields()
	if len(entries) != len(before) {
		return false
	}
	for i, e := range entries {
		e.Time = before[i].Time
		if !equality.Semantic.DeepEqual(e, before[i]) {
			return false
		}
	}
	obj.SetManagedFields(before)
	defer obj.SetManagedFields(entries)
	return equality.Semantic.DeepEqual(old, obj)
}
