// Package results is the file in which informer-bench keeps what it measured,
// and the targets that the measurements are held against.
//
// # Usage
//
//	r, err := results.Load("bench.json")
//	for _, v := range r.Check(results.Targets()) {
//		fmt.Println(v)
//	}
//
// # Guarantees
//
// What [Results.Save] writes, [Load] reads. The same results make the same
// bytes. Fields are only ever added to version 1 of the schema.
//
// # Concurrency
//
// Everything is a value; nothing is shared.
//
// # Failure
//
// Load refuses a file of another version, and one with results that cannot be
// told apart. A target whose figures are not in the file is neither met nor
// missed: its verdict says that it was not measured.
//
// # Debugging
//
// The file is indented JSON with sorted names, made to be read and compared.
package results
