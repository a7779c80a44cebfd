// Package playback plays a recording instead of a cluster. It finds the recorded informers and what they watched, sets
// the speed, and waits for the end.
package playback
