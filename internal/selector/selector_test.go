package selector

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

func TestNoLabels(t *testing.T) {
	web, err := labels.Parse("app=web")
	require.NoError(t, err)
	more, _ := web.Requirements()
	require.False(t, NoLabels(nil))
	require.False(t, NoLabels(labels.Everything()))
	require.False(t, NoLabels(web))
	require.True(t, NoLabels(labels.Nothing()))
	require.True(t, NoLabels(labels.Nothing().Add(more...)))
}

func TestNoFields(t *testing.T) {
	and, none := fields.AndSelectors, fields.Nothing()
	for _, text := range []string{"", "a=b", "a!=b", "a!=", "a=", "a=b,c!=d", "a!=b,a!=bx", "a!=x,a!=xx,a!=", "a=b,a!=c", "a=b,a=c", "a=b,a!=b", `a=b\,c`} {
		s, err := fields.ParseSelector(text)
		require.NoError(t, err)
		require.False(t, NoFields(s), text)
		require.False(t, NoFields(and(fields.Everything(), s)), text)
	}
	a := fields.OneTermEqualSelector("a", "b")
	not := fields.OneTermNotEqualSelector("a", "")
	require.False(t, NoFields(nil))
	for _, s := range []fields.Selector{none, and(none), and(none, none), and(none, a), and(a, none), and(a, and(not, none)), and(and(a, none), not)} {
		require.True(t, NoFields(s), s)
	}
}
