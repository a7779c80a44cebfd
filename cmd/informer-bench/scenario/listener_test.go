package scenario

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func version(rv string) *metav1.ObjectMeta { return &metav1.ObjectMeta{ResourceVersion: rv} }

func TestQuantile(t *testing.T) {
	values := make([]int64, 100)
	for i := range values {
		values[i] = int64(i + 1)
	}
	require.EqualValues(t, 50, Quantile(values, 0.5))
	require.EqualValues(t, 99, Quantile(values, 0.99))
	require.EqualValues(t, 100, Quantile(values, 0.999))
	require.EqualValues(t, 1, Quantile(values, 0))
	require.EqualValues(t, 0, Quantile[int64](nil, 0.5))
}

func TestListenerIsDoneWithTheLastEvent(t *testing.T) {
	l := NewListener(7, "", 0)
	l.HearUpdate(version("5"), version("5"))
	require.Zero(t, l.Heard(), "nothing changed")
	l.HearUpdate(version("5"), version("6"))
	require.EqualValues(t, 1, l.Heard())
	select {
	case <-l.Done():
		t.Fatal("done too early")
	default:
	}
	l.Hear(version("7"))
	<-l.Done()
	require.EqualValues(t, 2, l.Heard())
}
