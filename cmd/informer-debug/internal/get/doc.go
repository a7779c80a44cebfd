// Package get implements the verb get, which shows the contents of caches in kubectl's formats, once or continuously.
package get
