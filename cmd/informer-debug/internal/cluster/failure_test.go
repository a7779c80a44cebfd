package cluster

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
)

func TestFailureText(t *testing.T) {
	for want, f := range map[string]*failure.Failure{
		"watch: read frame 5: unexpected EOF": {Phase: failure.PhaseWatch, Err: errors.New("watch pods in namespace shop: read frame 5: unexpected EOF"), Attempts: 1},
		"watch: expired: too old (2 in a row)": {Phase: failure.PhaseWatch, Attempts: 2,
			Err: fmt.Errorf("watch pods in namespace shop: %w", apierrors.NewResourceExpired("too old"))},
		"decode frame 1: malformed (shop/web-1)": {Phase: failure.PhaseDecode, Key: object.Key{Namespace: "shop", Name: "web-1"}, Err: errors.New("watch pods in namespace shop: decode frame 1: malformed")},
		"list: no answer":                        {Phase: failure.PhaseList, Err: errors.New("list pods in namespace shop: no answer")},
	} {
		f.Resource = "pods in namespace shop with labels app=web"
		assert.Equal(t, want, FailureText(f))
	}
}
