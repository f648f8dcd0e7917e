package properties

import "fmt"

// maxShown is how much of a text a message has, in bytes.
const maxShown = 80

// Show returns s for a message: as it is if it is plain and short, else quoted.
func Show(s string) string {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return Quote(s)
		}
	}
	if len(s) > maxShown {
		return Quote(s)
	}
	return s
}

// Quote returns s in quotes, cut if it is long.
func Quote(s string) string {
	if len(s) > maxShown {
		return fmt.Sprintf("%q…", s[:maxShown])
	}
	return fmt.Sprintf("%q", s)
}
