//go:build race

package share

// raceDetector says that the test runs with it, which makes everything ten times
// slower: what takes long has fewer cases then.
const raceDetector = true
