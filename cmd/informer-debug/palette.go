package main

// palette paints text, or leaves it as it is.
type palette bool

const (
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// newPalette paints on terminals, unless the environment says otherwise
// (https://no-color.org, and terminals that call themselves dumb).
func newPalette(terminal bool, env func(string) string) palette {
	return palette(terminal && env("NO_COLOR") == "" && env("TERM") != "dumb")
}

func (p palette) paint(color, text string) string {
	if !p || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
