package reflector

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
)

func TestAFailureIsLoggedWithEachAttributeOnce(t *testing.T) {
	var log bytes.Buffer
	r := New(&script{}, nil, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	r.record(&failure.Failure{
		Phase: failure.PhaseTransform, Handler: "strip shop/main.go:12",
		Key: object.Key{Namespace: "shop", Name: "x"}, Err: errors.New("no spec"),
	})
	require.Contains(t, log.String(),
		`level=WARN msg="reflector failure" resource=things phase=transform key=shop/x attempts=1 err="no spec" in="strip shop/main.go:12"`)
}
