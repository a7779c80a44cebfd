package protobuf

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/rest/scheme"
	"github.com/millrace-dev/millrace/wire/internal/share"
)

// A part without its own memory would never be forgotten.
func TestW03_ZeroSizeValuesAreNotShared(t *testing.T) {
	tables := 0
	for _, typ := range scheme.New().AllKnownTypes() {
		if HasTable(typ) && !ContainsItself(typ) {
			table, err := TableOf(typ, nil)
			require.NoError(t, err)
			requireSizes(t, table)
			tables++
		}
	}
	require.Greater(t, tables, 100)
}

func requireSizes(t *testing.T, table *Table) {
	t.Helper()
	for _, f := range table.fields {
		if f == nil {
			continue
		}
		if f.share != nil {
			require.NotZero(t, f.typ.Size(), "%v", f.typ)
		}
		if f.table != nil {
			requireSizes(t, f.table)
		}
	}
}

// The same bytes may encode a list and a pointer's target.
func TestW03_PointersAndListsAreDifferentParts(t *testing.T) {
	container := reflect.TypeFor[corev1.Container]()
	require.NotSame(t, share.SiteOf(partName{container, opStructPtr, ""}), share.SiteOf(partName{container, opStructs, ""}))
	require.Same(t, share.SiteOf(partName{container, opStructs, ""}), share.SiteOf(partName{container, opStructs, ""}))
}
