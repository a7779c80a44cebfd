// Package pack keeps bytes small: those of objects that have much in common with others.
//
// # How
//
// A text is compressed against a sibling of its group, such as another Pod of the same
// ReplicaSet, with which it shares nearly everything. That sibling is a base of the group. A
// base is itself compressed, against the ground of the shelf: samples of all that the
// shelf has seen. So a text is two steps away from plain bytes at most, and a group costs
// no more than the bytes of its first members.
//
//	ground   samples of everything, plain
//	  ↑
//	base     the first of its shape in a group, compressed against the ground
//	  ↑
//	text     compressed against a base of its group
//
// All that is compressed is a block of S2. S2 writes what is against the ground or alone;
// what is against a base is written here, since siblings need but be walked in step.
//
// A text that no base of its group suits becomes a base itself. A group has a few bases, for objects of
// several shapes, and the oldest is replaced first. The ground is replaced, too. Nobody counts the users
// of a base: it is gone when the last text that refers to it is (W03).
//
// # Concurrency
//
// A Shelf is safe for concurrent use. Texts never change.
package pack
