// Package guard knows what apimachinery's own code must not read, because it would
// compute for hours or allocate gigabytes: absurd quantities, and elements that take far
// more memory than bytes. It says where a Go type may hold such values. The room of
// each encoding looks for them in its bytes.
package guard
