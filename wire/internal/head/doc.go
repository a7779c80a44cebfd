// Package head holds the head of an object that is packed as it came: what is to be known
// of it without decoding it. Packages json and protobuf fill it in.
package head
