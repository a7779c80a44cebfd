// Package diff briefly describes how two states of an object differ.
package diff
