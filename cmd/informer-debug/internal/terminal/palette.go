package terminal

// Palette adds colours to text, if true.
type Palette bool

// The colours of a palette.
const (
	Dim    = "2"
	Red    = "31"
	Green  = "32"
	Yellow = "33"
	Cyan   = "36"
)

// NewPalette returns a palette that adds colours on terminals, unless the environment disables them
// (https://no-color.org, or TERM=dumb).
func NewPalette(terminal bool, env func(string) string) Palette {
	return Palette(terminal && env("NO_COLOR") == "" && env("TERM") != "dumb")
}

// Paint returns text in a colour.
func (p Palette) Paint(color, text string) string {
	if !p || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
