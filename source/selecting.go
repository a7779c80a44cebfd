package source

// Selection is what a caller wants of a source, as an API server can select it: by ranges of
// hashes (KEP-5866). Servers that do not know such selectors ignore them, and so does a
// source that has none of its own: who wants only what is selected must choose from what
// comes (see Choosing).
type Selection struct {
	// Selector is what the server is asked with; empty for everything.
	Selector string

	// Answered, if not nil, is called when the server has accepted a request. Its argument is
	// SelectedByServer or NotSelected where the answer tells which: a list does at its end, and a
	// refusal of the selector, after which the source asks without it. It must return soon.
	Answered func(SelectedBy)
}

// Tell calls Answered, if there is one.
func (s Selection) Tell(by SelectedBy) {
	if s.Answered != nil {
		s.Answered(by)
	}
}

// SelectedBy is what an answer says of its selection.
type SelectedBy uint8

const (
	// SelectionNotTold: the answer says nothing, as that to a watch.
	SelectionNotTold SelectedBy = iota
	// SelectedByServer: a list says that the server has selected what is in it.
	SelectedByServer
	// NotSelected: the server does not select, or not by this selector.
	NotSelected
)

// Selector is a ListerWatcher that can have its server select.
type Selector interface {
	ListerWatcher

	// Selecting returns the same source, which asks its server to select.
	Selecting(Selection) ListerWatcher
}

// Selecting returns the source as one that asks its server to select, if it can.
func Selecting(from ListerWatcher, s Selection) ListerWatcher {
	if s.Selector == "" && s.Answered == nil {
		return from // whose own selection stays
	}
	if selector, ok := from.(Selector); ok {
		if selecting := selector.Selecting(s); selecting != nil {
			return selecting
		}
	}
	return from
}
