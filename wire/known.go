package wire

import "github.com/millrace-dev/millrace/object"

// Known returns the object that the caller of a Decoder already has under a key.
// If the server sends the same version again, it is not decoded and the caller
// gets its own object back. Known may be called from any goroutine. It must not
// block, because the body is not read meanwhile. It must not keep the key, because
// the key's text lies in a buffer that is reused.
type Known func(key object.Key) (object.Head, bool)

// version returns the caller's object if it is this version of this object, and
// not of another one with the same name (L04).
func (k Known) version(v object.Version) (have object.Head, ok bool) {
	if k == nil || v.Key.Name == "" || v.RV == "" {
		return have, false
	}
	have, ok = k(v.Key)
	return have, ok && have.GetResourceVersion() == v.RV && have.GetUID() == v.UID
}
