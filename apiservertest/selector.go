package apiservertest

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// selector selects the objects that a request refers to.
type selector struct {
	prefix string // path prefix: the namespace and a slash, or empty
	labels labels.Selector
	fields fields.Selector
	shard  *shardSelector // nil means all
}

func (s *selector) matches(v *version) bool {
	return strings.HasPrefix(v.path, s.prefix) && s.shard.matches(v.obj) &&
		(s.labels.Empty() || s.labels.Matches(labels.Set(v.obj.GetLabels()))) &&
		(s.fields.Empty() || s.fields.Matches(v.res.fieldSet(v.obj)))
}

// all reports whether there is no label or field selector.
func (s *selector) all() bool { return s.labels.Empty() && s.fields.Empty() }

// listOptions parses and validates the query of a list, watch or deletecollection, using apimachinery's
// decoder and validation.
func (c *call) listOptions() (*internalversion.ListOptions, *selector, error) {
	opts := &internalversion.ListOptions{}
	query := c.r.URL.Query()
	if c.server.opts.StreamingLists == StreamingListsIgnored {
		query.Del("sendInitialEvents")
		if c.verb == "watch" {
			query.Del("resourceVersionMatch")
		}
	}
	if err := internalscheme.ParameterCodec.DecodeParameters(query, metav1.SchemeGroupVersion, opts); err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	opts.Watch = c.verb == "watch"
	streaming := c.server.opts.StreamingLists == StreamingListsOn
	// A watch without a version, or from version 0, is a streaming list too.
	internalversion.SetListOptionsDefaults(opts, streaming)
	if err := invalidOptions("ListOptions", validation.ValidateListOptions(opts, streaming)); err != nil {
		return nil, nil, err
	}
	sel := &selector{labels: labels.Everything(), fields: fields.Everything()}
	if c.namespace != "" {
		sel.prefix = c.namespace + "/"
	}
	if opts.LabelSelector != nil {
		sel.labels = opts.LabelSelector
	}
	if opts.FieldSelector != nil {
		transformed, err := opts.FieldSelector.Transform(c.coll.fieldLabel)
		if err != nil {
			return nil, nil, apierrors.NewBadRequest(err.Error())
		}
		sel.fields = transformed
	}
	if text := query.Get("shardSelector"); text != "" && c.server.shardSelectors.Load() {
		parsed, err := parseShardSelector(text)
		if err != nil {
			return nil, nil, err
		}
		sel.shard = parsed
	}
	return opts, sel, nil
}
