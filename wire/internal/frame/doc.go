// Package frame splits a body into values without decoding them: watch frames, list
// items, and the fields around items. A Source buffers the body. JSON, Protobuf and
// CBOR find in it where a value ends, and NextFrame of each finds a watch frame.
//
// Sizes and depth are checked here, before a value is whole, so memory grows with what
// has arrived and not with what a length announces. Nothing here is safe for concurrent
// use, except that an Item may be decoded elsewhere while its Source waits.
package frame
