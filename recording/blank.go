package recording

// Blank writes over the credentials in a part of a body, in place, and returns how many
// bytes at its end may be the beginning of one, which it left as they are. At the last part,
// after which nothing comes, it writes over those too if they tell one.
type Blank func(body []byte, last bool) (open int)

// blanked returns what may be written now that e has come. A credential may be divided
// among several reads, so what may be the beginning of one is held until more has come.
func (w *ring) blanked(e *event) []event {
	if e.kind != kindChunk || e.blank == nil {
		return append(w.release(e.request), *e)
	}
	all := append(w.held[e.request], *e)
	open := blankAll(all, false)
	ready := len(all)
	for ; open > 0; ready-- {
		open -= len(all[ready-1].payload)
	}
	if delete(w.held, e.request); ready < len(all) {
		w.held[e.request] = append([]event(nil), all[ready:]...)
	}
	return all[:ready]
}

// release returns what is held of a body after which nothing comes.
func (w *ring) release(request uint64) []event {
	held := w.held[request]
	delete(w.held, request)
	if len(held) > 0 {
		blankAll(held, true)
	}
	return held
}

// blankAll writes over the credentials in chunks that follow each other.
func blankAll(chunks []event, last bool) (open int) {
	var body []byte
	for _, c := range chunks {
		body = append(body, c.payload...)
	}
	open = min(chunks[0].blank(body, last), len(body))
	for _, c := range chunks {
		body = body[copy(c.payload, body):]
	}
	return open
}
