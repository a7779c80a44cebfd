package protobuf

// apart reports whether what a field of some bytes stands for must not be another object's too,
// because it leads to a quantity that has an address. To read that may write to it, so what is
// read of one object would change the other. The values of maps have no address: who reads one
// reads a copy.
func (f *tableField) apart(value []byte) bool {
	if !f.leads {
		return false
	}
	switch f.op {
	case opOwnPtr, opOwns:
		return f.notes
	case opStructPtr, opStructs:
		return f.notes || f.table.apart(value)
	case opStruct:
		return f.table.apart(value)
	}
	_, value, err := keyAndValue(value) // of an entry of a map
	return err != nil || f.pairs.value.apart(value)
}

// anyApart is apart for all of a run of fields.
func (f *tableField) anyApart(run []byte) bool {
	if !f.leads {
		return false
	}
	for len(run) > 0 {
		var value []byte
		if value, run = next(run); f.apart(value) {
			return true
		}
	}
	return false
}

// partApart is apart for a part.
func (f *tableField) partApart(raw []byte) bool {
	if f.op == opStructPtr || f.op == opOwnPtr {
		return f.apart(raw)
	}
	return f.anyApart(raw)
}

// apart reports whether that holds for a field of a message.
func (t *Table) apart(msg []byte) bool {
	if !t.leads {
		return false
	}
	for len(msg) > 0 {
		field, rest, err := NextField(msg)
		if err != nil {
			return true // nothing will be made of it
		}
		if n := field.Number; n < len(t.fields) && t.fields[n] != nil && t.fields[n].apart(field.Bytes) {
			return true
		}
		msg = rest
	}
	return false
}
