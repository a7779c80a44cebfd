// Package frame splits a body into values without decoding them: watch frames, list items, and the
// fields around items. A Source buffers the body. [JSON], [Protobuf] and [CBOR] find the end of a
// value in it, and their NextFrame methods find a watch frame.
//
// Size and depth are checked before a value is complete, so memory use grows with the bytes received, not
// with declared lengths. None of the types are safe for concurrent use, except that another goroutine may
// decode an [Item] while its [Source] is waiting.
package frame
