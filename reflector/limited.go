package reflector

import (
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// Kept implements source.Limited as the source does.
func (t *transformed) Kept() wire.Fields {
	if limited, ok := t.source.(source.Limited); ok {
		return limited.Kept()
	}
	return wire.Fields{}
}

// Kind implements source.Kinded as the source does.
func (t *transformed) Kind() object.GVK { return source.KindOf(t.source) }

// Origin implements source.Traced as the source does. What is chosen of it has none.
func (t *transformed) Origin() (source.Origin, bool) {
	if t.wanted != nil {
		return source.Origin{}, false
	}
	return source.OriginOf(t.source)
}

// Altered implements source.Limited.
func (t *transformed) Altered() bool { return true }

// Reaches implements source.Limited as the source does.
func (t *transformed) Reaches(namespace string) bool {
	limited, ok := t.source.(source.Limited)
	return !ok || limited.Reaches(namespace)
}
