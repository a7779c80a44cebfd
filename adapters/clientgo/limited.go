package clientgo

import (
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// limitsOf returns what a source says of its objects. Of one that does not say, they are
// all there as the server has them.
func limitsOf(from any) source.Limited {
	if limited, ok := from.(source.Limited); ok {
		return limited
	}
	return unlimited{}
}

type unlimited struct{}

func (unlimited) Kept() wire.Fields   { return wire.Fields{} }
func (unlimited) Altered() bool       { return false }
func (unlimited) Reaches(string) bool { return true }
