// Package pack keeps bytes small: those of objects that have much in common with others.
//
// # How
//
// A text is compressed against a sibling of its group, such as another Pod of the same
// ReplicaSet, with which it shares nearly everything. That sibling is a base of the group. A
// base is itself compressed, against samples of everything that the
// Compressor has seen. So a text is two steps away from plain bytes at most, and a group costs
// no more than the bytes of its first members.
//
//	samples  of everything, plain
//	  ↑
//	base     the first of its shape in a group, compressed against the samples
//	  ↑
//	text     compressed against a base of its group
//
// All compressed bytes are a block of S2. S2 writes those against the samples or alone;
// appendDelta writes those against a base, since siblings need but be walked in step.
//
// A text that no base of its group suits becomes a base itself. A group has a few bases, for objects of
// several shapes, and the oldest is replaced first. So are the samples. Nobody counts the users
// of a base: it is gone when the last text that refers to it is (W03).
//
// # Concurrency
//
// A Compressor is safe for concurrent use. Texts never change.
package pack
