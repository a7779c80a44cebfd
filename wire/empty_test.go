package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// policy is a custom type in which an empty list and no list differ: no rule allows everything, an
// empty rule nothing.
type policy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Allowed           []string          `json:"allowed,omitempty"`
	Limits            map[string]string `json:"limits,omitempty"`
}

func (c *policy) DeepCopyObject() kruntime.Object {
	d := *c
	c.ObjectMeta.DeepCopyInto(&d.ObjectMeta)
	if c.Allowed != nil {
		d.Allowed = append([]string{}, c.Allowed...)
	}
	if c.Limits != nil {
		d.Limits = map[string]string{}
		for k, v := range c.Limits {
			d.Limits[k] = v
		}
	}
	return &d
}

// Reading an empty list back as none changes its meaning.
func TestC01_PackedKeepsEmptyListsInCustomTypes(t *testing.T) {
	raw := `{"apiVersion":"example.com/v1","kind":"Policy","metadata":{"name":"c"},"allowed":[],"limits":{}}`
	o, err := wire.UnmarshalJSON[*policy]([]byte(raw), object.GVK{Group: "example.com", Version: "v1", Kind: "Policy"})
	require.NoError(t, err)
	require.NotNil(t, o.Allowed)
	require.Equal(t, o, reopened(t, o))
}
