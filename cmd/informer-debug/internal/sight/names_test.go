package sight

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/attach"
)

// The name of an informer may contain the commas of its selector, and spaces.
func TestNamesOfInformers(t *testing.T) {
	attached := Sight{Flags: &Flags{Flags: attach.Flags{To: "http://localhost:6060"}}}
	require.Equal(t, []string{"pods", "nodes"}, attached.Names("pods,nodes"))
	require.Equal(t, []string{"pods with labels app in (a,b)"}, attached.Names("pods with labels app in (a,b)"))
}
