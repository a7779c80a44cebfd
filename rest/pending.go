package rest

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

type MappingError struct{ Err error }

func (e *MappingError) Error() string { return e.Err.Error() }

func RetryAfter(err error) (time.Duration, bool) {
	s, ok := apierrors.SuggestsClientDelay(err)
	return time.Duration(s) * time.Second, ok
}
