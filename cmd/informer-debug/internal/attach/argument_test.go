package attach

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCutName(t *testing.T) {
	const whole = "pods in namespace shop with labels app.kubernetes.io/name=web"
	for _, c := range []struct {
		arg, types, name string
		named            bool
	}{
		{"pods", "pods", "", false},
		{"pods/web-1", "pods", "web-1", true},
		{"pods/", "pods", "", true},
		{"pods/a/b", "pods", "a/b", true},
		{"pods in namespace shop/web-1", "pods in namespace shop", "web-1", true},
		{whole, whole, "", false},
		{whole + "/web-1", whole, "web-1", true},
		{"pods with labels a.b/c in (d,e)", "pods with labels a.b/c in (d,e)", "", false},
	} {
		types, name, named := CutName(c.arg)
		require.Equal(t, c.types, types, c.arg)
		require.Equal(t, c.name, name, c.arg)
		require.Equal(t, c.named, named, c.arg)
	}
}
