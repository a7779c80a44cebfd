// Package playback plays a recording in the place of a cluster: which informers it has, where they
// looked, how fast time goes by, and when it is over.
package playback
