// Package compare compares an informer's cache with the server, using the metadata of all objects.
package compare
