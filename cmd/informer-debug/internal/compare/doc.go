// Package compare compares the cache of an informer with the server by the metadata of all objects.
package compare
