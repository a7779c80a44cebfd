package attach

import "strings"

// CutName splits TYPE/NAME and reports whether there was a slash. TYPE may be an informer's full name, such
// as "pods with labels app.kubernetes.io/name=web". A slash inside its selector does not start a NAME.
func CutName(arg string) (types, name string, named bool) {
	if !strings.Contains(arg, " ") {
		return strings.Cut(arg, "/")
	}
	at := strings.LastIndex(arg, "/")
	if at < 0 || strings.ContainsAny(arg[at:], "=,() ") {
		return arg, "", false
	}
	return arg[:at], arg[at+1:], true
}
