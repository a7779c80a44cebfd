package recording

// Blank writes over the credentials in a part of a body, in place, and returns how many
// bytes at its end may be the beginning of one.
type Blank func(body []byte) (open int)

// blanked returns what may be written now that e has come. A credential may be divided
// among several reads, so what may be the beginning of one is held until more has come.
func (w *ring) blanked(e *event) []event {
	held := w.held[e.request]
	if e.kind != kindChunk || e.blank == nil {
		if held == nil {
			return []event{*e}
		}
		delete(w.held, e.request)
		return append(held, *e)
	}
	all := append(held, *e)
	var body []byte
	for _, chunk := range all {
		body = append(body, chunk.payload...)
	}
	open := e.blank(body)
	ready, at := 0, 0
	for i := range all {
		part := body[at : at+len(all[i].payload)]
		copy(all[i].payload, part)
		if at += len(part); at <= len(body)-open {
			ready = i + 1
		}
	}
	if ready == len(all) {
		delete(w.held, e.request)
	} else {
		w.held[e.request] = append([]event(nil), all[ready:]...)
	}
	return all[:ready]
}
