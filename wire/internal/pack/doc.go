// Package pack compresses objects that have much in common with other objects.
//
// # How
//
// A text is compressed against a sibling from its group, such as another Pod of the same ReplicaSet, which
// is nearly identical. That sibling is one of the group's bases. A base is itself compressed against samples
// of everything that the [Compressor] has seen. Therefore expanding a text takes at most two steps, and a
// group's only overhead is the bytes of its first members.
//
//	samples  of everything, plain
//	  ↑
//	base     the first of its shape in a group, compressed against the samples
//	  ↑
//	text     compressed against a base of its group
//
// All compressed bytes are S2 blocks. S2 itself compresses against the samples, or without a
// dictionary; appendDelta compresses against a base by walking both siblings in parallel.
//
// A text becomes a base itself if none of its group's bases is a good match. A group has a few bases, for
// objects of different shapes, and replaces the oldest one first. Samples are replaced, too. Bases are
// not reference-counted: the garbage collector frees a base after the last text that refers to it (W03).
//
// # Concurrency
//
// A Compressor is safe for concurrent use. Texts never change.
package pack
