package apiservertest

import (
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/millrace-dev/millrace/object"
)

func (c *call) key() object.Key { return object.Key{Namespace: c.namespace, Name: c.name} }

// get serves a single object: the stored one or, if the query specifies a version, the one in the watch
// cache once it has reached that version.
func (c *call) get() error {
	fromCache := c.r.URL.Query().Get("resourceVersion")
	rv, err := parseRV(fromCache)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	if err := c.waitFresh(rv); err != nil {
		return err
	}
	c.server.mu.Lock()
	v, err := c.coll.stored(c.key())
	if fromCache != "" {
		v, err = c.server.shown(c.coll, c.key())
	}
	c.server.mu.Unlock()
	if err != nil {
		return err
	}
	return c.sendVersion(http.StatusOK, v)
}

// dryRun reports whether the request is a dry run, assuming that its options are valid.
func (c *call) dryRun() bool { return c.r.URL.Query().Has("dryRun") }

func (c *call) create() error {
	obj, err := c.bodyObject()
	if err != nil {
		return err
	}
	if err := c.placeInNamespace(obj); err != nil {
		return err
	}
	if rv, err := parseRV(obj.GetResourceVersion()); err == nil && rv != 0 {
		return unclassified("resourceVersion should not be set on objects to be created")
	}
	return c.createNew(obj)
}

// createNew handles a create request for obj.
func (c *call) createNew(obj object.Object) error {
	c.dropDecided(obj)
	if c.coll.defaults != nil {
		c.coll.defaults(obj) // the creator owns the defaults too
	}
	c.reading.applyDefaults(obj)
	obj, err := c.owned(nil, obj)
	if err != nil {
		return err
	}
	return c.sendNew(obj)
}

// dropDecided clears the server-controlled fields of a new object.
func (c *call) dropDecided(obj object.Object) {
	obj.SetUID("")
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetDeletionTimestamp(nil)
	if c.coll.Generation {
		obj.SetGeneration(0)
	}
	if c.coll.Status && !c.coll.keepsStatusOnCreate {
		copyStatus(obj, c.coll.New())
	}
}

// sendNew stores a new object and sends it.
func (c *call) sendNew(obj object.Object) error {
	v, err := c.storeNew(obj)
	if err != nil {
		return err
	}
	return c.sendVersion(http.StatusCreated, v)
}

// storeNew validates and stores a new object received over HTTP.
func (c *call) storeNew(obj object.Object) (*version, error) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opts.NamespaceLifecycle && c.coll.Namespaced {
		if err := s.namespaceExists(obj.GetNamespace()); err != nil {
			return nil, err
		}
	}
	if prefix := obj.GetGenerateName(); obj.GetName() == "" && prefix != "" {
		obj.SetName(s.generateName(prefix))
	}
	errs := validation.ValidateObjectMetaAccessor(obj, c.coll.Namespaced, c.coll.validName, field.NewPath("metadata"))
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(c.coll.GVK().GroupKind(), obj.GetName(), errs)
	}
	if c.dryRun() {
		if _, exists := c.coll.objects[c.coll.pathOf(object.KeyOf(obj))]; exists {
			return nil, apierrors.NewAlreadyExists(c.coll.GroupResource(), obj.GetName())
		}
		return &version{res: &c.coll.Resource, obj: s.prepareNew(c.coll, obj)}, nil
	}
	return s.insert(c.coll, obj)
}

// placeInNamespace sets the object's namespace to the one in the path if it is empty, and rejects any
// other namespace.
func (c *call) placeInNamespace(obj object.Object) error {
	if c.coll.Namespaced && obj.GetNamespace() == "" {
		obj.SetNamespace(c.namespace)
	}
	if obj.GetNamespace() != c.namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// checkPlace checks that the object is the one identified by the path.
func (c *call) checkPlace(obj object.Object) error {
	if obj.GetName() == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", c.name))
	}
	if obj.GetName() != c.name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", obj.GetName(), c.name))
	}
	return c.placeInNamespace(obj)
}

// versionMissing returns the error for an update without a resource version.
func (c *call) versionMissing() error {
	path := field.NewPath("metadata").Child("resourceVersion")
	return apierrors.NewInvalid(schema.GroupKind{Group: c.group, Kind: c.resource}, c.name,
		field.ErrorList{field.Invalid(path, 0, "must be specified for an update")})
}

func (c *call) update() error {
	obj, err := c.bodyObject()
	if err != nil {
		return err
	}
	if err := c.checkPlace(obj); err != nil {
		return err
	}
	v, err := c.storeUpdate(func(cur object.Object) (object.Object, error) {
		return c.owned(cur, clone(obj))
	})
	if c.coll.createsOnUpdate && c.subresource == "" && apierrors.IsNotFound(err) {
		if obj.GetUID() != "" {
			return c.otherUID(obj.GetUID(), "")
		}
		return c.createNew(obj)
	}
	if err != nil {
		return err
	}
	return c.sendVersion(http.StatusOK, v)
}

// storeUpdate replaces the stored object with the result of change, which receives a copy of it.
func (c *call) storeUpdate(change func(cur object.Object) (object.Object, error)) (*version, error) {
	var dry *version
	v, err := c.server.swap(c.coll, c.key(), c.subresource, func(cur *version) (object.Object, error) {
		obj, err := change(clone(cur.readAs(c.reading).obj))
		if err != nil {
			return nil, err
		}
		if obj, err = c.permitted(cur.readAs(c.reading).obj, obj); err != nil || !c.dryRun() {
			return obj, err
		}
		c.coll.prepareNext(cur.obj, c.subresource, obj)
		dry = &version{res: &c.coll.Resource, rv: cur.rv, obj: obj}
		return nil, nil
	})
	if dry != nil {
		return dry, nil
	}
	return v, err
}

// otherUID returns the error for an update whose UID does not match.
func (c *call) otherUID(want, have types.UID) error {
	return apierrors.NewConflict(c.coll.GroupResource(), c.name,
		//lint:ignore ST1005 the words of the real server
		fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", want, have))
}

// permitted checks that obj may replace cur, and restores the fields that the request must not change: the
// status or, on the status subresource, everything else.
func (c *call) permitted(cur, obj object.Object) (object.Object, error) {
	if err := c.checkIdentity(cur, obj); err != nil {
		return nil, err
	}
	if err := c.checkFinalizers(cur, obj); err != nil {
		return nil, err
	}
	if err := c.checkMetadata(obj); err != nil {
		return nil, err
	}
	switch {
	case c.subresource == "status":
		return c.withStatus(cur, obj), nil
	case c.subresource == "binding": // binding writes the node and a condition
		return obj, nil
	case c.coll.Status:
		copyStatus(obj, clone(cur))
	}
	return obj, nil
}

// checkIdentity rejects a different UID. In an update, or in the scale of a built-in resource, the UID
// is a precondition; in a patch, a different UID would be a change. Subresources of custom resources
// ignore a patch's metadata.
func (c *call) checkIdentity(cur, obj object.Object) error {
	uid := obj.GetUID()
	other := uid != "" && uid != cur.GetUID()
	if other && (c.verb == "update" || c.subresource == "scale" && !c.coll.custom()) {
		return c.otherUID(uid, cur.GetUID())
	}
	rv, err := parseRV(obj.GetResourceVersion())
	switch {
	case err != nil:
		return unclassified(err.Error())
	case rv == 0 && c.coll.needsVersion:
		return c.versionMissing()
	case rv != 0 && obj.GetResourceVersion() != cur.GetResourceVersion():
		return conflict(c.coll, c.name)
	}
	if !other || c.subresource != "" && c.coll.custom() {
		return nil
	}
	return apierrors.NewInvalid(c.coll.GVK().GroupKind(), c.name, validation.ValidateImmutableField(uid, cur.GetUID(), field.NewPath("metadata", "uid")))
}

// checkFinalizers rejects new finalizers on an object that is being deleted.
func (c *call) checkFinalizers(cur, obj object.Object) error {
	added := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool {
		return slices.Contains(cur.GetFinalizers(), f)
	})
	if cur.GetDeletionTimestamp() == nil || c.subresource != "" || len(added) == 0 {
		return nil
	}
	path := field.NewPath("metadata").Child("finalizers")
	return apierrors.NewInvalid(c.coll.GVK().GroupKind(), c.name, field.ErrorList{field.Forbidden(path,
		fmt.Sprintf("no new finalizers can be added if the object is being deleted, found new finalizers %#v", added))})
}

// checkMetadata rejects invalid labels, annotations and owner references, such as two controllers, if the request may
// change them. New objects are validated elsewhere.
func (c *call) checkMetadata(obj object.Object) error {
	path, status := field.NewPath("metadata"), c.subresource == "status"
	var errs field.ErrorList
	if c.subresource == "" || status && c.coll.statusLabels {
		errs = append(errs, v1validation.ValidateLabels(obj.GetLabels(), path.Child("labels"))...)
	}
	if c.subresource == "" || status && c.coll.statusAnnotations {
		errs = append(errs, validation.ValidateAnnotations(obj.GetAnnotations(), path.Child("annotations"))...)
	}
	if c.subresource == "" {
		errs = append(errs, validation.ValidateOwnerReferences(obj.GetOwnerReferences(), path.Child("ownerReferences"))...)
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(c.coll.GVK().GroupKind(), c.name, errs)
}

// withStatus returns cur with obj's status, and with its labels and annotations if the resource's status
// strategy allows that.
func (c *call) withStatus(cur, obj object.Object) object.Object {
	result := clone(cur)
	result.SetManagedFields(obj.GetManagedFields())
	copyStatus(result, obj)
	if c.coll.statusLabels {
		result.SetLabels(obj.GetLabels())
	}
	if c.coll.statusAnnotations {
		result.SetAnnotations(obj.GetAnnotations())
	}
	return result
}

func (c *call) delete() error {
	opts, err := c.deleteOptions()
	if err != nil {
		return err
	}
	v, gone, err := c.storeDelete(opts)
	if err != nil {
		return err
	}
	if !gone || c.coll.returnsDeleted {
		return c.sendVersion(http.StatusOK, v)
	}
	return c.sendStatus(metav1.Status{
		Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name:  c.name,
			Group: c.group,
			Kind:  c.resource,
			UID:   v.obj.GetUID(),
		},
	})
}

func (c *call) storeDelete(opts *metav1.DeleteOptions) (*version, bool, error) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	cur, err := c.coll.stored(c.key())
	if err != nil {
		return nil, false, err
	}
	if err := c.checkPreconditions(opts.Preconditions, cur.obj); err != nil {
		return nil, false, err
	}
	v, gone := s.releaseMarked(c.coll, cur, len(opts.DryRun) > 0)
	return v, gone, nil
}

func (c *call) checkPreconditions(p *metav1.Preconditions, obj object.Object) error {
	// The real server uses the kind here, but the resource everywhere else.
	kind := schema.GroupResource{Group: c.group, Resource: c.coll.Kind}
	switch {
	case p == nil:
		return nil
	case p.UID != nil && *p.UID != obj.GetUID():
		return apierrors.NewConflict(kind, obj.GetName(), fmt.Errorf(
			"the UID in the precondition (%s) does not match the UID in record (%s). "+
				"The object might have been deleted and then recreated", *p.UID, obj.GetUID()))
	case p.ResourceVersion != nil && *p.ResourceVersion != obj.GetResourceVersion():
		return apierrors.NewConflict(kind, obj.GetName(), fmt.Errorf(
			"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). "+
				"The object might have been modified", *p.ResourceVersion, obj.GetResourceVersion()))
	}
	return nil
}

// deleteCollection deletes the objects that a list with the same options would return,
// and returns that list.
func (c *call) deleteCollection() error {
	opts, sel, err := c.listOptions()
	if err != nil {
		return err
	}
	deletion, err := c.deleteOptions()
	if err != nil {
		return err
	}
	p, err := c.listPage(opts, sel)
	if err != nil {
		return err
	}
	if err := c.releaseAll(p.items, deletion); err != nil {
		return err
	}
	return c.sendList(p)
}

// releaseAll deletes the objects one by one, stopping at the first that does not meet the preconditions.
func (c *call) releaseAll(items []*version, opts *metav1.DeleteOptions) error {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range items {
		cur, exists := c.coll.objects[v.path]
		if !exists || cur.obj.GetUID() != v.obj.GetUID() {
			continue
		}
		if err := c.checkPreconditions(opts.Preconditions, cur.obj); err != nil {
			return err
		}
		s.releaseMarked(c.coll, cur, len(opts.DryRun) > 0)
	}
	return nil
}
