// Package memory makes and keeps what decoded objects are made of: text, the elements
// of slices, and what a decoder uses again. Nothing in it is safe for concurrent use
// except Arrays.
package memory
