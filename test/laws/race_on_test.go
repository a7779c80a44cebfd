//go:build race

package laws

// defaultSchedules is a fifth of what runs without the race detector, under which
// a schedule takes ten times as long.
const defaultSchedules = 200
