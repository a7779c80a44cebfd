package controller

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/object"
)

// While a reconcile cleans up after a deletion, the deletion of a child causes another request, which does not say
// whether the parent exists. If the reconcile fails, its retry still knows that the parent is gone.
func TestARetryKnowsThatTheObjectIsGone(t *testing.T) {
	var c causes
	parent, child := object.Key{Name: "parent"}, object.Key{Name: "child"}
	req := Request{Key: parent}
	gone := placement{hash: 1, known: true, existence: objectGone}
	c.add(req, Deleted, nil, child, placement{hash: 2, known: true}, true)
	c.add(req, Failed, nil, parent, gone, true)
	require.Equal(t, placement{hash: 2, known: true, existence: objectGone}, c.placement(req))

	c.add(req, Created, nil, parent, placement{hash: 3, known: true, existence: objectPresent}, true)
	c.add(req, Failed, nil, parent, gone, true)
	require.Equal(t, placement{hash: 3, known: true, existence: objectPresent}, c.placement(req), "the newer event counts")
}
