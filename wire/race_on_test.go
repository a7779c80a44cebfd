//go:build race

package wire

// raceDetector reports whether the race detector is enabled. It makes everything ten times slower,
// so slow tests have fewer cases.
const raceDetector = true
