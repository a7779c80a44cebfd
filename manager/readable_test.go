package manager

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/shard/membership"
)

func TestErrorsAreReadable(t *testing.T) {
	s := membership.Status{Refusal: fmt.Errorf("no valid Lease: %w", errors.New("forbidden"))}
	all, err := read(reflect.ValueOf(Report{Sharding: &s}))
	require.NoError(t, err)
	text, err := json.Marshal(all)
	require.NoError(t, err)
	require.Contains(t, string(text), `"Refusal":"no valid Lease: forbidden"`)
}
