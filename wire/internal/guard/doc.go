// Package guard knows what apimachinery's own code must not read, because it would
// compute for hours or allocate gigabytes: absurd quantities, and long lists of what
// cannot be their elements. It says where a Go type may hold such values. The room of
// each encoding looks for them in its bytes.
package guard
