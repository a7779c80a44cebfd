package hay

import "testing"

func FuzzAHaystack(f *testing.F) {
	f.Add([]byte("......"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 6 && b[0] == 'n' {
			if b[1] == 'e' {
				if b[2] == 'e' {
					if b[3] == 'd' {
						t.Fatal("found")
					}
				}
			}
		}
	})
}

func FuzzNothing(f *testing.F) { f.Fuzz(func(t *testing.T, n int) {}) }
