package conformance

import "fmt"

// clientGo returns the URL of lines in client-go's SharedInformer documentation.
func clientGo(first, last int) string {
	return linesOf("tools/cache/shared_informer.go", first, last)
}

// linesOf returns the URL of lines in a client-go file.
func linesOf(file string, first, last int) string {
	return fmt.Sprintf("https://github.com/kubernetes/client-go/blob/v0.37.2/%s#L%d-L%d", file, first, last)
}
