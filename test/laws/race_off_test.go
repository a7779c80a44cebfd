//go:build !race

package laws

// defaultSchedules is how many random schedules a test plays.
const defaultSchedules = 1000
