package wire

import "github.com/millrace-dev/millrace/object"

// Known gives the object that the caller of a Decoder has under a key. What a
// server sends again in the same version is not decoded then: the caller gets
// back what it has. It may be called from any goroutine. It must not wait, since
// the body is not read meanwhile, and must not keep the key, whose text lies in a
// buffer that is used again.
type Known[T object.Object] func(key object.Key) (T, bool)

// version returns the object that the caller has, where it is this version of
// this object and no other of the same name (L04).
func (k Known[T]) version(key object.Key, uid, rv string) (have T, ok bool) {
	if k == nil || key.Name == "" || rv == "" {
		return have, false
	}
	have, ok = k(key)
	return have, ok && have.GetResourceVersion() == rv && string(have.GetUID()) == uid
}
