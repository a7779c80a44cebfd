package conformance

import "fmt"

// clientGo is where client-go documents its SharedInformer: some lines of that file.
func clientGo(first, last int) string {
	return linesOf("tools/cache/shared_informer.go", first, last)
}

// linesOf are some lines of a file of client-go.
func linesOf(file string, first, last int) string {
	return fmt.Sprintf("https://github.com/kubernetes/client-go/blob/v0.37.2/%s#L%d-L%d", file, first, last)
}
