// Package playback replays a recording in place of a cluster. It finds the recorded informers and their
// scopes, controls the speed, and waits for the recording to end.
package playback
