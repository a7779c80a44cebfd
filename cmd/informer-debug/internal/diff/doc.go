// Package diff says where two states of an object differ, in few words.
package diff
