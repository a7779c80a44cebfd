// Package diff describes in few words how two states of an object differ.
package diff
