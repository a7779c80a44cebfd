//go:build !race

package share

const raceDetector = false
