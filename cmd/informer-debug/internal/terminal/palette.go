package terminal

// Palette paints text, or leaves it as it is.
type Palette bool

// What a palette paints in.
const (
	Dim    = "2"
	Red    = "31"
	Green  = "32"
	Yellow = "33"
	Cyan   = "36"
)

// NewPalette paints on terminals, unless the environment says otherwise
// (https://no-color.org, and terminals that call themselves dumb).
func NewPalette(terminal bool, env func(string) string) Palette {
	return Palette(terminal && env("NO_COLOR") == "" && env("TERM") != "dumb")
}

// Paint writes a text in a colour.
func (p Palette) Paint(color, text string) string {
	if !p || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
