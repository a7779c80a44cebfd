package pack

// census takes samples of what is packed, of which the ground is made: twelve of the first
// thirty-two objects, then twelve that are evenly spread over the next hundred, and so on
// over periods that are each four times as long as the one before. So the ground follows
// what changes, ever more slowly, and there are few of them at any time.
type census struct {
	seen    int // objects
	next    int // which of them is the next sample
	period  int // the end of the period
	samples []byte
	taken   int
}

const (
	// samplesOf is how many objects a ground is made of.
	samplesOf = 12

	// sampleSize is how much of each of them it has.
	sampleSize = largest / samplesOf

	// firstPeriod is how many objects there have to be before there is a ground. A ground
	// takes up to 64 KB, and 32 KB once it is used.
	firstPeriod = 32
)

// note sees one more object. It returns the samples where a new ground is to be made.
func (c *census) note(raw []byte) (samples []byte) {
	if c.period == 0 {
		c.period = firstPeriod
	}
	c.seen++
	if c.seen > c.next && c.taken < samplesOf {
		c.samples = append(c.samples, raw[:min(len(raw), sampleSize)]...)
		c.taken++
		c.next += max(c.period*3/4, firstPeriod/2) / samplesOf
	}
	if c.seen < c.period {
		return nil
	}
	samples = c.samples
	*c = census{seen: c.seen, next: c.seen, period: c.period * 4}
	if len(samples) < smallest {
		return nil
	}
	return samples
}
