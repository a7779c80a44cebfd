package shard

// Scope is what of a kind a process holds: what a key puts into its share. The zero value is
// everything. Two scopes are one where their keys have one name and their shares are equal, so
// a Share must be of a comparable type, such as a pointer.
type Scope struct {
	Key   Key
	Share Share
}

// Everything reports whether the scope leaves nothing out.
func (s Scope) Everything() bool { return s.Share == nil }
